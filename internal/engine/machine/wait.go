package machine

import (
	"cmp"
	"slices"
	"time"

	"millrace/internal/job"
)

// waiter is a caller whose command has not been answered yet. It waits for one thing: a job
// (fetch), room (push), a result (awaits), or the end of a flush. The command belongs to the
// caller, who keeps it unchanged until it is answered.
type waiter struct {
	token   uint64
	arrival uint64
	holder  job.Holder
	owner   *holder // what is in memory of that holder; nil if it has none
	alarm   alarm

	one        waitNode     // its place in a list, if it is in one only
	more       [][]waitNode // its places if it is in several
	isAnswered bool         // it has been answered, and is still to be taken out of the lists

	fetch *job.Fetch // waits for a job
	until job.Time   // of a fetch: its time is up then
	walk  *fetchWalk // has not looked at all its queues yet; nil if it has

	push *job.Push // waits for room

	flush *job.Flush // waits for a flush to end

	awaits  job.ID   // waits for the result of this job
	jobWait *jobWait // with others
	run     bool     // and that job is its own
	overdue bool     // its time is up, but a worker has the job
}

// alarm is a moment that concerns no stored job: the end of a wait, of a grace or of a pause, or a
// limit that lets a job out. Exactly one of the pointers is set. Alarms are in memory only. After a
// restart there are no waits, the graces of holders that are kept begin, and the other two follow
// from the record of the queue.
type alarm struct {
	moment

	waiter *waiter
	holder *holder
	queue  *queue // whose pause ends
	// limited is the queue whose limits let a job out.
	limited *queue
}

// setAlarm arms an alarm that is in no heap; a time of Never does not. Alarms of the same time ring
// in the order in which they were set.
func (m *Machine) setAlarm(a *alarm, at job.Time) {
	a.index = -1
	if at == job.Never {
		return
	}
	m.arrivals++
	a.at, a.seq = at, m.arrivals
	m.alarms.push(a)
}

// clearAlarm takes an alarm back, if it is armed.
func (m *Machine) clearAlarm(a *alarm) {
	if a != nil && a.index >= 0 {
		m.alarms.remove(a)
	}
}

// ringAlarm does what an alarm was set for. It has been taken out of the heap.
func (m *Machine) ringAlarm(a *alarm) {
	switch {
	case a.waiter != nil:
		m.expireWait(a.waiter)
	case a.holder != nil:
		m.endHolderLeases(a.holder)
	case a.queue != nil:
		m.unpause(a.queue)
	case a.limited != nil:
		m.wake(a.limited)
	}
}

// deadline returns the end of a wait that begins now.
func (m *Machine) deadline(wait time.Duration) job.Time {
	if wait == job.WaitForever {
		return job.Never
	}
	return m.now.Add(wait)
}

// enqueue registers a caller that waits until its deadline at the latest. The holder learns of it,
// because its end cancels its waits (section 8).
func (m *Machine) enqueue(w *waiter, until job.Time) {
	m.arrivals++
	w.arrival = m.arrivals
	w.alarm.waiter = w
	m.waiting[w.token] = w
	m.setAlarm(&w.alarm, until)
	if w.holder != (job.Holder{}) {
		w.owner = m.getHolder(w.holder)
		w.owner.waits[w.token] = struct{}{}
	}
}

// dequeue forgets a caller: whatever happens now is not given to it (INV-10). It comes before the
// answer is made known and before anything else is set off.
func (m *Machine) dequeue(w *waiter) {
	delete(m.waiting, w.token)
	m.clearAlarm(&w.alarm)
	m.leaveLists(w)
	if w.owner != nil {
		delete(w.owner.waits, w.token)
		m.forgetHolder(w.owner)
	}
	if w.run {
		delete(m.runs, w.awaits)
	}
}

// complete answers a waiting caller, which is out of all lists from then on.
func (m *Machine) complete(w *waiter, res job.Result, needs uint64) {
	m.dequeue(w)
	m.completions = append(m.completions, Completion{Token: w.token, Result: res, Needs: needs})
}

