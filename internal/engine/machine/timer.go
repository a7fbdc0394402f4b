package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// timerItem is one timer, of a job, or of a batch or a schedule: those have the queue number zero.
// Timers sort by time, then queue, then id, in memory as in the store; section 12 promises that
// order.
type timerItem struct {
	at job.Time
	q  record.QueueID
	id job.ID
}

func (t timerItem) before(u timerItem) bool {
	switch {
	case t.at != u.at:
		return t.at < u.at
	case t.q != u.q:
		return t.q < u.q
	default:
		return t.id < u.id
	}
}

// timerHeap holds the timers before the horizon. Timers that were moved or called off stay in until
// their time: what counts is the job's own Timer. So setting a timer is cheap, and most are called
// off.
type timerHeap []timerItem

// push adds a timer. It may be there already, which costs a look later and does no harm.
func (h *timerHeap) push(t timerItem) {
	*h = append(*h, t)
	s := *h
	for i := len(s) - 1; i > 0; {
		p := (i - 1) / 2
		if !s[i].before(s[p]) {
			return
		}
		s[i], s[p] = s[p], s[i]
		i = p
	}
}

// pop removes and returns the earliest timer. The heap must not be empty.
func (h *timerHeap) pop() timerItem {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			break
		}
		if c+1 < last && s[c+1].before(s[c]) {
			c++
		}
		if !s[c].before(s[i]) {
			break
		}
		s[i], s[c] = s[c], s[i]
		i = c
	}
	// After a peak the memory is given back.
	if cap(s) > 1<<14 && len(s) < cap(s)/4 {
		s = append(make(timerHeap, 0, len(s)), s...)
	}
	*h = s
	return top
}

// expires returns when the job ends by its expiry in the state it is in; zero if it does not. The
// same ExpireAt may count in one state and not in the next (section 5), so that it is asked again
// with every change of state.
func expires(e *entry) job.Time {
	at := e.Policy.ExpireAt
	if at == job.Never {
		return 0
	}
	switch e.State {
	case job.Dead:
		return 0
	case job.Scheduled, job.Blocked, job.Ready, job.Retrying:
		return at
	case job.Leased, job.Buried, job.Done, job.Failed:
		if e.Policy.Expiry == job.ExpireWaiting {
			return 0
		}
		return at
	}
	return 0
}

// isExpired reports whether the time of the job has run out. Its timer may still have to fire.
func isExpired(e *entry, now job.Time) bool {
	at := expires(e)
	return at != 0 && at <= now
}

// timerOf returns when the machine must look at the job next, zero for never. It follows from the
// record alone: check compares it with the timer that is stored (INV-7). A job has one timer, for
// whatever comes first; fireTimer finds out what that is.
func timerOf(e *entry) job.Time {
	at := expires(e)
	switch e.State {
	case job.Scheduled, job.Retrying:
		at = job.Earlier(at, e.RunAt)
	case job.Leased:
		at = job.Earlier(at, e.Lease.Until)
	case job.Dead:
		if e.Policy.DeadFor > 0 {
			at = e.Since.Add(e.Policy.DeadFor)
		}
	case job.Blocked, job.Ready, job.Buried, job.Done, job.Failed:
	}
	if at == job.Never {
		return 0
	}
	return at
}

// setTimer and unsetTimer store and remove the timer that the job says it has.
func (m *Machine) setTimer(e *entry)   { m.setTimerAt(timerItem{e.Timer, e.q.ID, e.ID}) }
func (m *Machine) unsetTimer(e *entry) { m.unsetTimerAt(timerItem{e.Timer, e.q.ID, e.ID}) }

// setTimerAt sets a timer; a time of zero is none. Behind the horizon it is only stored, and memory
// knows how early the first of those is.
func (m *Machine) setTimerAt(t timerItem) {
	if t.at == 0 {
		return
	}
	m.keyBuf = record.TimerKey(m.keyBuf[:0], t.at, t.q, t.id)
	m.store.Insert(m.keyBuf, nil)
	if t.before(m.horizon) {
		m.timers.push(t)
	} else {
		m.earliestBeyond = min(m.earliestBeyond, t.at)
	}
}

// unsetTimerAt removes a timer from the store. In the heap it stays, and fireTimer passes over it.
func (m *Machine) unsetTimerAt(t timerItem) {
	if t.at != 0 {
		m.keyBuf = record.TimerKey(m.keyBuf[:0], t.at, t.q, t.id)
		m.store.Remove(m.keyBuf)
	}
}

