package machine

import "millrace/internal/job"

// Callers whose workers have as many jobs of a queue as they may have stand aside, each with the others of its worker,
// so that they do not hold up those behind them and nobody passes over them again and again. Whoever came first is
// still served first: the list and the lots are compared by when their first callers came.

// aside is where callers of one list stand who have been passed over because their worker has its
// fill (Limits.Worker). Without it every job would pass over the same callers again.
type aside struct {
	lots map[job.Holder]*lot
	open moments[*lot] // of workers who may have room for a job by now
	shut moments[*lot] // of those who had none, when they were looked at last
	// stale says that the limit has changed since then: they are to be looked at again.
	stale bool
}

// lot is where the callers of one worker stand. Its moment is the arrival of the first of them, or
// of one that has gone since: firstLot corrects it when the lot comes to the front.
type lot struct {
	moment

	worker job.Holder
	list   waitList
	isShut bool
}

// heap returns the heap that a lot is in.
func (a *aside) heap(l *lot) *moments[*lot] {
	if l.isShut {
		return &a.shut
	}
	return &a.open
}

// move puts a lot among those that are open or shut. A lot in neither heap has the index -1.
func (a *aside) move(l *lot, shut bool) {
	if l.index >= 0 {
		a.heap(l).remove(l)
	}
	l.isShut = shut
	a.heap(l).push(l)
}

// empty reports whether nobody stands there. Lots that are found to be empty go, so that each is
// looked at once.
func (a *aside) empty() bool {
	if a == nil {
		return true
	}
	for _, heap := range []*moments[*lot]{&a.open, &a.shut} {
		for len(*heap) > 0 {
			if (*heap)[0].list.firstNode() != nil {
				return false
			}
			a.drop((*heap)[0])
		}
	}
	return true
}

// drop forgets a lot that nobody stands in.
func (a *aside) drop(l *lot) {
	a.heap(l).remove(l)
	delete(a.lots, l.worker)
}

// reopen has all callers who stand aside looked at again, because the limits have changed. It only
// sets a mark: turnOf moves the lots, in bounded pieces.
func (l *waitList) reopen() {
	if l != nil && l.aside != nil {
		l.aside.stale = true
	}
}

// admit has those who stand aside for a worker looked at again: it has room for a job. The queue is
// woken by whoever frees the slot.
func (l *waitList) admit(worker job.Holder) {
	if l == nil || l.aside == nil {
		return
	}
	if lot := l.aside.lots[worker]; lot != nil && lot.isShut {
		l.aside.move(lot, false)
	}
}

// standAside takes the first caller out of the list and has it stand with the others of its worker.
// Those of a worker come in the order in which they stood in the list, so that each lot is sorted
// as well.
func (l *waitList) standAside(n *waitNode) {
	if l.aside == nil {
		l.aside = &aside{lots: map[job.Holder]*lot{}}
	}
	at := l.aside.lots[n.w.holder]
	if at == nil {
		at = &lot{worker: n.w.holder, list: waitList{home: l}}
		at.index, at.seq = -1, n.came
		l.aside.lots[at.worker] = at
	}
	l.remove(n)
	at.list.push(n)
	l.aside.move(at, true)
}

// dropLot forgets a lot that nobody stands in any more. It returns the list that the lot belongs to.
func (l *waitList) dropLot(worker job.Holder) *waitList {
	home, a := l.home, l.home.aside
	if at := a.lots[worker]; l.head == nil && at != nil && &at.list == l {
		a.drop(at)
	}
	return home
}

// firstLot returns the open lot whose first caller came first, or nil.
func (a *aside) firstLot() *lot {
	for a != nil && len(a.open) > 0 {
		at := a.open[0]
		switch n := at.list.firstNode(); {
		case n == nil:
			a.drop(at)
		case n.came != at.seq:
			at.seq = n.came
			a.open.down(0)
		default:
			return at
		}
	}
	return nil
}

// turnOf returns the caller whose turn it is to be given a job of a queue, or nil: of the list and
// the open lots the one that came first and whose worker may have a job. Those who may not are
// moved aside on the way, each for a unit of work. Short says that there may be a caller, but
// looking for it is too much for this step.
func (m *Machine) turnOf(q *queue) (w *waiter, short bool) {
	l := q.waiters
	// The limits have changed: whoever stood aside may have room now, and whether it has is found
	// out below.
	for a := l.aside; a != nil && a.stale; {
		switch {
		case len(a.shut) == 0:
			a.stale = false
		case !m.spend():
			return nil, true
		default:
			a.move(a.shut[0], false)
		}
	}
	for {
		n, at := l.firstNode(), l.aside.firstLot()
		fromLot := at != nil && (n == nil || at.seq < n.came)
		if fromLot {
			n = at.list.firstNode()
		}
		switch {
		// Everybody stands aside, and only the age of a slot can change that by time alone.
		case n == nil:
			if q.limit != nil {
				m.rouse(q, q.limit.firstAge())
			}
			return nil, false
		case q.limit == nil || !q.hasFill(n.w.holder):
			return n.w, false
		case !m.spend():
			return nil, true
		case fromLot:
			l.aside.move(at, true)
		default:
			l.standAside(n)
		}
	}
}
