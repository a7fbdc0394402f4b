package tarantool

// legacyProcedures are the procedures, which work on space and tube.
var legacyProcedures = [...]struct {
	name string
	run  func(*legacyAPI, *call)
}{
	{"queue.put", func(a *legacyAPI, c *call) { a.put(c, false) }},
	{"queue.urgent", func(a *legacyAPI, c *call) { a.put(c, true) }},
	{"queue.put_unique", (*legacyAPI).putUnique},
	{"queue.take", (*legacyAPI).take},
	{"queue.ack", (*legacyAPI).ack},
	{"queue.done", (*legacyAPI).finish},
	{"queue.release", (*legacyAPI).release},
	{"queue.requeue", (*legacyAPI).requeue},
	{"queue.bury", (*legacyAPI).bury},
	{"queue.touch", (*legacyAPI).touch},
	{"queue.dig", (*legacyAPI).dig},
	{"queue.unbury", (*legacyAPI).dig},
	{"queue.kick", (*legacyAPI).kick},
	{"queue.delete", (*legacyAPI).remove},
	{"queue.peek", (*legacyAPI).peek},
	{"queue.meta", (*legacyAPI).showMeta},
	{"queue.truncate", (*legacyAPI).truncate},
	{"queue.restart_check", (*legacyAPI).restartCheck},
	{statisticsName, (*legacyAPI).statistics},
	{"queue.statistic", (*legacyAPI).statistics},
}

// statisticsName is the name of a procedure that both sets have.
const statisticsName = "queue.statistics"

var legacyNumbers = func() map[string]int {
	m := make(map[string]int)
	for i := range legacyProcedures {
		m[legacyProcedures[i].name] = i
	}
	return m
}()

// legacyNames returns the names of the procedures by number.
func legacyNames() (names []string) {
	for i := range legacyProcedures {
		names = append(names, legacyProcedures[i].name)
	}
	return names
}

// findLegacy returns the number of the procedure of a name; -1 if there is none.
func findLegacy(name []byte) int {
	if n, ok := legacyNumbers[string(name)]; ok {
		return n
	}
	return -1
}

// run runs a procedure.
func (a *legacyAPI) run(n int, c *call) { legacyProcedures[n].run(a, c) }