// fire applies timers and alarms that are due, earliest first, each as a transition of its own.
// Timers of jobs come before alarms of the same time. It stops when it has done limit units of
// work, and reports whether it did: dependants and leases that a timer has ended count as well.
func (m *Machine) fire(limit int) bool {
	for limit > 0 {
		m.advanceHorizon()
		due := len(m.timers) > 0 && m.timers[0].at <= m.now
		ring := len(m.alarms) > 0 && m.alarms[0].at <= m.now
		m.beginTransition()
		switch {
		case ring && (!due || m.alarms[0].at < m.timers[0].at):
			m.ringAlarm(m.alarms.pop())
		case due:
			m.fireTimer(m.timers.pop())
		default:
			// There was nothing to apply, and nothing to serve: the transition ends without
			// endTransition.
			m.inTransition = false
			return false
		}
		m.endTransition()
		// follow and leases began with StepWork each.
		limit -= 1 + 2*m.opt.StepWork - m.dependantBudget - m.leaseBudget
	}
	return true
}

// advanceHorizon moves the horizon on when its time has come, and reads the timers up to the new one. It
// does so only when the timers in memory are used up, because a horizon that moves on with every
// step would read the store each time. If nothing is stored before the new horizon the store is not
// read at all.
func (m *Machine) advanceHorizon() {
	for m.horizon.at <= m.now && (len(m.timers) == 0 || m.timers[0].at > m.now) {
		target := timerItem{at: m.now.Add(m.opt.Horizon)}
		if m.earliestBeyond < target.at {
			target = m.readTimers(target)
		}
		m.horizon = target
	}
}

// readTimers reads the timers from the horizon up to target, or as many as one read may bring in.
// It returns up to where it has got, which is the new horizon: a timer that is set before that goes
// to the heap, and one that is set at or after it is read later, so that none is in it twice or not
// at all.
func (m *Machine) readTimers(target timerItem) timerItem {
	lo := record.TimerKey(nil, m.horizon.at, m.horizon.q, m.horizon.id)
	m.earliestBeyond = job.Never
	n := 0
	m.store.Scan(lo, record.TimerEnd(), false, func(key, _ []byte) bool {
		at, q, id, ok := record.ParseTimerKey(key)
		if !ok {
			corrupt("timer", record.ErrFormat)
		}
		t := timerItem{at, q, id}
		if n == m.opt.TimersPerLoad && t.before(target) {
			target = t
		}
		if !t.before(target) {
			m.earliestBeyond = at
			return false
		}
		m.timers.push(t)
		n++
		return true
	})
	return target
}

// fireTimer does what the timer of a job, a batch or a schedule is for. The timer in the heap may
// be out of date; the record decides.
func (m *Machine) fireTimer(t timerItem) {
	// Batches and schedules share one sequence of numbers: at most one of the two has this one.
	if t.q == 0 {
		m.forgetBatch(t)
		m.fireTicker(t)
		return
	}
	e := m.loadRef(record.JobRef{Queue: t.q, ID: t.id})
	if e == nil {
		// Of a job that was purged or whose queue was removed.
		m.keyBuf = record.TimerKey(m.keyBuf[:0], t.at, t.q, t.id)
		m.del(m.keyBuf)
		return
	}
	// It was moved or called off, and whoever did has removed it from the store.
	if e.Timer != t.at {
		return
	}
	if e.State == job.Leased && m.postpone(e, t) {
		return
	}
	m.unsetTimer(e) // whatever follows sets it again, perhaps to the same time
	e.Timer = 0
	switch {
	// Expiry first: when it is due together with another timer, it wins (section 5).
	case isExpired(e, m.now):
		m.expire(e)
	case e.State == job.Scheduled || e.State == job.Retrying:
		m.makeDueReady(e)
	case e.State == job.Leased:
		m.lapse(e)
	case e.State == job.Dead:
		m.discardDead(e)
	default:
		corrupt("timer", errDangling)
	}
}

// makeDueReady makes a job ready whose schedule or back-off has ended. The flag is looked at before leave,
// which clears it.
func (m *Machine) makeDueReady(e *entry) {
	p := e.Policy.Due
	if e.Flags.Has(job.FlagOldPlace) {
		p = job.PlaceOld
	}
	m.leave(e)
	m.count(e.q, job.CountDue)
	m.makeReady(e, p)
}
