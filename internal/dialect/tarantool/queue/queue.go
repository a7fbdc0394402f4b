// Package queue has the procedures of Tarantool's queue module as it is today: tubes that have a type, as
// queue.tube.NAME:put(...), tasks with integer ids, and sessions that own what is taken. Clients call them over IPROTO.
// Section numbers are those of the protocol's description.
package queue

import (
	"bytes"
	"time"

	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/engine"
)

// API is the procedures on the tubes of a namespace.
type API struct {
	engine    *engine.Engine
	namespace string
	maxBody   int // of a task that is taken over
	tubes     tubes
	sessions  sessions
}

// New returns the procedures on an engine. A task that is taken over has at most maxBody bytes. The tasks of a session
// stay taken for ttr after its last connection has ended, until a client sets that.
func New(e *engine.Engine, namespace string, maxBody int, ttr time.Duration) *API {
	a := &API{engine: e, namespace: namespace, maxBody: maxBody}
	a.sessions.init(ttr)
	return a
}

// NewClient returns the procedures for a connection.
func (a *API) NewClient(c *proc.Conn) *Client { return &Client{API: a, conn: c} }

// Client is a connection that calls the procedures.
type Client struct {
	*API
	conn    *proc.Conn
	session *session // whose tasks the connection has; nil: none needed so far
	tube    *tube    // whose method was found last
}

// procedures are the methods of tubes, and what there is besides.
var procedures = proc.Procedures[*Client]{
	{"put", (*Client).put},
	{"take", (*Client).take},
	{"ack", (*Client).ack},
	{"release", (*Client).release},
	{"peek", (*Client).peek},
	{"bury", (*Client).bury},
	{"kick", (*Client).kick},
	{"delete", (*Client).remove},
	{"touch", (*Client).touch},
	{"truncate", (*Client).truncate},
	{"release_all", (*Client).releaseAll},
	{"drop", (*Client).drop},
	{"grant", (*Client).nothing},
	{"on_task_change", (*Client).nothing},
	{"queue.create_tube", (*Client).createTube},
	{"queue.tube", (*Client).listTubes},
	{"queue.stats", (*Client).Stats},
	{"queue.identify", (*Client).identify},
	{"queue.cfg", (*Client).configure},
	{"queue.state", (*Client).state},
}

var numbers = procedures.Numbers()

// Names returns the names of the procedures by number.
func Names() []string { return procedures.Names() }

const tubePrefix = "queue.tube."

// Find returns the number of the procedure of a name; -1 if there is none. A method is one of a tube that there is.
func (q *Client) Find(name []byte) int {
	key, isMethod := bytes.CutPrefix(name, []byte(tubePrefix))
	colon := bytes.LastIndexByte(key, ':')
	if isMethod {
		if colon <= 0 {
			return -1
		}
		key = key[colon+1:]
	}
	n, ok := numbers[string(key)]
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

// Run runs the procedure that find has found.
func (q *Client) Run(n int, c *proc.Call) { procedures[n].Run(q, c) }

func (*Client) nothing(c *proc.Call) { c.Nothing() }
