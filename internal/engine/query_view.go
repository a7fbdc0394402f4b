package engine

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"millrace/internal/job"
	"millrace/internal/store"
)

// View is the committed data at one moment, with everything that was answered before
// it was taken: what several reads see of it agrees, whatever is done meanwhile. Whoever takes a
// View closes it, and soon: it keeps the space of everything deleted since, and the engine does not close before.
type View struct {
	Query
	close func() error
}

// View returns the data as it is now. It is refused when the engine closes.
func (e *Engine) View() (*View, error) {
	// It fails once Close waits for the open views. To wait behind that would be a deadlock for a caller
	// that has a view open and asks for another.
	if !e.readers.TryRLock() {
		return nil, job.ErrDraining
	}
	s, err := e.snapshot()
	if err != nil {
		e.readers.RUnlock()
		return nil, err
	}
	v := &View{Query: NewQuery(stoppable{s, &e.stopping})}
	v.close = sync.OnceValue(func() error {
		defer e.readers.RUnlock()
		if err := s.Close(); err != nil {
			return fmt.Errorf("close a snapshot: %w", err)
		}
		return nil
	})
	return v, nil
}

// Close releases the view. Closing twice is harmless.
func (v *View) Close() error { return v.close() }

// snapshot returns one that has everything that was answered before. It has nothing that a crash
// can undo, because a store does not show that (INV-11). The barrier is what makes a client see its
// own writes.
func (e *Engine) snapshot() (store.Snapshot, error) {
	e.barrier()
	return e.committedSnapshot()
}

// committedSnapshot returns one of what is committed.
func (e *Engine) committedSnapshot() (store.Snapshot, error) {
	if e.proofs.confirm != nil && e.Err() != nil {
		return nil, e.closedError() // nothing proves that this node knows what was answered last
	}
	if e.stopping.Load() {
		return nil, job.ErrDraining
	}
	s, err := e.opt.Store.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return s, nil
}

// yieldEvery is after how many entries a scan lets others run. A scan of a very long list would otherwise keep a
// processor for as long as the scheduler allows, again and again, and callers that have been answered would wait for
// it.
const yieldEvery = 64

// stoppable ends long scans when the engine is closed, and has them step back now and then.
type stoppable struct {
	store.Reader
	stop *atomic.Bool
}

// Scan asks with every entry whether the engine is closing: Close waits for open views.
func (s stoppable) Scan(r store.Range, visit func(key, value []byte) bool) error {
	stopped, n := false, 0
	err := s.Reader.Scan(r, func(key, value []byte) bool {
		if n++; n%yieldEvery == 0 {
			runtime.Gosched()
		}
		stopped = s.stop.Load()
		return !stopped && visit(key, value)
	})
	if err == nil && stopped {
		return job.ErrDraining
	}
	return err
}

// Read runs f on a view of its own.
func (e *Engine) Read(f func(*View) error) (err error) {
	v, err := e.View()
	if err != nil {
		return err
	}
	defer func() { // also after a panic
		if cerr := v.Close(); err == nil {
			err = cerr
		}
	}()
	return f(v)
}

// Queue returns what is known about a queue: Query.Queue on a view of its own, as with the
// methods that follow.
func (e *Engine) Queue(namespace, name string) (info job.QueueInfo, ok bool, err error) {
	err = e.Read(func(q *View) error {
		info, ok, err = q.Queue(namespace, name)
		return err
	})
	return info, ok, err
}

// Queues returns queues in byte order of their names; see Query.Queues.
func (e *Engine) Queues(namespace, after string, limit int) (infos []job.QueueInfo, err error) {
	err = e.Read(func(q *View) error {
		infos, err = q.Queues(namespace, after, limit)
		return err
	})
	return infos, err
}

// Namespaces returns namespaces in byte order; see Query.Namespaces.
func (e *Engine) Namespaces(after string, limit int) (names []string, err error) {
	err = e.Read(func(q *View) error {
		names, err = q.Namespaces(after, limit)
		return err
	})
	return names, err
}

// Get returns a job with everything that belongs to it.
func (e *Engine) Get(ref job.Ref) (j job.Job, err error) {
	err = e.Read(func(q *View) error {
		j, err = q.Get(ref)
		return err
	})
	return j, err
}

// List returns a page of one state of a queue, in the order of its list.
func (e *Engine) List(o ListOptions) (p Page, err error) {
	err = e.Read(func(q *View) error {
		p, err = q.List(o)
		return err
	})
	return p, err
}
