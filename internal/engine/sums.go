package engine

import (
	"fmt"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// Sums returns the figures of all queues of a namespace together; with an empty name, of all namespaces. The
// machine keeps them, so the number of queues does not matter. Everything that they count is committed.
func (e *Engine) Sums(namespace string) (s job.Sums, err error) {
	err = e.readFigures(func() { s = e.core.Sums(namespace) })
	return s, err
}

// SumsOf returns the figures of several namespaces, all at the same moment. It is for the names of a page: the engine
// serves nobody else meanwhile.
func (e *Engine) SumsOf(namespaces []string) (list []job.Sums, err error) {
	list = make([]job.Sums, len(namespaces))
	err = e.readFigures(func() {
		for i, name := range namespaces {
			list[i] = e.core.Sums(name)
		}
	})
	return list, err
}

// Usage is how far the limits of a queue are used; see machine.Usage.
type Usage = machine.Usage

// Usage returns how far the limits of a queue are used.
func (e *Engine) Usage(namespace, queue string) (u Usage, err error) {
	err = e.readFigures(func() { u = e.core.Usage(e.Now(), namespace, queue) })
	return u, err
}

// Active is what has happened to a queue; see machine.Active.
type Active = machine.Active

// Activity is what has happened to queues; see machine.Activity.
type Activity struct {
	machine.Activity
	Sums job.Sums // of all queues, at the same moment
}

// Activity returns what has happened since the last call. There is one caller: what it was told is forgotten.
func (e *Engine) Activity() (a Activity, err error) {
	err = e.readFigures(func() { a = Activity{e.core.Activity(), e.core.Sums("")} })
	return a, err
}

// readFigures reads what the machine knows by heart, and then waits until that is committed
// (INV-11). It is done under the lock, so that what read does must be short whatever is stored.
func (e *Engine) readFigures(read func()) error {
	e.mu.Lock()
	if e.closed || e.Err() != nil {
		e.mu.Unlock()
		return e.closedError()
	}
	read()
	e.mu.Unlock()
	e.barrier()
	if e.Err() != nil {
		return e.closedError()
	}
	return nil
}

// Namespaces returns up to limit namespaces that have a queue, after a name, in byte order. Queues
// are not counted: each name takes one look into the store, which then skips all queues of the
// name.
func (q Query) Namespaces(after string, limit int) (names []string, err error) {
	lo, end := record.QueuesSpan("")
	if after != "" {
		_, lo = record.QueuesSpan(after)
	}
	for len(names) < limit {
		name := ""
		err = q.r.Scan(store.Range{Lo: lo, Hi: end}, func(key, _ []byte) bool {
			name, _, _ = record.ParseQueueKey(key)
			return false
		})
		if err != nil || name == "" {
			return names, err
		}
		names = append(names, name)
		_, lo = record.QueuesSpan(name)
	}
	return names, nil
}

// FirstQueues returns up to limit queues, those that were made first.
func (q Query) FirstQueues(limit int) (infos []job.QueueInfo, err error) {
	var keys [][]byte
	lo, hi := record.QueueNameKey(nil, 0), record.QueueNameKey(nil, 1<<32-1)
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(_, value []byte) bool {
		if len(keys) < limit {
			keys = append(keys, append([]byte(nil), value...))
		}
		return len(keys) < limit
	})
	for _, key := range keys {
		if err != nil {
			return nil, err
		}
		namespace, name, ok := record.ParseQueueKey(key)
		if !ok {
			return nil, fmt.Errorf("queue key %x: %w", key, record.ErrFormat)
		}
		var info job.QueueInfo
		if info, ok, err = q.Queue(namespace, name); ok {
			infos = append(infos, info)
		}
	}
	return infos, err
}