// refuse answers a waiting caller with an error. Also an error needs this step to be durable: it
// may tell of a change, such as a job that is gone.
func (m *Machine) refuse(w *waiter, err *job.Error) {
	m.complete(w, job.Result{Err: err}, m.step)
}

// expireWait ends a wait whose time has come. A run that is leased waits on: the end of the lease
// ends it. A fetch may have been woken early, for a lease that its holder has (armMargin); if that
// was settled or prolonged meanwhile it waits on.
func (m *Machine) expireWait(w *waiter) {
	if w.run && !w.hasAnswer() {
		if e := m.runJob(w); e != nil && e.State == job.Leased {
			w.overdue = true
			return
		}
	}
	switch {
	case w.fetch != nil && w.walk == nil && m.isLapsing(w.fetch):
		m.endWait(w, job.ErrLapsing)
	case w.fetch != nil && w.until > m.now:
		m.armMargin(w)
	default:
		m.endWait(w, job.ErrTimeout)
	}
}

// armMargin has a fetch that waits woken before the first lease of its holder ends. A lease that
// the holder gets, or moves, while it waits does not change the alarm: it is looked at when that
// rings.
func (m *Machine) armMargin(w *waiter) {
	at := w.until
	if end := m.firstEnd(w.fetch); end != job.Never {
		at = min(at, end.Add(-w.fetch.Margin))
	}
	m.clearAlarm(&w.alarm)
	m.setAlarm(&w.alarm, at)
}

// isLapsing reports whether a lease of its holder is too near its end for a fetch to wait.
func (m *Machine) isLapsing(c *job.Fetch) bool {
	end := m.firstEnd(c)
	return end != job.Never && end.Add(-c.Margin) <= m.now
}

// firstEnd returns when the first of the leases ends that a fetch must not wait beyond; Never if
// there is none. Leases of jobs that went with their queue are forgotten on the way, a bounded
// number of them: the sweep that would tell the holder may be far behind.
func (m *Machine) firstEnd(c *job.Fetch) job.Time {
	h := m.holders[c.Holder]
	if c.Margin <= 0 || h == nil {
		return job.Never
	}
	for range m.opt.lookMax() {
		if len(h.ends) == 0 {
			break
		}
		l := h.ends[0]
		if m.isHeld(l) {
			return l.at
		}
		h.dropLease(l)
	}
	m.forgetHolder(h)
	return job.Never
}

// endWait answers a caller with an error, or with what it is about to be told: a result that is
// known has been promised to all who waited for it. A job that was pushed for this caller alone is
// withdrawn unless a worker has it.
func (m *Machine) endWait(w *waiter, err *job.Error) {
	if w.hasAnswer() {
		m.notify(w)
		return
	}
	if w.run {
		e := m.runJob(w)
		// First, because the end of the job would tell the caller that it was not found.
		m.refuse(w, err)
		if e != nil && e.State != job.Leased {
			m.count(e.q, job.CountCancelled)
			m.remove(e)
			m.releaseDependants(e)
		}
		return
	}
	m.refuse(w, err)
}

// cancel ends the wait that a token names. The caller gets exactly one answer: if it was answered
// before, there is nothing to cancel.
func (m *Machine) cancel(c *job.Cancel, res *job.Result) {
	if w := m.waiting[c.Token]; w != nil {
		m.endWait(w, job.ErrCanceled)
		res.Count = 1
	}
}

// deliver leases a job that is in no list to a waiting caller and answers it. The caller leaves all
// its lists with that; it waits for one job only (section 4).
func (m *Machine) deliver(w *waiter, e *entry) {
	var res job.Result
	needs := m.lease(e, w.fetch, &res)
	m.complete(w, res, needs)
}

// waitersInOrder returns all waiting callers in the order in which they came, so that nothing
// depends on the order of a map.
func (m *Machine) waitersInOrder() []*waiter {
	ws := make([]*waiter, 0, len(m.waiting))
	for _, w := range m.waiting {
		ws = append(ws, w)
	}
	sortWaiters(ws)
	return ws
}

// sortWaiters sorts callers in the order in which they came.
func sortWaiters(ws []*waiter) {
	slices.SortFunc(ws, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
}
