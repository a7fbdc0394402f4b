package queue

import (
	"cmp"
	"sync"
	"sync/atomic"
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
	kept   atomic.Int64 // the grace, a time.Duration, that a restart gives it; negative: not known
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

	ttr atomic.Int64 // the grace of a session, a time.Duration

	leftMax int // of left, if not sessionsLeftMax
}

// sessionsLeftMax bounds the sessions without a connection that are remembered. One more ends at once, as without a
// grace: who connects and identifies itself again and again must not use up the memory.
const sessionsLeftMax = 100_000

func (s *sessions) init(ttr time.Duration) {
	s.byID = make(map[dialect.UUID]*session)
	s.ttr.Store(int64(ttr))
}

// ttrSpace is where queue.cfg keeps what a client has set, by namespace.
const ttrSpace = "tarantool.session_ttr"

// SessionTTR returns the grace of sessions that a client has set at some time, or else the one that is configured. An
// engine that cannot be read has failed, or its term is over: nobody will be served by it.
func SessionTTR(e *engine.Engine, namespace string, configured time.Duration) time.Duration {
	text, ok, err := e.Value(ttrSpace, namespace)
	if err != nil || !ok {
		return configured
	}
	if ttr, err := time.ParseDuration(string(text)); err == nil {
		return ttr
	}
	return configured
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

// keep has the session outlive restarts and changes of leader, if it has a grace, and reports whether it has. A session
// without a grace costs nothing. If the engine refuses to keep another one, the session ends with the process as one
// without a grace does, and the next take asks again.
func (q *Client) keep(wait bool) bool {
	s, all := q.session, &q.sessions
	grace := all.ttr.Load()
	if s.kept.Load() == grace {
		return grace > 0
	}
	done := make(chan struct{})
	req := &engine.Request{Done: func(r *engine.Request) {
		if r.Results[0].Err != nil {
			s.kept.CompareAndSwap(grace, -1)
		}
		close(done)
	}}
	req.Commands = []job.Command{&job.KeepHolder{KeptHolder: job.KeptHolder{
		Name: string(s.id[:]), Holder: s.holder, Grace: time.Duration(grace),
	}}}
	all.mu.Lock()
	s.kept.Store(grace)
	q.engine.Submit(req)
	all.mu.Unlock()
	if wait {
		<-done
	}
	return grace > 0
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
		grace = time.Duration(s.ttr.Load())
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

// recall returns a session from before the engine was started, or from under another leader; nil: there is none in its
// grace.
func (q *Client) recall(id dialect.UUID) (*session, error) {
	q.sessions.mu.Lock()
	known := q.sessions.byID[id] != nil
	q.sessions.mu.Unlock()
	if known {
		return nil, nil
	}
	k, ok, err := q.engine.KeptHolder(string(id[:]))
	if err != nil || !ok {
		return nil, err
	}
	s := &session{id: id, holder: k.Holder, until: time.Now().Add(k.Grace)}
	s.kept.Store(int64(k.Grace))
	return s, nil
}

// join makes the connection one of another session. It reports false if there is no
// such session.
func (q *Client) join(id dialect.UUID) (bool, error) {
	if q.session != nil && q.session.id == id {
		return true, nil
	}
	recalled, err := q.recall(id)
	if err != nil {
		return false, err
	}
	all := &q.sessions
	done := make(chan struct{})
	req := &engine.Request{Done: func(*engine.Request) { close(done) }}
	all.mu.Lock()
	s := all.byID[id]
	if s == nil && recalled != nil {
		s = recalled
		all.byID[id] = s
	}
	if s == nil || s.over(time.Now()) {
		all.mu.Unlock()
		return false, nil
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
		if s == recalled && req.Results[0].Count == 0 { // its grace ended in between: it has nothing left
			s.kept.Store(-1)
		}
	}
	q.Leave()
	q.session = s
	return true, nil
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
		u := dialect.UUID(id)
		joined, err := q.join(u)
		if err != nil {
			c.ReadFailed(err)
			return
		}
		if !joined {
			c.Raise("The UUID " + u.String() + " is unknown.")
			return
		}
	}
	q.owner()
	q.keep(true)
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
	ttr, given := time.Duration(0), false
	for key, val, more := opts.Next(); more; key, val, more = opts.Next() {
		name, _ := key.Bytes()
		switch string(name) {
		case "ttr":
			f, ok := val.Number()
			if !ok || f < 0 {
				c.Raise("Invalid value of ttr: " + show(val))
				return
			}
			ttr, given = proc.Seconds(f), true
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
	if !given {
		c.Nothing()
		return
	}
	// What cannot be stored is not so until the next start either.
	set := &job.SetValue{Space: ttrSpace, Name: q.namespace, Value: []byte(ttr.String())}
	if err := c.Do(set)[0].Err; err != nil {
		c.Refuse(err)
		return
	}
	q.sessions.ttr.Store(int64(ttr))
	c.Nothing()
}

// state is queue.state.
func (*Client) state(c *proc.Call) {
	r := c.Begin()
	r.Lone()
	r.Str("RUNNING")
	c.End(&r)
}
