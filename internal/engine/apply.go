package engine

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/store"
)

// Submit applies the commands of a request. Done is called when they have been answered, perhaps
// before Submit returns. It reports whether the last command waits for something to happen:
// otherwise the answer comes with the next commit. The caller's goroutine does the work, and
// perhaps the commit as well (sealForCaller), which saves the hand-over to another goroutine where
// there is little traffic.
func (e *Engine) Submit(r *Request) (waits bool) {
	r.token, r.needs = e.tokens.Add(1), 0
	r.waited, r.atOnce = false, false
	if r.flush {
		// answerCommitted limits it to the last step that has changed something.
		r.needs = math.MaxUint64
	}
	if n := len(r.Commands); cap(r.Results) < n {
		r.Results = append(r.Results[:cap(r.Results)], make([]job.Result, n-cap(r.Results))...)
	}
	r.Results = r.Results[:len(r.Commands)]
	if e.isLong(r) {
		e.longTurn.Lock()
		defer e.longTurn.Unlock()
	}
	if !e.enter() {
		answerAll(r, e.closedError())
		r.Done(r)
		return false
	}
	waits = e.apply(r)
	var c *flight
	if !e.closed { // while a fetch went on
		c = e.sealForCaller(r.Stays && !waits)
		e.afterStep()
	}
	if r.atOnce {
		e.noteAtOnce(r)
	}
	e.unlock()
	if c != nil {
		e.commit(c)
	}
	return waits
}

// partsMany is from how many parts on an Atomic, which is one step whatever its size, is long.
const partsMany = 1024

// isLong reports whether a fetch names more queues than one step looks at, or an Atomic has many parts. Such
// requests are applied one at a time: else all others would wait for the lock behind several of them.
func (e *Engine) isLong(r *Request) bool {
	for _, cmd := range r.Commands {
		if f, ok := cmd.(*job.Fetch); ok && len(f.Queues) > e.namesPerStep {
			return true
		}
		if a, ok := cmd.(*job.Atomic); ok && len(a.Ops) > partsMany {
			return true
		}
	}
	return false
}

// enter takes the lock for a command. It reports false, without the lock, if nothing is
// taken any more.
func (e *Engine) enter() bool {
	e.mu.Lock()
	if !e.waitForRoom() {
		e.mu.Unlock()
		return false
	}
	return true
}

// waitForRoom waits until there is room for another step. It reports false if nothing is taken any more.
// Without fsync callers do not wait for commits, so that this is what slows them down to the speed
// of the store.
func (e *Engine) waitForRoom() bool {
	for e.lazy && len(e.flights) > 0 && (e.core.Changes() >= openChangesMax || e.core.Bytes() >= openBytesMax) {
		e.commitEnded.Wait()
	}
	return !e.closed && e.Err() == nil
}

// A lazy engine takes this many changes and bytes while the store is busy with those before. Then the callers wait for
// the store.
const (
	openChangesMax = 64 << 10
	openBytesMax   = 32 << 20
)

// leftoverBytesMax is how long the open batch may become by what commands leave over. The answers of others wait for
// that batch, and it is as long as whoever fills it is faster than the store.
const leftoverBytesMax = 256 << 10

// isCrowded reports whether what is left over has to wait for the store: the open batch cannot be
// committed yet, and is long enough. Commands of callers go on.
func (e *Engine) isCrowded() bool {
	return len(e.flights) >= e.depth && e.core.Bytes() >= leftoverBytesMax
}

// waitForStore has what is left over wait until the open batch may grow again (section 13).
func (e *Engine) waitForStore() {
	for e.isCrowded() && !e.closed && e.Err() == nil {
		e.commitEnded.Wait()
	}
}

