package tarantool

import (
	"bytes"

	"millrace/internal/engine"
)

// queueAPI is today's procedures: tubes with a type, tasks with integer ids.
type queueAPI struct {
	engine    *engine.Engine
	namespace string
	maxBody   int // of a task that is taken over
	tubes     tubes
	sessions  sessions
}

// queueClient is a connection that calls the procedures.
type queueClient struct {
	*queueAPI
	conn    *conn
	session *session // whose tasks the connection has; nil: none needed so far
	tube    *tube    // whose method was found last
}

// queueProcedures are the methods of tubes, and what there is besides.
var queueProcedures = [...]struct {
	name string
	run  func(*queueClient, *call)
}{
	{"put", (*queueClient).put},
	{"take", (*queueClient).take},
	{"ack", (*queueClient).ack},
	{"release", (*queueClient).release},
	{"peek", (*queueClient).peek},
	{"bury", (*queueClient).bury},
	{"kick", (*queueClient).kick},
	{"delete", (*queueClient).remove},
	{"touch", (*queueClient).touch},
	{"truncate", (*queueClient).truncate},
	{"release_all", (*queueClient).releaseAll},
	{"drop", (*queueClient).drop},
	{"grant", (*queueClient).nothing},
	{"on_task_change", (*queueClient).nothing},
	{"queue.create_tube", (*queueClient).createTube},
	{"queue.tube", (*queueClient).listTubes},
	{"queue.stats", (*queueClient).stats},
	{"queue.identify", (*queueClient).identify},
	{"queue.cfg", (*queueClient).configure},
	{"queue.state", (*queueClient).state},
}

var queueNumbers = func() map[string]int {
	m := make(map[string]int)
	for i := range queueProcedures {
		m[queueProcedures[i].name] = i
	}
	return m
}()

// queueNames returns the names of the procedures by number.
func queueNames() (names []string) {
	for i := range queueProcedures {
		names = append(names, queueProcedures[i].name)
	}
	return names
}

const tubePrefix = "queue.tube."

// find returns the number of the procedure of a name; -1 if there is none. A method is one of a tube that there is.
func (q *queueClient) find(name []byte) int {
	key, isMethod := bytes.CutPrefix(name, []byte(tubePrefix))
	colon := bytes.LastIndexByte(key, ':')
	if isMethod {
		if colon <= 0 {
			return -1
		}
		key = key[colon+1:]
	}
	n, ok := queueNumbers[string(key)]
	if !ok || isMethod == bytes.Contains(key, []byte(".")) { // the others have one in their name
		return -1
	}
	if isMethod {
		if q.tube = q.findTube(name[len(tubePrefix) : len(tubePrefix)+colon]); q.tube == nil {
			return -1
		}
	}
	return n
}

// run runs the procedure that find has found.
func (q *queueClient) run(n int, c *call) { queueProcedures[n].run(q, c) }

func (*queueClient) nothing(c *call) { c.nothing() }
