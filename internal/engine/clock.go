package engine

import (
	"math"
	"runtime"
	"time"

	"millrace/internal/job"
)

// clockLoop applies what time brings, and ends the engine after a storage failure.
func (e *Engine) clockLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		began := time.Now()
		wait, stopped := e.tick()
		if stopped {
			return
		}
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
		case <-e.alarm:
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
	case e.alarm <- struct{}{}:
	default: // it is about to look
	}
}

// pauseMax is how long the clock pauses at most before it goes on with a pile.
const pauseMax = 5 * time.Millisecond

// putOffMax is how long the clock waits for the store at most before it goes on: others may keep the store busy for
// ever.
const putOffMax = 20 * time.Millisecond

// tick applies a bounded piece of what is due and returns how long there is nothing
// more to do.
func (e *Engine) tick() (wait time.Duration, stopped bool) {
	e.mu.Lock()
	defer e.unlock()
	if e.closed {
		return 0, true
	}
	now, more := e.Now(), false
	if e.putOff = !e.putOff && e.crowded(); e.putOff {
		e.summon()
		e.wakeAt = job.Never // look has it go on when the store has caught up
		return putOffMax, false
	}
	if e.core.NextWake() <= now && e.Err() == nil {
		e.guarded(func() {
			more = e.core.Tick(now, e.draw())
			e.collect()
		})
	}
	e.summon()
	e.wakeAt = e.nextLook()
	if e.Err() != nil {
		return time.Hour, false // failed says so too
	}
	if more {
		return 0, false
	}
	return e.wakeAt.Sub(e.Now()), false
}

// look follows every step: it has the open batch committed if it is time, and the clock
// look at what the step has set.
func (e *Engine) look() {
	e.summon()
	if e.core.filter.worn() {
		e.renewFilter()
	}
	if next := e.nextLook(); next < e.wakeAt && !e.crowded() {
		e.wakeAt = next
		select {
		case e.alarm <- struct{}{}:
		default:
		}
	}
}

// nextLook returns when the clock has something to do.
func (e *Engine) nextLook() job.Time {
	next := e.core.NextWake()
	if e.held != 0 && len(e.flights) < e.depth {
		next = min(next, e.held.Add(e.holdFor()))
	}
	return next
}

// giveUp answers whatever is left after a storage failure.
func (e *Engine) giveUp() {
	e.mu.Lock()
	defer e.unlock()
	e.closed = true
	e.room.Broadcast()
	err := e.closedError()
	for _, r := range e.waiting {
		if r.walking != nil {
			continue // walk sees that the engine has ended
		}
		e.endWait(r)
		answerAll(r, err)
		e.answered = append(e.answered, r)
	}
	left := append(e.open.reqs, e.proofs.waiting...)
	left = append(left, e.proofs.asked...) // a round that was asked for may never end
	e.open.reqs, e.proofs.waiting, e.proofs.asked = nil, nil, nil
	for _, c := range e.flights {
		left = append(left, c.late...)
		c.late = nil
	}
	for _, r := range left {
		answerAll(r, err)
		e.answered = append(e.answered, r)
	}
}