// unlock gives up the lock and then tells those who have been answered: what they do about it must
// not hold up others. Every path that may have answered somebody ends with it and not with
// mu.Unlock.
func (e *Engine) unlock() {
	switch len(e.answered) {
	case 0:
		e.mu.Unlock()
	case 1:
		r := e.answered[0]
		e.answered[0] = nil
		e.answered = e.answered[:0]
		e.mu.Unlock()
		r.Done(r)
	default:
		list := e.answered
		e.answered = nil
		e.mu.Unlock()
		for _, r := range list {
			r.Done(r)
		}
	}
}

// Cancel ends the wait of a request, if it waits. The request is answered either way, exactly once.
// It may come too late: then nobody waits under the token any more, and nothing happens.
func (e *Engine) Cancel(r *Request) {
	token, door := r.token, r.Door // the request may be in use again once the lock is held
	e.mu.Lock()
	if e.waiting[token] != nil && !e.closed {
		e.meter.queues.by = door
		e.guarded(func() {
			var res job.Result
			e.core.Apply(e.Now(), e.draw(), 0, &job.Cancel{Token: token}, &res)
			e.collect()
		})
		e.afterStep()
	}
	e.unlock()
}

// Drain answers everybody who waits, and makes later commands not wait. Other commands are applied
// as before, so that workers can still settle what they hold.
func (e *Engine) Drain() {
	e.mu.Lock()
	if !e.closed {
		e.draining = true
		e.endWaits()
		e.afterStep()
	}
	e.unlock()
}

// endWaits answers everybody who waits in the machine.
func (e *Engine) endWaits() {
	e.guarded(func() {
		e.core.EndWaits(e.Now())
		e.collect()
	})
}

// guarded runs f under the lock and turns an unreadable store into a failure of the engine. Any
// other panic is a broken invariant: the process must not go on, whoever submitted the command.
// Every call of the core is guarded, because each may read.
func (e *Engine) guarded(f func()) {
	defer e.recoverFault()
	f()
}

// recoverFault is deferred around calls of the core. The panic of a broken invariant is raised
// again on a goroutine of its own, and this one never returns: it holds the lock, and nothing may
// be applied after it.
func (e *Engine) recoverFault() {
	switch p := recover().(type) {
	case nil:
	case *StoreError:
		e.fail(p)
	case *machine.CorruptError:
		e.fail(fmt.Errorf("%w: %w", store.ErrCorrupt, p))
	default:
		crash := fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		go func() { panic(crash) }() // no caller's recover can stop this one
		select {}
	}
}

// apply applies the commands of a request and reports whether it waits. If it meets a fault it is
// answered with that, unless a wait of it is registered, which giveUp answers.
func (e *Engine) apply(r *Request) (waits bool) {
	if r.flush {
		e.commitAtOnce = true
		e.answerCommitted(r)
		return false
	}
	done := false
	defer func() {
		if !done && e.waiting[r.token] == nil {
			answerAll(r, job.ErrInternal)
			e.answered = append(e.answered, r)
		}
	}()
	defer e.recoverFault()
	waits = e.applyAll(r)
	e.collect()
	switch {
	case waits:
	case e.closed || e.Err() != nil:
		e.answerClosed(r)
	default:
		e.answer(r)
	}
	done = true
	return waits
}

