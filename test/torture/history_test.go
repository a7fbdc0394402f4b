package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"millrace/internal/wire"
)

// linearLease is longer than any history, so that no lease lapses in one.
const linearLease = 300 * time.Second

// history is what happened to one queue.
type history struct {
	queue string
	began time.Time
	kill  bool // the server will be killed

	mu     sync.Mutex // guards what follows
	ops    []porcupine.Operation
	jobs   []string // tokens by number, from 1
	conns  int
	opened []int // operations that were cut off
	deaths []int64
	// waiting is about how many jobs are ready.
	waiting int
	stats   tally
}

// tally counts operations by what became of them.
type tally struct{ total, answered, refused, open int }

func (t *tally) note(in input, out output) {
	if in.verb == doRestart {
		return // nobody has asked for it
	}
	t.total++
	switch {
	case in.open:
		t.open++
	case out.ok:
		t.answered++
	default:
		t.refused++
	}
}

func newHistory(queue string, kill bool) *history {
	return &history{queue: queue, began: time.Now(), kill: kill, jobs: []string{""}}
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// newConn numbers a connection.
func (h *history) newConn() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns++
	return h.conns
}

// newJob numbers a job.
func (h *history) newJob(p proto) (int, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.jobs)
	token := tokenOf(p, fmt.Sprintf("%s.%d", h.queue, n))
	h.jobs = append(h.jobs, token)
	return n, token
}

// jobIn returns the number of the job with a body, 0 if there is none.
func (h *history) jobIn(body string) int {
	token, ok := tokenIn(body)
	if !ok {
		return 0
	}
	_, number, _ := strings.Cut(token, h.queue+".")
	n, err := strconv.Atoi(number)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || n <= 0 || n >= len(h.jobs) || h.jobs[n] != token {
		return 0
	}
	return n
}

// record adds an operation. One that was cut off stays open until its server has
// ended, or the history has.
func (h *history) record(in input, out output, call int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.open || in.verb == doGone {
		h.opened = append(h.opened, len(h.ops))
	}
	h.stats.note(in, out)
	switch {
	case in.verb == doPush && !in.open:
		h.waiting++
	case in.verb == doFetch && out.ok:
		h.waiting--
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: in.conn, Input: in, Output: out, Call: call, Return: h.now()})
}

// died notes when the server died: what was asked of it before has been done by then
// or never will be. Answers that were on their way may be read later.
func (h *history) died(at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaths = append(h.deaths, at)
}

// close ends what is open with the server that it was sent to, or with the history.
func (h *history) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.opened {
		h.ops[i].Return = h.now()
		for _, at := range slices.Backward(h.deaths) {
			if h.ops[i].Call < at {
				h.ops[i].Return = at
			}
		}
	}
}

// order notes which jobs were pushed before others at the same time: those that were
// first fetched before them. That is no evidence once a fetch was cut off, which may
// have had a job for a while.
func (h *history) order() {
	type span struct{ call, ret int64 }
	first := make(map[int]span)
	pushes := make(map[int]*porcupine.Operation)
	end := int64(1<<63 - 1)
	for i := range h.ops {
		o := &h.ops[i]
		in, out := o.Input.(input), o.Output.(output)
		switch {
		case in.verb == doPush:
			pushes[in.job] = o
		case in.verb == doFetch && in.open:
			end = min(end, o.Call)
		case in.verb == doFetch && out.ok:
			if was, seen := first[out.job]; !seen || o.Return < was.ret {
				first[out.job] = span{o.Call, o.Return}
			}
		}
	}
	for job, o := range pushes {
		mine, seen := first[job]
		if !seen || mine.ret >= end {
			continue
		}
		in := o.Input.(input)
		for other, p := range pushes {
			if f, seen := first[other]; seen && f.ret < min(mine.call, end) && p.Call <= o.Return &&
				o.Call <= p.Return {
				in.after = append(in.after, other)
			}
		}
		o.Input = in
	}
}

// someKeyed returns one of the latest jobs that have a key of their own.
func (h *history) someKeyed(rnd *rand.Rand) (int, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range 8 {
		n := len(h.jobs) - 1 - rnd.IntN(min(12, len(h.jobs)))
		if n > 0 && (pushedBy(h.jobs[n]) == workq || pushedBy(h.jobs[n]) == faktory) {
			return n, h.jobs[n]
		}
	}
	return 0, ""
}

// actor is one client of a history.
type actor struct {
	*history
	proto proto
	rnd   *rand.Rand
	c     *client
	conn  int
	holds []grip
	// unread: a fetch of the connection was not answered.
	unread bool
	sound  int64 // when what was answered last was asked: until then the connection was there
}

// grip is a job that an actor has been given.
type grip struct {
	job int
	id  string
}

// heldMax is how many jobs an actor holds at most.
func (a *actor) heldMax() int {
	if a.proto == masenko {
		return 1
	}
	return 3
}

