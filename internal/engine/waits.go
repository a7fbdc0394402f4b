package engine

import (
	"sync/atomic"

	"millrace/internal/job"
)

// The defaults of what all waiting callers together may be.
const (
	DefaultMaxWaiters     = 100_000
	DefaultMaxWaiterBytes = 256 << 20
)

// What a waiting caller costs, about: its request, its place in the lists of the machine and what the protocol
// remembers of it; and for each queue that a fetch names.
const (
	waiterBytes      = 1536
	waiterQueueBytes = 192
)

// waits counts the callers that wait. A client may have many of them on one connection, so the limit of connections
// does not bound them. The engine's lock guards it, except refused.
type waits struct {
	max      int
	maxBytes int64
	bytes    int64 // that those who wait hold
	refused  atomic.Uint64
}

func (w *waits) init(o *Options) {
	w.max, w.maxBytes = o.MaxWaiters, o.MaxWaiterBytes
	if w.max <= 0 {
		w.max = DefaultMaxWaiters
	}
	if w.maxBytes <= 0 {
		w.maxBytes = DefaultMaxWaiterBytes
	}
}

// roomToWait reports whether a caller that holds that many bytes may wait. It counts those that may not.
func (e *Engine) roomToWait(bytes int64) bool {
	if len(e.waiting) < e.waits.max && e.waits.bytes+bytes <= e.waits.maxBytes {
		return true
	}
	e.waits.refused.Add(1)
	return false
}

// wait lets a request wait with its last command. It reports false if there are too many already.
func (e *Engine) wait(r *Request, cmd job.Command) bool {
	r.holds = waitCost(cmd)
	if !e.roomToWait(r.holds) {
		return false
	}
	e.waiting[r.token] = r // collect, now or later, answers it
	e.waits.bytes += r.holds
	r.waited = true
	return true
}

// endWait forgets a request that has waited.
func (e *Engine) endWait(r *Request) {
	delete(e.waiting, r.token)
	e.waits.bytes -= r.holds
}

// startsWait reports whether a command does something before it waits, so that it must be refused before it is applied.
func startsWait(cmd job.Command) bool {
	_, ok := cmd.(*job.Run)
	return ok
}

// waitCost returns about how much memory a command holds while it waits.
func waitCost(cmd job.Command) int64 {
	n := waiterBytes
	switch c := cmd.(type) {
	case *job.Fetch:
		for _, q := range c.Queues {
			n += waiterQueueBytes + len(q)
		}
	case *job.Push:
		n += specSize(&c.Spec)
	case *job.Run:
		n += specSize(&c.Spec)
	default: // others hold nothing but their place
	}
	return int64(n)
}

func specSize(s *job.Spec) int {
	return len(s.Key) + len(s.Type) + len(s.Group) + len(s.Body) + len(s.Extra) + len(s.Trace) + len(s.Lock) +
		32*len(s.BlockedBy)
}
