package machine

import "millrace/internal/job"

// Callers whose workers have as many jobs of a queue as they may have are parked, each with the others of its worker,
// so that they do not hold up those behind them and nobody passes over them again and again. Whoever came first is
// still served first: the list and the parked ones of each worker are compared by when their first callers came.

// parkedWaits are the callers of one list that have been passed over because their worker is at its
// limit (Limits.Worker). Without it every job would pass over the same callers again.
type parkedWaits struct {
	byWorker map[job.Holder]*workerWaits
	eligible momentHeap[*workerWaits] // of workers who may have room for a job by now
	atLimit  momentHeap[*workerWaits] // of those who had none, when they were looked at last
	// limitsChanged says that the limit has changed since then: they are to be looked at again.
	limitsChanged bool
}

// workerWaits are the parked callers of one worker. Its moment is the arrival of the first of them,
// or of one that has gone since: firstEligible corrects it when it comes to the front.
type workerWaits struct {
	moment

	worker  job.Holder
	list    waitList
	atLimit bool
}

// heap returns the heap that the callers of a worker are in.
func (a *parkedWaits) heap(w *workerWaits) *momentHeap[*workerWaits] {
	if w.atLimit {
		return &a.atLimit
	}
	return &a.eligible
}

// moveTo puts the callers of a worker among the eligible ones or among those at their limit. In
// neither heap their index is -1.
func (a *parkedWaits) moveTo(w *workerWaits, atLimit bool) {
	if w.index >= 0 {
		a.heap(w).remove(w)
	}
	w.atLimit = atLimit
	a.heap(w).push(w)
}

// empty reports whether nobody is parked. Workers that are found to have no callers go, so that each
// is looked at once.
func (a *parkedWaits) empty() bool {
	if a == nil {
		return true
	}
	for _, heap := range []*momentHeap[*workerWaits]{&a.eligible, &a.atLimit} {
		for len(*heap) > 0 {
			if (*heap)[0].list.firstNode() != nil {
				return false
			}
			a.drop((*heap)[0])
		}
	}
	return true
}

// drop forgets a worker that has no parked callers.
func (a *parkedWaits) drop(w *workerWaits) {
	a.heap(w).remove(w)
	delete(a.byWorker, w.worker)
}

// recheckParked has all parked callers looked at again, because the limits have changed. It only
// sets a mark: turnOf moves them, in bounded pieces.
func (l *waitList) recheckParked() {
	if l != nil && l.parked != nil {
		l.parked.limitsChanged = true
	}
}

// unpark has the parked callers of a worker looked at again: it has room for a job. The queue is
// woken by whoever frees the slot.
func (l *waitList) unpark(worker job.Holder) {
	if l == nil || l.parked == nil {
		return
	}
	if w := l.parked.byWorker[worker]; w != nil && w.atLimit {
		l.parked.moveTo(w, false)
	}
}

// park takes the first caller out of the list and puts it with the others of its worker. Those of a
// worker come in the order in which they stood in the list, so that they stay sorted.
func (l *waitList) park(n *waitNode) {
	if l.parked == nil {
		l.parked = &parkedWaits{byWorker: map[job.Holder]*workerWaits{}}
	}
	at := l.parked.byWorker[n.w.holder]
	if at == nil {
		at = &workerWaits{worker: n.w.holder, list: waitList{parkedFrom: l}}
		at.index, at.seq = -1, n.came
		l.parked.byWorker[at.worker] = at
	}
	l.remove(n)
	at.list.push(n)
	l.parked.moveTo(at, true)
}

// dropWorkerWaits forgets a worker that has no parked callers any more. It returns the list that
// they were in.
func (l *waitList) dropWorkerWaits(worker job.Holder) *waitList {
	home, a := l.parkedFrom, l.parkedFrom.parked
	if at := a.byWorker[worker]; l.head == nil && at != nil && &at.list == l {
		a.drop(at)
	}
	return home
}

// firstEligible returns the eligible worker whose first caller came first, or nil.
func (a *parkedWaits) firstEligible() *workerWaits {
	for a != nil && len(a.eligible) > 0 {
		at := a.eligible[0]
		switch n := at.list.firstNode(); {
		case n == nil:
			a.drop(at)
		case n.came != at.seq:
			at.seq = n.came
			a.eligible.down(0)
		default:
			return at
		}
	}
	return nil
}

// turnOf returns the caller whose turn it is to be given a job of a queue, or nil: of the list and
// the eligible workers the one that came first and whose worker may have a job. Those who may not
// are parked on the way, each for a unit of work. Short says that there may be a caller, but
// looking for it is too much for this step.
func (m *Machine) turnOf(q *queue) (w *waiter, short bool) {
	l := q.waiters
	// The limits have changed: whoever was parked may have room now, and whether it has is found out
	// below.
	for a := l.parked; a != nil && a.limitsChanged; {
		switch {
		case len(a.atLimit) == 0:
			a.limitsChanged = false
		case !m.spendWork():
			return nil, true
		default:
			a.moveTo(a.atLimit[0], false)
		}
	}
	for {
		n, at := l.firstNode(), l.parked.firstEligible()
		isParked := at != nil && (n == nil || at.seq < n.came)
		if isParked {
			n = at.list.firstNode()
		}
		switch {
		// Everybody is parked, and only the expiry of a slot can change that by time alone.
		case n == nil:
			if q.limit != nil {
				m.wakeAt(q, q.limit.nextExpiry())
			}
			return nil, false
		case q.limit == nil || !q.isWorkerAtLimit(n.w.holder):
			return n.w, false
		case !m.spendWork():
			return nil, true
		case isParked:
			l.parked.moveTo(at, true)
		default:
			l.park(n)
		}
	}
}
