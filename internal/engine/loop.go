package engine

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/store"
)

// message is one thing for the loop to do, in order of arrival.
type message struct {
	kind  messageKind
	req   *Request // to submit
	token uint64   // to cancel: the request itself may be in use again by then
}

type messageKind uint8

const (
	submit messageKind = iota
	cancel
	drain
	stop
)

// mayBeQuick reports whether a request may be answered without a commit.
func mayBeQuick(r *Request) bool {
	if len(r.Commands) != 1 {
		return false
	}
	_, fetch := r.Commands[0].(*job.Fetch)
	return fetch
}

func (e *Engine) send(m message, urgent bool) bool {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return false
	}
	e.inbox = append(e.inbox, m)
	wake := urgent || !e.patient
	e.mu.Unlock()
	if wake {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns what has come in since the last time.
func (e *Engine) take() []message {
	e.mu.Lock()
	e.inbox, e.taken = e.taken[:0], e.inbox
	e.mu.Unlock()
	return e.taken
}

// loop owns the machine.
func (e *Engine) loop() {
	defer close(e.done)
	defer func() {
		close(e.commits)
		e.finish()
	}()
	defer e.recoverFault()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		stopping := false
		for turn := 0; turn == 0 || turn < yields && !e.busy && !stopping && e.few(); turn++ {
			if turn > 0 {
				runtime.Gosched()
			}
			for e.todo = e.take(); len(e.todo) > 0; e.todo = e.todo[1:] {
				if e.Err() != nil {
					return
				}
				stopping = e.handle(e.todo[0]) || stopping
			}
		}
		more := false
		if e.core.NextWake() <= e.Now() {
			more = e.core.Tick(e.Now(), e.draw())
			e.collect()
		}
		again := e.commitIfFree()
		if stopping {
			e.settle()
			return
		}
		if again {
			continue // more may have come in meanwhile, and has not woken anybody
		}
		e.stats.waiters.Store(int64(len(e.waiting)))
		if more {
			select {
			case r := <-e.committed:
				e.wasCommitted(r)
			case <-e.failed:
				return
			default:
			}
			continue
		}
		e.arm(timer)
		select {
		case <-e.wake:
		case r := <-e.committed:
			e.wasCommitted(r)
		case <-timer.C:
		case <-e.failed:
			return
		}
	}
}

// yields is how often the loop steps back before it seals a batch that is small
// compared to the one before, so that callers that are ready to run get into it. On
// an idle machine that takes no time.
const yields = 8

// few reports whether there are much fewer answers to wait for the open batch than for
// the last one.
func (e *Engine) few() bool { return len(e.open.reqs) > 0 && 2*len(e.open.reqs) < e.last }

// arm sets the timer for the next thing that is due.
func (e *Engine) arm(timer *time.Timer) {
	d := e.core.NextWake().Sub(e.Now())
	if !e.held.IsZero() && !e.busy {
		d = min(d, e.holdFor()-time.Since(e.held))
	}
	if d < math.MaxInt64 {
		timer.Reset(max(d, 0))
	} else {
		timer.Stop()
	}
}

// recoverFault turns an unreadable store into a failure of the engine. Any other
// panic is a broken invariant: the process must not go on.
func (e *Engine) recoverFault() {
	switch p := recover().(type) {
	case nil:
	case *StoreError:
		e.fail(p)
	case *machine.CorruptError:
		e.fail(fmt.Errorf("%w: %w", store.ErrCorrupt, p))
	default:
		panic(p)
	}
}

// handle does one message and reports whether it is the last.
func (e *Engine) handle(m message) (last bool) {
	switch m.kind {
	case submit:
		e.apply(m.req)
	case cancel:
		e.cancelWait(m.token)
	case drain:
		e.draining = true
		e.core.EndWaits(e.Now())
		e.collect()
	case stop:
		return true
	}
	return false
}

func (e *Engine) draw() uint64 {
	e.rnd += 0x9e3779b97f4a7c15
	return e.rnd
}

// apply applies the commands of a request. If the last one waits, the request does.
func (e *Engine) apply(r *Request) {
	if r.flush {
		e.flush = true
		e.answerCommitted(r)
		return
	}
	now, waits := e.Now(), false
	e.stats.commands.Add(uint64(len(r.Commands)))
	for i, cmd := range r.Commands {
		res := &r.Results[i]
		if e.noSpace.Load() && needsSpace(cmd) && !e.spaceAgain() {
			res.Reset()
			res.Err = job.ErrNoSpace
			e.stats.refused.Add(1)
			continue
		}
		answered, needs := e.core.Apply(now, e.draw(), r.token, cmd, res)
		r.needs = max(r.needs, needs)
		if answered {
			continue
		}
		if i != len(r.Commands)-1 || e.draining {
			var ignored job.Result // only the last may wait, and nobody while draining
			e.core.Apply(now, 0, 0, &job.Cancel{Token: r.token}, &ignored)
			for _, c := range e.core.Completed() {
				if c.Token == r.token {
					*res = c.Result
					res.Err = job.ErrTimeout
				} else {
					e.completed(c)
				}
			}
			continue
		}
		e.waiting[r.token] = r // collect, or a later one, answers it
		waits = true
	}
	e.collect()
	if !waits {
		e.answer(r)
	}
}

// collect passes on the answers of commands that had waited.
func (e *Engine) collect() {
	for _, c := range e.core.Completed() {
		e.completed(c)
	}
}

func (e *Engine) completed(c machine.Completion) {
	r := e.waiting[c.Token]
	if r == nil {
		return
	}
	delete(e.waiting, c.Token)
	r.Results[len(r.Results)-1] = c.Result
	r.needs = max(r.needs, c.Needs)
	e.answer(r)
}

// cancelWait ends a wait. A request that has been answered already is left alone.
func (e *Engine) cancelWait(token uint64) {
	if e.waiting[token] == nil {
		return
	}
	var res job.Result
	e.core.Apply(e.Now(), e.draw(), 0, &job.Cancel{Token: token}, &res)
	e.collect()
}

// settle waits for the last batches.
func (e *Engine) settle() {
	e.core.EndWaits(e.Now())
	e.collect()
	e.flush = true
	e.commitIfFree()
	for e.busy {
		select {
		case r := <-e.committed:
			e.wasCommitted(r)
			e.flush = true
			e.commitIfFree()
		case <-e.failed:
			return
		}
	}
}

// finish answers whatever is left when the loop has ended.
func (e *Engine) finish() {
	e.mu.Lock()
	e.closed = true
	left := e.inbox
	e.inbox = nil
	e.mu.Unlock()
	err := e.closedError()
	for token, r := range e.waiting {
		delete(e.waiting, token)
		answerAll(r, err)
		r.Done(r)
	}
	for _, l := range []*replies{e.open, e.late} {
		for _, r := range l.reqs {
			answerAll(r, err)
			r.Done(r)
		}
	}
	for _, m := range append(e.todo, left...) { // with the one that met the fault
		if m.kind == submit {
			answerAll(m.req, err)
			m.req.Done(m.req)
		}
	}
	for range e.committed { // until the committer has ended
	}
}

func answerAll(r *Request, err *job.Error) {
	for i := range r.Results {
		r.Results[i].Reset()
		r.Results[i].Err = err
	}
}