// join connects the actor. A connection that does not come about has done nothing.
func (a *actor) join(addr string) error {
	call := a.now()
	c, err := dial(a.proto, addr)
	if err != nil {
		return err
	}
	if l, ok := c.Client.(*wire.Lmstfy); ok {
		l.Lease = linearLease
	}
	a.c, a.conn, a.unread, a.sound = c, a.newConn(), false, call
	if a.proto.connected() {
		a.holds = nil
	}
	return nil
}

// leave gives a broken connection up. The server will notice some time, or has, after the last answer.
func (a *actor) leave() {
	_ = a.c.Close() // it is broken
	a.c = nil
	if !a.proto.connected() && !a.unread {
		return // nothing can come of it
	}
	a.record(input{verb: doGone, proto: a.proto, conn: a.conn}, output{ok: true}, a.sound)
}

// act does one thing. An error means that the connection is broken.
func (a *actor) act() error {
	a.mu.Lock()
	waiting := a.waiting
	a.mu.Unlock()
	p := a.rnd.IntN(100)
	switch {
	case p < 30 || waiting <= 0 && p < 60 && a.proto == faktory: // which would wait for long
		return a.push()
	case p < 60 && len(a.holds) < a.heldMax():
		return a.take()
	case p < 80 && len(a.holds) > 0:
		return a.settle(doAck)
	case p < 90 && len(a.holds) > 0 && a.proto != lmstfy:
		return a.settle(doFail)
	case p < 94 && len(a.holds) > 0 && a.proto == tarantool:
		return a.settle(doTouch)
	case p < 96 && a.proto == workq:
		return a.remove()
	case p < 96 && len(a.holds) > 0 && a.proto == tarantool:
		return a.settle(doDelete)
	}
	return a.size()
}

// done records an operation and returns its error if the connection is broken.
func (a *actor) done(in input, out output, call int64, err error) error {
	in.proto, in.conn = a.proto, a.conn
	if in.job > 0 {
		a.mu.Lock()
		in.origin = pushedBy(a.jobs[in.job])
		a.mu.Unlock()
	}
	if wire.IsRefused(err) {
		err, out.ok = nil, false
	}
	if in.open = err != nil; err == nil {
		a.sound = call
	}
	a.record(in, out, call)
	return err
}

func (a *actor) push() error {
	n, token := a.newJob(a.proto)
	call := a.now()
	var err error
	switch c := a.c.Client.(type) {
	case *wire.Masenko:
		_, err = c.Call(masenkoPush(a.queue, token, 0, ""))
	case *wire.Workq, *wire.Beanstalkd:
		err = a.c.pushFor(a.queue, linearLease, token)
	case *wire.Faktory:
		err = c.OK("PUSH " + faktoryJob(a.queue, token, `,"retry":0`))
	default:
		err = a.c.push(a.queue, token)
	}
	return a.done(input{verb: doPush, job: n}, output{ok: err == nil}, call, err)
}

func (a *actor) take() error {
	call := a.now()
	d, ok, err := a.c.fetch(a.queue, 0)
	out := output{ok: ok}
	if ok {
		out.job = a.jobIn(d.body)
		a.holds = append(a.holds, grip{out.job, d.id})
	}
	a.unread = a.unread || err != nil
	return a.done(input{verb: doFetch, soft: a.kill}, out, call, err)
}

// settle does something about one of the jobs that the actor holds.
func (a *actor) settle(v verb) error {
	i := a.rnd.IntN(len(a.holds))
	g := a.holds[i]
	call := a.now()
	var err error
	switch v {
	case doAck:
		err = a.c.ack(a.queue, g.id)
	case doFail:
		err = a.c.fail(a.queue, g.id)
	case doTouch:
		err = a.c.Client.(*wire.Tarantool).Touch(a.queue, []byte(g.id))
	case doDelete:
		err = a.c.Client.(*wire.Tarantool).Delete(a.queue, []byte(g.id))
	case doPush, doFetch, doSize, doReleaseAll, doGone, doRestart:
	}
	if v != doTouch {
		a.holds = slices.Delete(a.holds, i, i+1)
	}
	return a.done(input{verb: v, job: g.job}, output{ok: err == nil}, call, err)
}

// remove deletes a job by its key, whoever has pushed it and whoever holds it.
func (a *actor) remove() error {
	n, token := a.someKeyed(a.rnd)
	if n == 0 {
		return nil
	}
	call := a.now()
	err := a.c.Client.(*wire.Workq).Delete([]byte(uuidOf(token)))
	return a.done(input{verb: doDelete, job: n}, output{ok: err == nil}, call, err)
}

func (a *actor) size() error {
	call := a.now()
	if a.proto == faktory || a.proto == tarantool {
		return nil // which tells of the whole namespace, and which would have to know the tube
	}
	s, err := a.c.Look(a.queue)
	return a.done(input{verb: doSize}, output{ok: true, ready: s.Ready, held: s.Held}, call, err)
}