// applyAll applies the commands in order. The checks that are the engine's own come first: space,
// the number of queues, the number of waits. They are limits of a server, not rules about jobs, and
// so are not in the machine.
func (e *Engine) applyAll(r *Request) (waits bool) {
	now := e.Now()
	e.stats.commands.Add(uint64(len(r.Commands)))
	e.commandsSinceSeal += uint64(len(r.Commands))
	r.applied = now
	e.meter.queues.by = r.Door
	for i, cmd := range r.Commands {
		res := &r.Results[i]
		if e.noSpace.Load() && needsSpace(cmd) && !e.hasSpaceAgain() {
			res.Reset()
			res.Err = job.ErrNoSpace
			e.stats.refused.Add(1)
			continue
		}
		if e.tooManyQueues(cmd) {
			res.Reset()
			res.Err = job.ErrManyQueues
			continue
		}
		if startsWait(cmd) && i == len(r.Commands)-1 && !e.draining && !e.roomToWait(waitCost(cmd)) {
			res.Reset()
			res.Err = job.ErrOverloaded
			continue
		}
		// Deliveries that have been written may be asked about before the command sees their leases
		// (delivery.go).
		if e.core.Due(now) {
			e.fire(now)
		}
		answered, needs := e.core.Apply(now, e.draw(), r.token, cmd, res)
		if walks := !answered && e.core.Walking(r.token); walks || res.Left > 0 {
			if walks {
				answered, needs = e.continueWalk(r, cmd, res)
			} else {
				needs = max(needs, e.continueCommand(r, cmd, res))
			}
			now = e.Now()
			if e.closed || e.Err() != nil {
				if i < len(r.Commands)-1 {
					r.needs = math.MaxUint64 // the others will never be applied
				}
				return false
			}
		}
		r.needs = max(r.needs, needs)
		switch cmd.(type) {
		case *job.Configure, *job.Remove, *job.Flush:
			e.queues.Add(1)
		default: // leaves the settings of queues alone
		}
		switch {
		case answered:
		case i < len(r.Commands)-1 || e.draining: // only the last command may wait, and none while draining
			e.cancelWait(r, res, now, job.ErrTimeout)
		case e.wait(r, cmd):
			waits = true
		default:
			e.cancelWait(r, res, now, job.ErrOverloaded)
		}
		// After the answer is made and before it can be sent: the connection ends the delivery when
		// it has.
		beginDelivery(cmd, res)
	}
	return waits
}

// continueCommand has a command go on that one step has done a part of (section 13). In between others get
// the lock. What was done before is committed with other batches, and the answer waits for the last
// of them.
func (e *Engine) continueCommand(r *Request, cmd job.Command, res *job.Result) (needs uint64) {
	for res.Left > 0 {
		done := res.Count
		e.collect()
		e.afterStep()
		e.unlock()
		runtime.Gosched() // who waits for the lock gets it
		e.mu.Lock()
		e.waitForStore()
		if !e.waitForRoom() {
			r.needs = math.MaxUint64
			return 0
		}
		e.meter.queues.by = r.Door
		_, n := e.core.Apply(e.Now(), e.draw(), r.token, job.Rest(cmd, res), res)
		needs = max(needs, n)
		res.Count += done
	}
	return needs
}

// continueWalk has a fetch or a flush go on that takes more than one step. In between others get the lock,
// and may answer it: Cancel, a job that arrives, the end of the engine. Then completed leaves the
// answer in the request, and walk returns it.
func (e *Engine) continueWalk(r *Request, cmd job.Command, res *job.Result) (answered bool, needs uint64) {
	for e.core.Walking(r.token) {
		r.walking = cmd
		e.waiting[r.token] = r
		e.collect()
		e.afterStep()
		e.unlock()
		runtime.Gosched() // who waits for the lock gets it
		e.mu.Lock()
		if _, changes := cmd.(*job.Flush); changes {
			e.waitForStore()
		}
		open := e.waitForRoom()
		delete(e.waiting, r.token)
		if r.walking == nil { // it was answered
			*res = r.walked
			r.walked = job.Result{}
			return true, 0
		}
		r.walking = nil
		if !open {
			r.needs = math.MaxUint64
			return true, 0
		}
		e.meter.queues.by = r.Door
		answered, needs = e.core.Continue(e.Now(), e.draw(), r.token, res)
	}
	return answered, needs
}

// cancelWait ends the wait of a command that must not wait and answers it with an error. The machine
// may have answered it at the end of the same step: then that answer counts, or a job would be lost
// that was leased for it.
func (e *Engine) cancelWait(r *Request, res *job.Result, now job.Time, err *job.Error) {
	var ignored job.Result
	e.core.Apply(now, 0, 0, &job.Cancel{Token: r.token}, &ignored)
	for _, c := range e.core.Completed() {
		if c.Token == r.token {
			*res = c.Result
			r.needs = max(r.needs, c.Needs)
			if res.Err != nil { // else it was given a job at the end of its own step
				res.Err = err
			}
		} else {
			e.passCompletion(c)
		}
	}
}

