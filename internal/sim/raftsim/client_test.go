package raftsim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	namespace = "n"
	space     = "s"
	// answerWithin is how long a client waits for an answer at most before it goes away.
	answerWithin = 8 * time.Second
	// lease is longer than any run, also if the time jumps by as much as the clocks are apart.
	lease = 1000 * time.Hour
)

// kind is what a client does.
type kind uint8

const (
	opSet kind = iota + 1
	opSetAbsent
	opDrop
	opRead
	opPush
	opFetch
	opFirm
	opAck
	opDelete
	opGet
)

var kindNames = [...]string{
	opSet: "set", opSetAbsent: "set if absent", opDrop: "drop", opRead: "read", opPush: "push", opFetch: "fetch",
	opFirm: "firm fetch", opAck: "ack",
	opDelete: "delete", opGet: "get",
}

// op is something that a client has asked for.
type op struct {
	client    int
	kind      kind
	key       string // of the value, or what tells the job
	queue     string
	value     string
	call, ret int64 // ret is far away if it is unknown what has come of it
	known     bool
	found     bool   // it has done it, or found it
	got       string // what was read
}

func (o *op) String() string {
	outcome := "unknown"
	if o.known {
		outcome = fmt.Sprintf("%v %s", o.found, o.got)
	}
	return fmt.Sprintf("%d-%d client %d: %s %s %s%s: %s", o.call, o.ret, o.client, kindNames[o.kind], o.key,
		o.queue, o.value, outcome)
}

// unknown is when something returns of which nobody knows.
const unknown = 1 << 40

// held is a job that a client was given.
type held struct {
	ref    job.Ref
	key    string
	holder job.Holder
}

// client works with whatever node leads.
type client struct {
	run    *run
	number int
	rng    *rand.Rand
	reads  bool // it does little else: reads wait for what was written before
	count  int
	held   []held
}

// work does one thing after the other.
func (c *client) work() {
	for {
		select {
		case <-c.run.over:
			return
		case <-time.After(time.Duration(c.rng.Int64N(int64(40 * time.Millisecond)))):
		}
		s := c.run.session(c.rng.IntN(len(c.run.nodes)), !c.reads)
		if s == nil {
			continue
		}
		c.step(s)
	}
}

// step does something.
func (c *client) step(s *session) {
	c.count++
	// Every two seconds other names are used, so that histories stay short.
	value := fmt.Sprintf("%s%d", string("xyz"[c.rng.IntN(3)]), time.Since(c.run.began)/(2*time.Second))
	queue := "q" + strconv.Itoa(c.rng.IntN(6))
	own := fmt.Sprintf("%d-%d", c.number, c.count)
	n := c.rng.IntN(100)
	if c.reads {
		n = choose(c.rng, 26, 26, 26, 100)
		// A fetch may write, and reads would wait for that: it comes when another term has begun.
		if c.run.truth.term() > s.term {
			n = choose(c.rng, 26, 100, 101)
		}
	}
	switch {
	case n < 12:
		c.do(s, &op{kind: opSet, key: value, value: own}, &job.SetValue{Space: space, Name: value, Value: []byte(own)})
	case n < 22:
		c.do(s, &op{kind: opSetAbsent, key: value, value: own},
			&job.SetValue{Space: space, Name: value, Value: []byte(own), IfAbsent: true})
	case n < 26:
		c.do(s, &op{kind: opDrop, key: value}, &job.DropValue{Space: space, Name: value})
	case n < 42:
		c.read(s, value)
	case n < 62:
		c.push(s, own, queue)
	case n < 80:
		c.fetch(s, queue)
	case n < 94:
		c.settle(s)
	case n < 100:
		c.get(s)
	case n < 101: // is refused, and writes nothing
		c.do(s, &op{kind: opAck, key: "nothing"},
			&job.Ack{Ref: job.ByKey(namespace, "nothing"), Need: job.NeedUnfinished})
	default:
		c.fetch(s, queue)
	}
}

// begin notes what a client asks for.
func (c *client) begin(o *op) (term uint64) {
	o.client, o.ret = c.number, unknown
	o.call = c.run.stamp.Add(1)
	c.run.mu.Lock()
	c.run.ops = append(c.run.ops, o)
	c.run.mu.Unlock()
	return c.run.truth.term()
}

// answered notes an answer that a client has got, of an engine of a term. Another one may have begun before it was
// asked for.
func (c *client) answered(s *session, o *op, at int64, begun uint64) {
	o.ret, o.known = at, true
	c.run.count(&c.run.seen.answered[o.kind])
	if !o.found {
		c.run.count(&c.run.seen.refused)
	}
	if begun > s.term {
		c.run.fail(fmt.Errorf("%s: term %d has answered, and term %d had begun before it was asked: %s", rule(o.kind),
			s.term, begun, o))
	}
}

// rule is which rule an answer of a kind must keep.
func rule(k kind) string {
	switch k {
	case opFetch, opFirm:
		return "R-6"
	case opRead, opGet:
		return "R-7"
	case opSet, opSetAbsent, opDrop, opPush, opAck, opDelete:
	}
	return "R-3, R-7"
}

