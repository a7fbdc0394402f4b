package engine

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"millrace/internal/job"
	"millrace/internal/store"
)

// replies are requests to be answered together.
type replies struct{ reqs []*Request }

// sealedBatch is a batch on its way to the store, with the answers that wait for it.
type sealedBatch struct {
	batch    *store.Batch
	replies  *replies
	commands uint64   // how many were applied for it
	at       job.Time // when it was committed
}

// holdFor is how long a lazy engine gathers changes: with what the sync takes, a
// crash loses no more than the interval. Jobs that come and go meanwhile never reach
// the store.
func (e *Engine) holdFor() time.Duration { return e.opt.SyncInterval / 2 }

// It gathers no more changes or bytes than this. The more of them go to the store together, the closer their keys are to each other.
const (
	holdMax   = 16 << 10
	holdBytes = 4 << 20
)

// commitDue reports whether the open batch should be committed now. While another is
// being committed, whoever does that looks again.
func (e *Engine) commitDue() bool {
	if e.busy {
		return false
	}
	if e.core.Dirty() == 0 {
		e.flush = false
		return false
	}
	if !e.lazy || e.flush || e.core.Changes() >= holdMax || e.core.Bytes() >= holdBytes {
		return true
	}
	now := e.Now()
	e.looked = now
	if e.held == 0 {
		e.held = now
	}
	return now.Sub(e.held) >= e.holdFor()
}

// summon has the open batch committed if it is time.
func (e *Engine) summon() {
	if e.commitDue() {
		select {
		case e.work <- struct{}{}:
		default:
		}
	}
}

// leadMax is the largest batch after which a caller that has nothing else to do commits
// on its own goroutine. With more callers the committer gathers more of them.
const leadMax = 2

// lead seals the open batch for the caller to commit, if it may and it is time.
func (e *Engine) lead(may bool) *sealedBatch {
	if !may || e.lazy || e.last > leadMax || !e.commitDue() {
		return nil
	}
	return e.seal()
}

// seal closes the open batch. Only one is being committed at a time.
func (e *Engine) seal() *sealedBatch {
	b, step := e.core.Seal()
	e.busy, e.sealed, e.held, e.flush = true, step, 0, false
	c := &sealedBatch{batch: b, replies: e.open, commands: e.gathered}
	e.gathered = 0
	if n := len(e.spare); n > 0 {
		e.open, e.spare = e.spare[n-1], e.spare[:n-1]
	} else {
		e.open = &replies{}
	}
	e.last = len(c.replies.reqs)
	e.stats.commits.Add(1)
	e.stats.batched.Add(uint64(e.last)) //nolint:gosec // a length
	return c
}

// commitLoop commits as long as there is something to commit.
func (e *Engine) commitLoop() {
	for stopping := false; !stopping; {
		select {
		case <-e.work:
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

// yields is how often the committer steps back at most before it seals a batch that is smaller
// than the one before and still grows, or much smaller, so that callers that are ready to run get into it. One
// of nearly that size is sealed at once: the callers of the one before are answered while it is written. On an idle
// machine stepping back takes no time.
const yields = 24

// next seals the open batch if it is time, or returns nil.
func (e *Engine) next() *sealedBatch {
	for turn, before := 0, 0; ; turn++ {
		e.mu.Lock()
		for e.busy && e.closed && e.Err() == nil {
			e.room.Wait() // for the last commit of a caller
		}
		if e.Err() != nil || !e.commitDue() {
			e.mu.Unlock()
			return nil
		}
		n := len(e.open.reqs)
		if turn == yields || e.closed || n == 0 || 4*n >= 3*e.last || n == before && 2*n >= e.last {
			break
		}
		before = n
		e.mu.Unlock()
		runtime.Gosched()
	}
	defer e.mu.Unlock()
	return e.seal()
}

// commit commits a batch and tells those who waited for it.
func (e *Engine) commit(c *sealedBatch) {
	size, start := c.batch.Size(), c.batch.Len()
	done := make(chan struct{})
	e.inflight.Store(&done)
	begun := e.Now()
	err := e.opt.Store.Commit(c.batch, e.opt.Durability == DurabilityFsync)
	c.at = e.Now()
	e.inflight.Store(nil)
	close(done)
	if err != nil {
		for _, r := range c.replies.reqs {
			answerAll(r, job.ErrInternal)
		}
		e.fail(fmt.Errorf("commit batch of %d changes: %w", start, err))
	} else if e.opt.Durability == DurabilityInterval {
		e.scheduleSync()
	}
	e.meter.noteCommit(c, c.at.Sub(begun))
	for _, r := range c.replies.reqs {
		r.Done(r)
	}
	clear(c.replies.reqs)
	c.replies.reqs = c.replies.reqs[:0]
	e.sinceSpace += size
	e.checkSpace()
	e.mu.Lock()
	e.committed(c)
	e.unlock()
}

// committed takes the batch back and answers those who came after it was sealed and
// need no more than that.
func (e *Engine) committed(c *sealedBatch) {
	e.room.Broadcast()
	if e.Err() != nil {
		e.busy = false
		return // it was not
	}
	e.core.Committed()
	e.busy, e.durable = false, e.sealed
	e.spare = append(e.spare, c.replies)
	e.answered = append(e.answered, e.late.reqs...)
	for _, r := range e.late.reqs {
		e.atOnce.note(r, r.took(c.at))
	}
	clear(e.late.reqs)
	e.late.reqs = e.late.reqs[:0]
	e.look()
}

// scheduleSync has the store synced within the interval.
func (e *Engine) scheduleSync() {
	e.syncMu.Lock()
	defer e.syncMu.Unlock()
	if e.syncing {
		return
	}
	e.syncing = true
	e.syncs.Add(1)
	time.AfterFunc(e.opt.SyncInterval/2, func() {
		defer e.syncs.Done()
		e.syncMu.Lock()
		e.syncing = false
		e.syncMu.Unlock()
		if err := e.opt.Store.Sync(); err != nil && !errors.Is(err, store.ErrClosed) {
			e.fail(fmt.Errorf("sync: %w", err))
		}
	})
}