// draw returns the chance of one step. The machine mixes it, so that a counter will do.
func (e *Engine) draw() uint64 {
	e.rnd += 0x9e3779b97f4a7c15
	return e.rnd
}

// collect passes on the answers of commands that had waited, and what the machine has to know of deliveries.
func (e *Engine) collect() {
	for _, c := range e.core.Completed() {
		e.passCompletion(c)
	}
	e.askLate()
}

// passCompletion passes on one answer of the machine: to continueWalk, if its fetch is between two steps, else
// to the caller.
func (e *Engine) passCompletion(c machine.Completion) {
	r := e.waiting[c.Token]
	if r == nil {
		return
	}
	if r.walking != nil { // walk goes on with it
		delete(e.waiting, c.Token)
		beginDelivery(r.walking, &c.Result)
		r.walking, r.walked = nil, c.Result
		r.needs = max(r.needs, c.Needs)
		return
	}
	e.endWait(r)
	r.Results[len(r.Results)-1] = c.Result
	beginDelivery(r.Commands[len(r.Commands)-1], &c.Result)
	r.needs = max(r.needs, c.Needs)
	e.answer(r)
}

// answer lets a request go once what it was told is committed (INV-11), or at once if the operator
// has chosen that a crash may lose something.
func (e *Engine) answer(r *Request) {
	if e.lazy {
		e.completeNow(r)
		return
	}
	e.answerCommitted(r)
}

// completeNow queues a request to be told when the lock is released. Submit counts it then, unless
// it has waited, because only Submit knows when it began.
func (e *Engine) completeNow(r *Request) {
	e.answered = append(e.answered, r)
	if r.waited {
		e.meter.atOnce.note(r, untimed)
	} else {
		r.atOnce = true
	}
}

// answerCommitted lets a request go with the batch that has what it was told: at once if that is
// durable, with a batch on its way, or with the open one. An answer that changed nothing may depend
// on the changes of others, so that it waits for those. In a cluster it needs a proof as well,
// unless a batch that is sealed later gives it (proof.go).
func (e *Engine) answerCommitted(r *Request) {
	needs := min(r.needs, max(e.core.Dirty(), e.lastSealedStep())) // steps after that have changed nothing
	if plant.AckEarly.On() && len(r.Commands) == 1 && job.VerbOf(r.Commands[0]) == job.VerbAck {
		needs = 0
	}
	if e.proofs.confirm != nil && needs <= e.lastSealedStep() {
		r.needs = needs
		e.answerProven(r)
		return
	}
	if needs <= e.durable || plant.StepEarly.On() && needs == e.durable+1 {
		e.completeNow(r)
		return
	}
	for _, c := range e.flights {
		if needs <= c.step || plant.EarlierBatch.On() && len(e.flights) > 1 {
			c.late = append(c.late, r)
			return
		}
	}
	e.openReplies.reqs = append(e.openReplies.reqs, r)
}

// lastSealedStep returns the last step that is committed or on its way.
func (e *Engine) lastSealedStep() uint64 {
	if n := len(e.flights); n > 0 {
		return e.flights[n-1].step
	}
	return e.durable
}

// answerClosed lets a request go whose fetch went on while the engine was closed. Nothing
// is committed for it any more.
func (e *Engine) answerClosed(r *Request) {
	if r.needs > e.durable {
		answerAll(r, e.closedError())
	}
	e.answered = append(e.answered, r)
}

// answerAll gives all commands of a request the same error. Results that were there are dropped:
// nobody may be told of what may be lost.
func answerAll(r *Request, err *job.Error) {
	for i := range r.Results {
		r.Results[i].Reset()
		r.Results[i].Err = err
	}
}
