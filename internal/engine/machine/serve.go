package machine

// What has become fetchable goes to those who wait for it in the same step, as far as the
// work of the step allows. The rest is left over: Tick goes on with it. A queue that is
// left over stays so until it has been served, whatever else happens to it meanwhile.

// wake has the queue served at the end of this transition.
func (m *Machine) wake(q *queue) {
	if !q.waking && !q.waiters.empty() {
		q.waking = true
		m.wakes.add(q)
	}
}

// endTransition ends a command or a timer, once it has done everything else: batches reach
// what they can, and pushes that waited for room come in.
func (m *Machine) endTransition() {
	m.inside = false
	m.serveWakes()
}

// serveWakes ends a transition: groups that became free show their first job, and what
// has become fetchable goes to those who wait, first come first served (INV-5). New jobs
// come only from outside: what is being done may have been checked against those there are.
func (m *Machine) serveWakes() {
	for {
		m.showFreed()
		switch {
		case len(m.notices) > 0 && !m.inside:
			m.pushNotice()
		case len(m.ripe) > 0 && !m.inside:
			m.advance()
		case !m.rooms.empty() && !m.inside:
			m.admitNext()
		case !m.wakes.empty():
			m.serve(m.wakes.take())
		default:
			return
		}
	}
}

// serve gives jobs of one queue to those who wait.
func (m *Machine) serve(q *queue) {
	q.waking = false
	for !q.waiters.empty() {
		if m.work <= 0 {
			m.serveLater(q)
			return
		}
		if q.limit != nil && !m.opens(q) {
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
		m.spend()
		m.leave(e)
		m.deliver(w, e)
		m.showFreed()
	}
}

// serveLater leaves the rest of those who wait for jobs of a queue to Tick.
func (m *Machine) serveLater(q *queue) {
	if !q.waking {
		q.waking = true
		m.left.add(q)
	}
}

// admitNext lets the next push that waited for room into its queue.
func (m *Machine) admitNext() {
	q := m.rooms.first()
	switch {
	case !q.hasEntrant():
		m.rooms.take()
		q.rooming = false
	case !m.spend():
		m.leftRooms.add(m.rooms.take())
	default:
		m.letIn(q)
	}
}

// serveSome goes on with what is left over of those who wait, and reports whether there
// is more. Each kind comes first in its turn, so that none is held up by the others.
func (m *Machine) serveSome() (more bool) {
	if m.held || !m.Behind() {
		return m.Behind()
	}
	kinds := [...]func(){m.tellSome, m.leaveSome, m.admitRest, m.serveRest}
	m.turn++
	for i := range kinds {
		kinds[(m.turn+i)%len(kinds)]()
	}
	return m.Behind()
}

// postponedMax is how many Ticks in a row may leave a clean-up for later.
const postponedMax = 64

// postpones reports whether a clean-up after a purge waits until those who are left over
// have been answered. It does not wait for ever.
func (m *Machine) postpones() bool {
	if m.left.empty() && m.leftRooms.empty() && m.telling.empty() || m.postponed == postponedMax {
		m.postponed = 0
		return false
	}
	m.postponed++
	return true
}

// isDue reports whether a timer or an alarm is due.
func (m *Machine) isDue() bool {
	return len(m.timers) > 0 && m.timers[0].at <= m.now || len(m.alarms) > 0 && m.alarms[0].at <= m.now || m.beyond <= m.now
}

func (m *Machine) admitRest() {
	for !m.leftRooms.empty() && m.work > 0 {
		m.rooms.add(m.leftRooms.take())
		m.serveWakes()
	}
}

func (m *Machine) serveRest() {
	for !m.left.empty() && m.work > 0 {
		m.serve(m.left.take())
		m.serveWakes()
	}
}

// Behind reports whether callers are still to be served, let in, told or forgotten.
func (m *Machine) Behind() bool {
	return !m.left.empty() || !m.leftRooms.empty() || !m.telling.empty() || !m.leaving.empty()
}
