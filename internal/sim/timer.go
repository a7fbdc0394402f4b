package sim

import (
	"cmp"

	"millrace/internal/job"
)

// event is something that time brings about.
type event struct {
	at    job.Time
	class int // among equals batches and jobs come before pauses, holders and waits
	major uint64
	minor uint64
	fire  func()
}

func (e event) before(o event) bool {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.class, o.class),
		cmp.Compare(e.major, o.major), cmp.Compare(e.minor, o.minor)) < 0
}

// fireDue fires every timer that is due, earliest first. What a timer makes
// ready is handed out before the next one fires.
func (m *Model) fireDue() {
	for {
		next, ok := m.nextEvent()
		if !ok || next.at > m.now {
			return
		}
		m.transition()
		next.fire()
		m.advance()
		m.serve()
	}
}

// NextTimer returns when the next timer is due, zero if there is none.
func (m *Model) NextTimer() job.Time {
	e, _ := m.nextEvent()
	return e.at
}

func (m *Model) nextEvent() (event, bool) {
	var best event
	found := false
	offer := func(e event) {
		if e.at != 0 && (!found || e.before(best)) {
			best, found = e, true
		}
	}
	for id, j := range m.jobs {
		if j.postponed != 0 && j.postponed == j.timer() {
			continue // it waits for its delivery
		}
		offer(event{
			at: j.timer(), major: uint64(j.QueueNum), minor: uint64(id),
			fire: func() { m.fireJob(j) },
		})
	}
	for id, b := range m.batches {
		offer(event{at: b.forgetAt(), minor: uint64(id), fire: func() { delete(m.batches, id) }})
	}
	for _, s := range m.schedules {
		offer(event{at: s.next, minor: uint64(s.id), fire: func() { m.fireSchedule(s) }})
	}
	for _, q := range m.queues {
		offer(event{at: q.rouse, class: 1, minor: uint64(q.num), fire: func() { q.rouse = 0 }})
		offer(event{at: q.pausedUntil, class: 1, major: q.pauseArmed, fire: func() { q.resume() }})
	}
	for _, e := range m.endings {
		offer(event{at: e.at, class: 1, major: e.armed, fire: func() { m.endHolder(e.holder) }})
	}
	for _, w := range m.waits {
		if _, ok := w.cmd.(*job.Run); ok && m.isLeased(w.id) {
			continue // it waits for the end of that lease
		}
		offer(event{at: job.Earlier(w.wake, w.deadline), class: 1, major: w.armed, fire: func() { m.timeUp(w) }})
	}
	return best, found
}

// expiry returns when a job expires in the state it is in, zero if it does not.
func (j *entry) expiry() job.Time {
	if j.Policy.ExpireAt == job.Never || j.State == job.Dead {
		return 0
	}
	if j.Policy.Expiry == job.ExpireWaiting {
		switch j.State {
		case job.Leased, job.Buried, job.Done, job.Failed, job.Dead:
			return 0
		case job.Scheduled, job.Blocked, job.Ready, job.Retrying:
		}
	}
	return j.Policy.ExpireAt
}

// timer returns when something happens to a job by itself, zero if nothing does.
func (j *entry) timer() job.Time {
	switch j.State {
	case job.Scheduled, job.Retrying:
		return job.Earlier(j.RunAt, j.expiry())
	case job.Leased:
		return job.Earlier(j.Lease.Until, j.expiry())
	case job.Dead:
		return j.Timer
	case job.Blocked, job.Ready, job.Buried, job.Done, job.Failed:
	}
	return j.expiry()
}

// expired reports whether a job's expiry is due.
func (m *Model) expired(j *entry) bool { return j.expiry() != 0 && j.expiry() <= m.now }

func (m *Model) fireJob(j *entry) {
	switch {
	case j.delivery != nil:
		j.postponed = j.timer()
	case m.expired(j):
		m.queues[queueName{j.Namespace, j.Queue}].expired[j.State]++
		unfinished := !j.State.Finished()
		if unfinished {
			m.count(j, job.CountExpired)
		}
		m.drop(j)
		if unfinished {
			m.fall(j.ID)
		}
	case j.State == job.Dead:
		m.drop(j)
		m.strike(j.ID)
	case j.State == job.Leased:
		m.lapse(j)
	default:
		m.count(j, job.CountDue)
		place := j.Policy.Due
		if j.toOld {
			place = job.PlaceOld
		}
		m.toReady(j, place)
	}
}

// expireReady ends the ready jobs whose time has run out and that the machine has met.
func (m *Model) expireReady() {
	for _, j := range m.sorted(func(j *entry) bool {
		return j.State == job.Ready && m.expired(j) && m.oracle.Ended(&j.Job)
	}) {
		if m.jobs[j.ID] == j {
			m.transition()
			m.fireJob(j)
			m.advance()
			m.serve()
		}
	}
}

// lapse is the end of a lease without an answer.
func (m *Model) lapse(j *entry) {
	m.count(j, job.CountLapsed)
	j.Lapses++
	switch {
	case j.Flags.Has(job.FlagEphemeral):
		if w := m.runOf(j); w != nil {
			m.complete(w, job.Result{Err: job.ErrTimeout})
		}
		m.drop(j)
		m.fall(j.ID)
	case j.Policy.Lapse == job.LapseFail:
		m.fail(j, job.Failure{Kind: job.FailedByLapse}, nil)
	case j.Policy.MaxAttempts > 0 && j.Attempts >= j.Policy.MaxAttempts:
		m.exhaust(j, nil)
	default:
		m.toReady(j, j.Policy.Requeue)
	}
}
