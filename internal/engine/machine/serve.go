package machine

import "millrace/internal/plant"

// What has become fetchable goes to those who wait for it in the same step, as far as the
// work of the step allows. The rest is left over: Tick goes on with it. A queue that is
// left over stays so until it has been served, whatever else happens to it meanwhile.

// wake has the queue served at the end of this transition. Whatever may make a job of the queue
// fetchable must call it, because nothing polls: a wake that is forgotten leaves callers waiting
// beside a job (INV-5). To wake a queue in vain only costs a look.
func (m *Machine) wake(q *queue) {
	if !q.waking && !q.waiters.empty() && (!plant.WakeDropped.On() || m.now%8 != 0) {
		q.waking = true
		m.wakes.add(q)
	}
}

// endTransition ends a command or a timer, once it has done everything else: hooks push their jobs,
// batches reach what they can, and pushes that waited for room come in.
func (m *Machine) endTransition() {
	m.inTransition = false
	m.serveWakes()
}

// serveWakes does what the changes so far have made possible: groups that became free show their
// first job, and what has become fetchable goes to those who wait, first come first served (INV-5).
// A transition calls it between two jobs that it changes, as if each were a command of its own. New
// jobs come only at the end of the transition, when inTransition is false: what is being done may
// have been checked against the jobs there are. They come in a fixed order, which section 16 promises:
// hooks, then callbacks of batches, then pushes that waited. Each of them may cause more, so that
// the loop begins from the top each time. It ends: jobs of hooks fire no hooks, batches are nested
// at most batchDepth deep, and the work of the step bounds the rest.
func (m *Machine) serveWakes() {
	for {
		m.showFreed()
		switch {
		case len(m.notices) > plant.Or(0, plant.NoticeLate, 1) && !m.inTransition:
			m.pushNotice()
		case len(m.dueBatches) > 0 && !m.inTransition:
			m.advanceBatch()
		case !m.roomWakes.empty() && !m.inTransition:
			m.admitNext()
		case !m.wakes.empty():
			m.serve(m.wakes.take())
		default:
			return
		}
	}
}

// serve gives jobs of one queue to those who wait, until there is no job, no caller, or no work
// left in this step. The job is looked for before the caller, because ending expired jobs on the
// way may change who waits.
func (m *Machine) serve(q *queue) {
	q.waking = false
	for !q.waiters.empty() {
		if m.workBudget <= 0 {
			m.serveLater(q)
			return
		}
		// canLease has set the alarm that wakes the queue again.
		if q.limit != nil && !m.canLease(q) {
			return
		}
		e, short := m.head(q)
		if short {
			m.serveLater(q)
			return
		}
		if e == nil {
			return
		}
		w, short := m.turnOf(q)
		if short {
			m.serveLater(q)
			return
		}
		if w == nil {
			return // ending an expired job on the way may have ended its wait
		}
		m.spendWork()
		m.leave(e)
		m.deliver(w, e)
		// The lease may have held the group or freed a turn: the next head depends on it.
		m.showFreed()
	}
}

// serveLater leaves the rest of those who wait for jobs of a queue to Tick. The queue stays marked
// as waking, so that INV-5 knows that it is still to be served, and no wake adds it twice.
func (m *Machine) serveLater(q *queue) {
	if !q.waking {
		q.waking = true
		m.leftWakes.add(q)
	}
}

// admitNext lets the next push that waited for room into its queue. The queue stays first in line
// until it has no room or nobody is left: its pushes keep their order.
func (m *Machine) admitNext() {
	q := m.roomWakes.first()
	switch {
	case !q.canAdmitPush():
		m.roomWakes.take()
		q.wakingRoom = false
	case !m.spendWork():
		m.leftRoomWakes.add(m.roomWakes.take())
	default:
		m.admitPush(q)
	}
}

// serveSome goes on with what is left over of those who wait, and reports whether there is more.
// Each kind comes first in its turn, so that none is held up by the others. In a Tick in which
// timers went first nothing is done here: the next Tick comes at once, and then it is the turn of
// those who wait.
func (m *Machine) serveSome() (more bool) {
	if m.timersFirst || !m.Behind() {
		return m.Behind()
	}
	kinds := [...]func(){m.notifySome, m.leaveSome, m.admitRest, m.serveRest}
	m.serveTurn++
	for i := range kinds {
		kinds[(m.serveTurn+i)%len(kinds)]()
	}
	return m.Behind()
}

// postponedMax is how many Ticks in a row may leave a clean-up for later.
const postponedMax = 64

// isSweepPostponed reports whether a clean-up after a purge waits until those who are left over have been
// answered. It does not wait for ever: as long as clients keep the machine busy, the space of
// purged jobs would never come back.
func (m *Machine) isSweepPostponed() bool {
	if m.leftWakes.empty() && m.leftRoomWakes.empty() && m.notifying.empty() || m.postponed == postponedMax {
		m.postponed = 0
		return false
	}
	m.postponed++
	return true
}

// isDue reports whether a timer or an alarm is due.
func (m *Machine) isDue() bool {
	return len(m.timers) > 0 && m.timers[0].at <= m.now ||
		len(m.alarms) > 0 && m.alarms[0].at <= m.now || m.earliestBeyond <= m.now
}

// admitRest and serveRest go on with queues of earlier steps, as far as the work of this step goes.
func (m *Machine) admitRest() {
	for !m.leftRoomWakes.empty() && m.workBudget > 0 {
		m.roomWakes.add(m.leftRoomWakes.take())
		m.serveWakes()
	}
}

func (m *Machine) serveRest() {
	for !m.leftWakes.empty() && m.workBudget > 0 {
		m.serve(m.leftWakes.take())
		m.serveWakes()
	}
}

// Behind reports whether callers are still to be served, let in, told or taken out of lists.
func (m *Machine) Behind() bool {
	return !m.leftWakes.empty() || !m.leftRoomWakes.empty() || !m.notifying.empty() || !m.leaving.empty()
}
