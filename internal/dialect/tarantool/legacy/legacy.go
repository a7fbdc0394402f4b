// Package legacy has the queue procedures of Tarantool 1.5, as queue.put(space, tube, ...): spaces with tubes that need
// not be created, tasks with string ids. Clients call them over IPROTO and over the protocol of Tarantool 1.5.
// Section numbers are those of the protocol's description.
package legacy

import (
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/engine"
)

// API is the legacy procedures on the queues of an engine.
type API struct {
	engine    *engine.Engine
	namespace string // of space 0
	stats     stats

	// What answers the calls. They are made once, because calls are many.
	onPut, onPutUnique, onTake                      proc.Done
	onAck, onDone, onRelease, onPostpone, onRequeue proc.Done
	onBury, onTouch, onDelete, onDig                proc.Done
}

// New returns the procedures on an engine.
func New(e *engine.Engine, namespace string) *API {
	a := &API{engine: e, namespace: namespace}
	a.onPut, a.onPutUnique, a.onTake = a.putDone, a.uniqueDone, a.takeDone
	a.onAck = a.settled(countAck, textOwnerAck, taken)
	a.onDone = a.settled(countDone, textOwnerDone, done)
	a.onRelease = a.settled(countRelease, textOwnerRelease, ready)
	a.onPostpone = a.settled(countRelease, textOwnerRelease, delayed)
	a.onRequeue = a.settled(countRequeue, textOwnerRelease, ready)
	a.onBury = a.settled(countBury, textOwnerDone, buried)
	a.onTouch = a.settled(countTouch, textOwnerTouch, taken)
	a.onDelete = a.settled(countDelete, textNotTaken, "")
	a.onDig = a.settled(countDig, textNotBuried, ready)
	return a
}

// Start remembers what the engine has counted before the server starts. It may be called more than once.
func (a *API) Start() error { return a.stats.start(a.engine) }

// Used reports whether any tube has been used since the start.
func (a *API) Used() bool { return a.stats.used() }

// procedures are the procedures, which work on space and tube.
var procedures = proc.Procedures[*API]{
	{"queue.put", func(a *API, c *proc.Call) { a.put(c, false) }},
	{"queue.urgent", func(a *API, c *proc.Call) { a.put(c, true) }},
	{"queue.put_unique", (*API).putUnique},
	{"queue.take", (*API).take},
	{"queue.ack", (*API).ack},
	{"queue.done", (*API).finish},
	{"queue.release", (*API).release},
	{"queue.requeue", (*API).requeue},
	{"queue.bury", (*API).bury},
	{"queue.touch", (*API).touch},
	{"queue.dig", (*API).dig},
	{"queue.unbury", (*API).dig},
	{"queue.kick", (*API).kick},
	{"queue.delete", (*API).remove},
	{"queue.peek", (*API).peek},
	{"queue.meta", (*API).showMeta},
	{"queue.truncate", (*API).truncate},
	{"queue.restart_check", (*API).restartCheck},
	{Statistics, (*API).statistics},
	{"queue.statistic", (*API).statistics},
}

// Statistics is the name of a procedure that both sets have.
const Statistics = "queue.statistics"

var numbers = procedures.Numbers()

// Names returns the names of the procedures by number.
func Names() []string { return procedures.Names() }

// Find returns the number of the procedure of a name; -1 if there is none.
func Find(name []byte) int {
	if n, ok := numbers[string(name)]; ok {
		return n
	}
	return -1
}

// Run runs a procedure.
func (a *API) Run(n int, c *proc.Call) { procedures[n].Run(a, c) }
