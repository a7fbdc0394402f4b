package engine

import (
	"errors"
	"fmt"
	"time"

	"millrace/internal/job"
	"millrace/internal/store"
)

// replies are requests to be answered together.
type replies struct{ reqs []*Request }

// commit is a sealed batch on its way to the store.
type commit struct {
	batch   *store.Batch
	size    int // of the batch: after the commit it is in use again
	replies *replies
}

// holdFor is how long a lazy engine gathers changes: with what the sync takes, a
// crash loses no more than the interval. Jobs that come and go meanwhile never reach
// the store.
func (e *Engine) holdFor() time.Duration { return e.opt.SyncInterval / 2 }

// holdMax is how many changes it gathers at most.
const holdMax = 4096

// answer lets a request go once what it was told is committed (INV-11), or at once if
// the operator has chosen that a crash may lose something.
func (e *Engine) answer(r *Request) {
	if e.lazy {
		r.Done(r)
		return
	}
	e.answerCommitted(r)
}

func (e *Engine) answerCommitted(r *Request) {
	needs := min(r.needs, max(e.core.Dirty(), e.sealed)) // steps after that have changed nothing
	switch {
	case needs <= e.durable:
		r.Done(r)
	case e.busy && needs <= e.sealed:
		e.late.reqs = append(e.late.reqs, r)
	default:
		e.open.reqs = append(e.open.reqs, r)
	}
}

// commitIfFree hands the open batch to the committer unless it is busy, or commits it
// in place where that is quicker.
func (e *Engine) commitIfFree() (inPlace bool) {
	if e.busy || e.hold() {
		return false
	}
	b, step := e.core.Seal()
	if b == nil {
		return false
	}
	e.busy, e.sealed = true, step
	e.setPatient(true)
	out := e.open
	if n := len(e.spare); n > 0 {
		e.open, e.spare = e.spare[n-1], e.spare[:n-1]
	} else {
		e.open = &replies{}
	}
	e.last = len(out.reqs)
	e.stats.commits.Add(1)
	e.stats.batched.Add(uint64(len(out.reqs)))
	c := &commit{b, b.Size(), out}
	if e.quick.Load() < quickEnough || e.lazy {
		e.commits <- c
		return false
	}
	e.write(c)
	e.wasCommitted(c.replies)
	return true
}

// On a quick disk handing a batch over and back takes longer than the commit itself,
// so the loop does it: after so many commits in a row that were quick, until one is
// not. On a slow disk fetches must not wait for the commits of others.
const (
	quickEnough = 64
	quickTime   = time.Millisecond
)

// hold reports whether a lazy engine should gather more changes before it commits.
func (e *Engine) hold() bool {
	if !e.lazy {
		return false
	}
	if e.core.Dirty() == 0 {
		e.flush = false
		return true
	}
	if e.held.IsZero() {
		e.held = time.Now()
	}
	if !e.flush && e.core.Changes() < holdMax && time.Since(e.held) < e.holdFor() {
		return true
	}
	e.held, e.flush = time.Time{}, false
	return false
}

func (e *Engine) setPatient(p bool) {
	if e.lazy {
		return
	}
	e.mu.Lock()
	e.patient = p
	e.mu.Unlock()
}

// wasCommitted takes the batch back from the committer, which has sent its answers.
func (e *Engine) wasCommitted(r *replies) {
	if e.Err() != nil {
		return // it was not
	}
	e.core.Committed()
	e.busy, e.durable = false, e.sealed
	e.setPatient(false)
	e.spare = append(e.spare, r)
	for _, q := range e.late.reqs {
		q.Done(q)
	}
	clear(e.late.reqs)
	e.late.reqs = e.late.reqs[:0]
}

// commitLoop writes batches to the store and sends the answers that waited for it.
func (e *Engine) commitLoop() {
	defer close(e.committed)
	for c := range e.commits {
		e.write(c)
		e.committed <- c.replies
	}
}

// write commits a batch and sends the answers that waited for it. Only one batch is
// on its way at a time, with the committer or with the loop.
func (e *Engine) write(c *commit) {
	start := time.Now()
	done := make(chan struct{})
	e.inflight.Store(&done)
	err := e.opt.Store.Commit(c.batch, e.opt.Durability == DurabilityFsync)
	e.inflight.Store(nil)
	close(done)
	if time.Since(start) < quickTime {
		e.quick.Add(1)
	} else {
		e.quick.Store(0)
	}
	if err != nil {
		for _, r := range c.replies.reqs {
			answerAll(r, job.ErrInternal)
		}
		e.fail(fmt.Errorf("commit batch of %d changes: %w", c.batch.Len(), err))
	} else if e.opt.Durability == DurabilityInterval {
		e.scheduleSync()
	}
	for _, r := range c.replies.reqs {
		r.Done(r)
	}
	clear(c.replies.reqs)
	c.replies.reqs = c.replies.reqs[:0]
	e.sinceSpace += c.size
	e.checkSpace()
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
