package queue

import (
	"cmp"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// session is a queue session: who owns the tasks that its connections have taken.
type session struct {
	id     dialect.UUID
	holder job.Holder
	// Guarded by sessions.mu.
	conns  int
	until  time.Time // when its grace ends; zero while it has connections
	listed bool      // in sessions.left
}

// sessions are the queue sessions of a dialect.
type sessions struct {
	// mu guards what follows. It is held while the end or the resumption of a
	// session is submitted, so that the engine sees them in the order in which
	// they happened.
	mu   sync.Mutex
	byID map[dialect.UUID]*session
	left []*session // those that lost their last connection, in that order, until they are over
	ttr  time.Duration

	leftMax int // of left, if not sessionsLeftMax
}

// sessionsLeftMax bounds the sessions without a connection that are remembered. One more ends at once, as without a
// grace: who connects and identifies itself again and again must not use up the memory.
const sessionsLeftMax = 100_000

func (s *sessions) init(ttr time.Duration) {
	s.byID = make(map[dialect.UUID]*session)
	s.ttr = ttr
}

// owner returns the session's holder and makes a session if there is none yet.
func (q *Client) owner() job.Holder {
	if q.session == nil {
		s := &session{id: dialect.NewUUID(), holder: q.engine.NewHolder(), conns: 1}
		all := &q.sessions
		all.mu.Lock()
		all.byID[s.id] = s
		all.mu.Unlock()
		q.session = s
	}
	return q.session.holder
}

// Leave ends the connection's part in its session.
func (q *Client) Leave() {
	if q.session == nil {
		return
	}
	s := q.session
	q.session = nil
	q.conn.CancelTakes(s.holder)
	all := &q.sessions
	done := make(chan struct{})
	req := &engine.Request{Done: func(*engine.Request) { close(done) }}
	all.mu.Lock()
	s.conns--
	ends := s.conns == 0
	if ends {
		req.Commands = []job.Command{&job.EndHolder{Holder: s.holder, Grace: all.end(s)}}
		q.engine.Submit(req)
	}
	all.mu.Unlock()
	if ends {
		<-done
	}
}

// end notes that a session has lost its last connection, and returns how long it stays. The caller holds mu.
func (s *sessions) end(last *session) (grace time.Duration) {
	now := time.Now()
	for len(s.left) > 0 && (s.left[0].conns > 0 || s.left[0].over(now)) {
		if s.left[0].conns == 0 {
			delete(s.byID, s.left[0].id)
		}
		s.left[0].listed = false
		s.left[0] = nil
		s.left = s.left[1:]
	}
	if last.listed || len(s.left) < cmp.Or(s.leftMax, sessionsLeftMax) {
		grace = s.ttr
	}
	last.until = now.Add(grace)
	switch {
	case last.over(now):
		delete(s.byID, last.id)
	case !last.listed:
		last.listed = true
		s.left = append(s.left, last)
	}
	return grace
}

// over reports whether nobody can join the session any more.
func (s *session) over(now time.Time) bool { return !s.until.IsZero() && !now.Before(s.until) }

// join makes the connection one of another session. It reports false if there is no
// such session.
func (q *Client) join(id dialect.UUID) bool {
	if q.session != nil && q.session.id == id {
		return true
	}
	all := &q.sessions
	done := make(chan struct{})
	req := &engine.Request{Done: func(*engine.Request) { close(done) }}
	all.mu.Lock()
	s := all.byID[id]
	if s == nil || s.over(time.Now()) {
		all.mu.Unlock()
		return false
	}
	s.conns++
	resumed := !s.until.IsZero()
	if resumed {
		s.until = time.Time{}
		req.Commands = []job.Command{&job.ResumeHolder{Holder: s.holder}}
		q.engine.Submit(req)
	}
	all.mu.Unlock()
	if resumed {
		<-done
	}
	q.Leave()
	q.session = s
	return true
}

// identify is queue.identify.
func (q *Client) identify(c *proc.Call) {
	arg := c.Args.At(0)
	if !arg.IsNil() {
		id, ok := arg.Bytes()
		if !ok || len(id) != len(dialect.UUID{}) {
			c.Raise("Invalid UUID format.")
			return
		}
		c.Settle()
		if u := dialect.UUID(id); !q.join(u) {
			c.Raise("The UUID " + u.String() + " is unknown.")
			return
		}
	}
	q.owner()
	r := c.Begin()
	r.Lone()
	r.Text(q.session.id[:])
	c.End(&r)
}

// configure is queue.cfg. Everything is checked before anything is set.
func (q *Client) configure(c *proc.Call) {
	opts, ok := c.Args.At(0).Fields()
	if !ok {
		c.Raise(proc.TextInvalid)
		return
	}
	ttr, set := time.Duration(0), false
	for key, val, more := opts.Next(); more; key, val, more = opts.Next() {
		name, _ := key.Bytes()
		switch string(name) {
		case "ttr":
			f, ok := val.Number()
			if !ok || f < 0 {
				c.Raise("Invalid value of ttr: " + show(val))
				return
			}
			ttr, set = proc.Seconds(f), true
		case "in_replicaset":
			if _, ok := val.Bool(); !ok {
				c.Raise("Invalid value of in_replicaset: " + show(val))
				return
			}
		default:
			c.Raise("Unknown option " + show(key))
			return
		}
	}
	if set {
		all := &q.sessions
		all.mu.Lock()
		all.ttr = ttr
		all.mu.Unlock()
	}
	c.Nothing()
}

// state is queue.state.
func (*Client) state(c *proc.Call) {
	r := c.Begin()
	r.Lone()
	r.Str("RUNNING")
	c.End(&r)
}
