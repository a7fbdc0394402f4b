package engine

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/store"
)

// replies are requests to be answered together.
type replies struct{ reqs []*Request }

// flight is a batch on its way to the store, with the answers that wait for it.
type flight struct {
	batch    *store.Batch
	step     uint64 // its last
	replies  *replies
	late     []*Request // came after it was sealed and need no more than it
	commands uint64     // how many were applied for it
	begun    job.Time   // when it was given to the store
}

// gatherTime is how long a lazy engine gathers changes: with what the sync takes, a crash loses no
// more than the interval. Jobs that come and go meanwhile never reach the store.
func (e *Engine) gatherTime() time.Duration { return e.opt.SyncInterval / 2 }

// It gathers no more changes or bytes than this. The more of them go to the store together, the closer their keys are
// to each other.
const (
	gatherChangesMax = 16 << 10
	gatherBytesMax   = 4 << 20
)

// behindBytes is when a batch does not wait any longer for twice as many callers as the one before it has.
const behindBytes = 256 << 10

// commitDue reports whether the open batch should be committed now. Whoever ends a commit asks
// again, so that a batch that has to wait for another needs no timer.
func (e *Engine) commitDue() bool {
	if len(e.flights) >= e.depth {
		return false
	}
	if e.core.Dirty() == 0 {
		// There is nothing that somebody could wait for.
		e.commitAtOnce = false
		return false
	}
	if e.commitAtOnce || e.core.Changes() >= gatherChangesMax || e.core.Bytes() >= gatherBytesMax {
		return true
	}
	if !e.lazy {
		// Behind another one it gathers twice as much as that has, because a batch costs about the same whatever is in
		// it.
		return len(e.flights) == 0 || len(e.openReplies.reqs) >= 2*e.lastAnswers || e.core.Bytes() >= behindBytes
	}
	now := e.Now()
	e.lastNow = now
	if e.gatheringSince == 0 {
		e.gatheringSince = now
	}
	return now.Sub(e.gatheringSince) >= e.gatherTime()
}

// requestCommit has the open batch committed if it is time. It never blocks: one signal is enough,
// because the committer looks again after each commit.
func (e *Engine) requestCommit() {
	if e.commitDue() {
		select {
		case e.commitSignal <- struct{}{}:
		default:
		}
	}
}

// leadMax is the largest batch after which a caller that has nothing else to do commits
// on its own goroutine. With more callers the committer gathers more of them.
const leadMax = 2

// sealForCaller seals the open batch for the caller to commit, if it may and it is time. Where
// several batches may be on their way the committer alone gives them to the store, because that
// must be in their order.
func (e *Engine) sealForCaller(may bool) *flight {
	if !may || e.lazy || e.depth > 1 || e.lastAnswers > leadMax || !e.commitDue() {
		return nil
	}
	return e.seal()
}

// seal closes the open batch. From now on answers wait for the next one, and those of this batch
// belong to the flight. The lists of requests are used again, because there is one for every
// commit.
func (e *Engine) seal() *flight {
	b, step := e.core.Seal()
	e.gatheringSince, e.commitAtOnce = 0, false
	c := &flight{batch: b, step: step, replies: e.openReplies, commands: e.commandsSinceSeal}
	e.flights = append(e.flights, c)
	e.commandsSinceSeal = 0
	if n := len(e.spare); n > 0 {
		e.openReplies, e.spare = e.spare[n-1], e.spare[:n-1]
	} else {
		e.openReplies = &replies{}
	}
	e.lastAnswers = len(c.replies.reqs)
	e.stats.commits.Add(1)
	e.stats.batched.Add(uint64(e.lastAnswers)) //nolint:gosec // a length
	return c
}

// commitLoop commits as long as there is something to commit. When the engine is closed it commits
// the rest; after a failure it leaves everything as it is.
func (e *Engine) commitLoop() {
	for stopping := false; !stopping; {
		select {
		case <-e.commitSignal:
		case <-e.stop:
			stopping = true
		case <-e.failed:
			return
		}
		for c := e.next(); c != nil; c = e.next() {
			e.commit(c)
		}
	}
}

// maxYields bounds how often the committer steps back before it seals a batch that is smaller than
// the one before and still grows, or much smaller, so that callers that are ready to run get into
// it. One of nearly that size is sealed at once: the callers of the one before are answered while
// it is written. On an idle machine stepping back takes no time.
const maxYields = 24

// next seals the open batch if it is time, or returns nil.
func (e *Engine) next() *flight {
	for turn, before := 0, 0; ; turn++ {
		e.mu.Lock()
		for len(e.flights) > 0 && e.closed && e.Err() == nil {
			e.commitEnded.Wait() // for what is on its way
		}
		if e.Err() != nil || !e.commitDue() {
			e.mu.Unlock()
			return nil
		}
		n := len(e.openReplies.reqs)
		if turn == maxYields || e.closed || n == 0 || 4*n >= 3*e.lastAnswers || n == before && 2*n >= e.lastAnswers {
			break
		}
		before = n
		e.mu.Unlock()
		runtime.Gosched()
	}
	defer e.mu.Unlock()
	return e.seal()
}

// commit gives a batch to the store. Batches are given in the order in which they were sealed. It
// is called without the lock, because it may take as long as a sync.
func (e *Engine) commit(c *flight) {
	c.begun = e.Now()
	e.opt.Store.Commit(c.batch, func(err error) { e.completeFlight(c, err) })
}

// completeFlight tells those who waited for a batch that it is committed, or that it failed. The
// store calls it, in the order of the batches. Answers leave before the lock is taken: nobody who
// waits for it should wait for the engine. On an error they are told that nothing is known.
func (e *Engine) completeFlight(c *flight, err error) {
	size, now := c.batch.Size(), e.Now()
	if err != nil {
		e.fail(fmt.Errorf("commit batch of %d changes: %w", c.batch.Len(), err))
		for _, r := range c.replies.reqs {
			answerAll(r, job.ErrInternal)
		}
	}
	e.meter.noteCommit(c, now)
	for _, r := range c.replies.reqs {
		r.Done(r)
	}
	clear(c.replies.reqs)
	c.replies.reqs = c.replies.reqs[:0]
	e.sinceSpace += size
	e.checkSpace()
	e.mu.Lock()
	e.retireFlight(c, now)
	e.unlock()
}

// retireFlight takes the batch back and answers those who came after it was sealed and need no more
// than it. Whoever waits for room is woken, also after an error.
func (e *Engine) retireFlight(c *flight, now job.Time) {
	e.commitEnded.Broadcast()
	if e.Err() != nil {
		return // it was not
	}
	landed := plant.Or(0, plant.NewestLanded, len(e.flights)-1)
	e.flights = slices.Delete(e.flights, landed, landed+1)
	e.core.Committed()
	if e.durable = c.step; plant.LaterVouchedFor.On() {
		e.durable = max(c.step, e.lastSealedStep())
	}
	e.spare = append(e.spare, c.replies)
	e.answered = append(e.answered, c.late...)
	for _, r := range c.late {
		e.meter.atOnce.note(r, r.took(now))
	}
	e.afterStep()
}