// do has the engine apply a command, and returns what it has answered; nil: nobody knows.
func (c *client) do(s *session, o *op, cmd job.Command) *job.Result {
	type answer struct {
		res job.Result
		at  int64
	}
	answers := make(chan answer, 1)
	begun := c.begin(o)
	s.waiting.Add(1)
	s.engine.Submit(&engine.Request{Commands: []job.Command{cmd}, Done: func(q *engine.Request) {
		s.waiting.Add(-1)
		a := answer{q.Results[0], c.run.stamp.Add(1)}
		if gone(s.cut) || gone(s.proc.dead) {
			return
		}
		a.res.Jobs = append([]job.Job(nil), a.res.Jobs...)
		answers <- a
	}})
	select {
	case a := <-answers:
		if err := a.res.Err; err != nil && (err.Kind == job.Internal || err.Kind == job.Draining) {
			return nil
		}
		o.found = a.res.Err == nil
		if o.kind == opDrop {
			o.found = a.res.Count > 0
		}
		c.answered(s, o, a.at, begun)
		return &a.res
	case <-s.cut:
	case <-s.proc.dead:
	case <-time.After(c.patience()):
	}
	c.run.count(&c.run.seen.unknown)
	return nil
}

// patience is how long it waits for an answer.
func (c *client) patience() time.Duration {
	return time.Duration(c.rng.Int64N(int64(choose(c.rng, time.Second, answerWithin))))
}

// look runs a query.
func (c *client) look(s *session, o *op, query func(*op) error) {
	type answer struct {
		op  op
		at  int64
		err error
	}
	answers := make(chan answer, 1)
	begun := c.begin(o)
	seen := *o
	go func() {
		a := answer{op: seen}
		a.err = query(&a.op)
		a.at = c.run.stamp.Add(1)
		if !gone(s.cut) && !gone(s.proc.dead) {
			answers <- a
		}
	}()
	select {
	case a := <-answers:
		if a.err == nil {
			o.found, o.got = a.op.found, a.op.got
			c.answered(s, o, a.at, begun)
			return
		}
	case <-s.cut:
	case <-s.proc.dead:
	case <-time.After(c.patience()):
	}
	c.run.count(&c.run.seen.unknown)
}

func (c *client) read(s *session, name string) {
	c.look(s, &op{kind: opRead, key: name}, func(o *op) error {
		value, ok, err := s.engine.Value(space, name)
		o.found, o.got = ok, string(value)
		return err
	})
}

// get looks for a job that somebody has pushed.
func (c *client) get(s *session) {
	key, ok := c.run.pushed.any(c.rng)
	if !ok {
		return
	}
	c.look(s, &op{kind: opGet, key: key}, func(o *op) error {
		_, err := s.engine.Get(job.ByKey(namespace, key))
		if je, ok := err.(*job.Error); ok && je.Kind == job.NotFound { //nolint:errorlint // an answer
			return nil
		}
		o.found = err == nil
		return err
	})
}

func (c *client) push(s *session, key, queue string) {
	body := []byte(key)
	if c.rng.IntN(4) == 0 {
		body = append(append(body, ' '), bytes.Repeat([]byte{'b'}, c.rng.IntN(3000))...)
	}
	c.run.pushed.add(key)
	res := c.do(s, &op{kind: opPush, key: key, queue: queue}, &job.Push{Spec: job.Spec{
		Namespace: namespace, Queue: queue, Key: key, Unique: true, Body: body, BodyKind: job.BodyBytes,
	}})
	if res != nil && res.Err == nil {
		c.run.fail(c.run.newID(res.ID, key))
	}
}

func (c *client) fetch(s *session, queue string) {
	by := s.engine.NewHolder()
	c.run.fail(c.run.newHolder(by))
	o := &op{kind: opFetch, queue: queue}
	f := &job.Fetch{
		Namespace: namespace, Queues: []string{queue}, Max: 1, Holder: by, LeaseSet: true, Lease: lease,
		OnEnd: job.EndKeep,
		Wait:  choose(c.rng, 0, 0, 300*time.Millisecond),
	}
	if c.rng.IntN(2) == 0 {
		o.kind, f.Firm = opFirm, true
	}
	res := c.do(s, o, f)
	if res == nil || res.Err != nil {
		return
	}
	for i := range res.Jobs {
		key, _, _ := bytes.Cut(res.Jobs[i].Body, []byte{' '})
		o.got = string(key)
		c.run.fail(c.run.sameID(res.Jobs[i].ID, o.got))
		c.held = append(c.held, held{job.ByID(namespace, queue, res.Jobs[i].ID), o.got, by})
	}
}

// settle acknowledges a job that it holds, or has held once, or deletes one.
func (c *client) settle(s *session) {
	if len(c.held) == 0 {
		return
	}
	h := c.held[c.rng.IntN(len(c.held))]
	if c.rng.IntN(8) == 0 {
		c.do(s, &op{kind: opDelete, key: h.key}, &job.Delete{Ref: h.ref, By: h.holder, Need: job.NeedAny})
		return
	}
	c.do(s, &op{kind: opAck, key: h.key}, &job.Ack{Ref: h.ref, By: h.holder, Need: job.NeedUnfinished})
}

func choose[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// names are the jobs that clients have tried to push.
type names struct {
	mu   sync.Mutex
	keys []string
}

func (n *names) add(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys = append(n.keys, key)
}

func (n *names) any(rng *rand.Rand) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.keys) == 0 {
		return "", false
	}
	return n.keys[max(0, len(n.keys)-1-rng.IntN(30))], true
}
