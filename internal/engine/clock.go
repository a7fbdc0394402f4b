package engine

import (
	"math"
	"runtime"
	"time"

	"millrace/internal/job"
)

// clockLoop applies what is due, and ends the engine after a storage failure. Between two
// pieces of a pile it pauses for as long as the last piece took, so that commands get half of the
// time (section 13).
func (e *Engine) clockLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		began := time.Now()
		wait, stopped := e.tick()
		if stopped {
			return
		}
		// Zero means that more is due at once.
		if wait <= 0 { // a large pile is worked off between the commands, in half of the time
			wait = min(time.Since(began), pauseMax)
		}
		if wait <= 0 {
			runtime.Gosched()
			continue
		}
		if wait < math.MaxInt64 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-e.clockSignal:
		case <-e.failed:
			e.giveUp()
			return
		case <-e.stop:
			return
		}
	}
}

// Wake has the clock look at once, for whoever has set the time of Options.Now forward.
func (e *Engine) Wake() {
	select {
	case e.clockSignal <- struct{}{}:
	default: // it is about to look
	}
}

// pauseMax is how long the clock pauses at most before it goes on with a pile: a piece that took
// long, because the store was slow, does not make it wait as long again.
const pauseMax = 5 * time.Millisecond

// putOffMax is how long the clock waits for the store at most before it goes on: others may keep the store busy for
// ever.
const putOffMax = 20 * time.Millisecond

// tick applies a bounded piece of what is due and returns how long there is nothing more to do.
func (e *Engine) tick() (wait time.Duration, stopped bool) {
	e.mu.Lock()
	defer e.unlock()
	if e.closed {
		return 0, true
	}
	now, more := e.Now(), false
	// Every other time it goes on although the store is busy, so that timers are never held up for
	// long.
	if e.waitedForStore = !e.waitedForStore && e.isCrowded(); e.waitedForStore {
		e.requestCommit()
		e.wakeAt = job.Never // afterStep has it go on when the store has caught up
		return putOffMax, false
	}
	// The clock may have been woken for the commit alone.
	if e.core.NextWake() <= now && e.Err() == nil {
		e.guarded(func() {
			more = e.core.Tick(now, e.draw())
			e.collect()
		})
	}
	e.requestCommit()
	e.wakeAt = e.nextWake()
	if e.Err() != nil {
		return time.Hour, false // failed says so too
	}
	if more {
		return 0, false
	}
	return e.wakeAt.Sub(e.Now()), false
}

// afterStep follows every step that may have changed something: it has the open batch committed if
// it is time, and the clock look at what the step has set. Who forgets it leaves a timer or an
// answer to the next command.
func (e *Engine) afterStep() {
	e.requestCommit()
	if e.core.filter.needsRebuild() {
		e.startFilterRebuild()
	}
	if next := e.nextWake(); next < e.wakeAt && !e.isCrowded() {
		e.wakeAt = next
		select {
		case e.clockSignal <- struct{}{}:
		default:
		}
	}
}

// nextWake returns when the clock has something to do: when the machine has, or when a lazy engine
// has held its changes long enough.
func (e *Engine) nextWake() job.Time {
	next := e.core.NextWake()
	if e.gatheringSince != 0 && len(e.flights) < e.depth {
		next = min(next, e.gatheringSince.Add(e.gatherTime()))
	}
	return next
}

// giveUp answers whatever is left after a storage failure: those who wait in the machine, for a
// batch, or for a proof. It closes the engine to commands under the same lock, so that nobody is
// added behind it.
func (e *Engine) giveUp() {
	e.mu.Lock()
	defer e.unlock()
	e.closed = true
	e.commitEnded.Broadcast()
	err := e.closedError()
	for _, r := range e.waiting {
		if r.walking != nil {
			continue // walk sees that the engine has ended
		}
		e.endWait(r)
		answerAll(r, err)
		e.answered = append(e.answered, r)
	}
	left := append(e.openReplies.reqs, e.proofs.waiting...)
	left = append(left, e.proofs.asked...) // a round that was asked for may never end
	e.openReplies.reqs, e.proofs.waiting, e.proofs.asked = nil, nil, nil
	for _, c := range e.flights {
		left = append(left, c.late...)
		c.late = nil
	}
	for _, r := range left {
		answerAll(r, err)
		e.answered = append(e.answered, r)
	}
}
