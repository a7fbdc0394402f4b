package sim

import (
	"slices"

	"millrace/internal/job"
)

func (m *Model) applyFetch(c *job.Fetch) {
	if c.One {
		m.applyFetchOne(c)
		return
	}
	if m.NamesPerStep > 0 && len(c.Queues) > m.NamesPerStep {
		m.beginWalk(c)
		return
	}
	var got []job.Job
	for len(got) < max(c.Max, 1) {
		j := m.pick(c, m.token, len(got))
		if j == nil {
			break
		}
		got = append(got, j.Job)
	}
	switch {
	case len(got) > 0:
		m.answer(job.Result{Jobs: got})
	case m.lapsing(c):
		m.refuse(job.ErrLapsing)
	case c.Wait > 0:
		m.wait(c, c.Wait, 0)
	default:
		m.refuse(job.ErrTimeout)
	}
}

// applyFetchOne is a fetch of one job that is named.
func (m *Model) applyFetchOne(c *job.Fetch) {
	takable := func(j *entry) bool {
		switch j.State {
		case job.Ready, job.Scheduled, job.Retrying, job.Buried:
		case job.Blocked, job.Leased, job.Done, job.Failed, job.Dead:
			return false
		}
		q := m.queues[queueName{j.Namespace, j.Queue}]
		_, limited := m.limited(q, c.Holder)
		return c.In.Allow(j.State) && !m.expired(j) && !m.holds(q, j.Group) && !limited
	}
	j := m.heldAlone(c.Ref, c.Holder)
	if j == nil {
		j = m.find(c.Ref, false, takable)
	}
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case !takable(j):
		m.refuse(job.ErrBadState)
	default:
		m.lease(j, c)
		m.answer(job.Result{Jobs: []job.Job{j.Job}})
	}
}

// lapsing reports whether a lease of its holder is too near its end for a fetch to wait.
func (m *Model) lapsing(c *job.Fetch) bool {
	at := m.wakeAt(c)
	return at != 0 && at <= m.now
}

// wakeAt returns when a fetch is not to wait any longer because of the leases that its holder has; zero if they do
// not matter.
func (m *Model) wakeAt(c *job.Fetch) (at job.Time) {
	if c.Margin <= 0 {
		return 0
	}
	for _, j := range m.boundTo(c.Holder) {
		if j.Lease.Until != 0 {
			at = job.Earlier(at, j.Lease.Until.Add(-c.Margin))
		}
	}
	return at
}

// timeUp ends a wait whose time is up. A fetch may only have been woken to look at the leases of its holder.
func (m *Model) timeUp(w *wait) {
	f, ok := w.cmd.(*job.Fetch)
	if m.follow(); !slices.Contains(m.waits, w) {
		return // a limit had ended by the time that all this happened
	}
	switch {
	case ok && w.walk == nil && m.lapsing(f):
		m.giveUp(w, job.ErrLapsing)
	case w.deadline != 0 && w.deadline <= m.now:
		m.giveUp(w, job.ErrTimeout)
	default:
		m.change(w, func(w *wait) { w.wake, w.armed = m.wakeAt(f), m.arm() })
	}
}

// candidates returns the first fetchable job of each queue that has one.
func (m *Model) candidates(c *job.Fetch) []*entry {
	var out []*entry
	for _, name := range c.Queues {
		if j := m.fetchable(queueName{c.Namespace, name}, c); j != nil {
			out = append(out, j)
		}
	}
	return out
}

// fetchable returns the first job of a queue that a fetch may have.
func (m *Model) fetchable(name queueName, c *job.Fetch) *entry {
	if q := m.queues[name]; q != nil {
		if _, limited := m.limited(q, c.Holder); limited {
			return nil
		}
	}
	return m.first(name)
}

// first returns the first job of a queue that may be fetched, if only limits of groups count. A job whose
// expiry is due is as good as gone.
func (m *Model) first(name queueName) *entry {
	q := m.queues[name]
	if q == nil || q.paused {
		return nil
	}
	late := map[job.ID]bool{}
	for {
		j := m.foremost(q, late)
		if j == nil || !m.expired(j) {
			return j
		}
		late[j.ID] = true
	}
}

// pick leases one job to a fetch, nil if there is none.
func (m *Model) pick(c *job.Fetch, token uint64, n int) *entry {
	from := m.candidates(c)
	if len(from) == 0 {
		return nil
	}
	j := from[0]
	switch c.Pick {
	case job.PickInOrder:
	case job.PickRandom:
		if id, ok := m.oracle.Picked(token, n); ok {
			i := slices.IndexFunc(from, func(j *entry) bool { return j.ID == id })
			if i < 0 {
				m.illegal("token %d: job %d is not the first of a queue that was asked for", token, id)
				break
			}
			j = from[i]
		}
	case job.PickBest:
		for _, o := range from {
			if p, q := o.Policy.Priority, j.Policy.Priority; p > q || p == q && o.ID < j.ID {
				j = o
			}
		}
	}
	m.lease(j, c)
	return j
}

func (m *Model) lease(j *entry, c *job.Fetch) {
	m.count(j, job.CountFetched)
	q := m.queues[queueName{j.Namespace, j.Queue}]
	m.spendToken(q)
	m.spendGroupToken(q, j.Group)
	j.ReadyAt = m.now
	if j.State == job.Ready {
		j.ReadyAt = j.Since
	}
	m.enter(j, job.Leased)
	m.tookTurn(q, j.Group)
	j.Attempts++
	if j.LockUntil == job.LockUntilFetch {
		m.unlock(j)
	}
	l := job.Lease{Holder: c.Holder, Length: j.Policy.Lease, Exclusive: c.Exclusive, OnEnd: c.OnEnd, Door: c.Door}
	if l.Length == 0 {
		l.Length = c.DefaultLease
	}
	if c.LeaseSet {
		l.Length = c.Lease
	}
	if c.LeaseSet || l.Length > 0 {
		l.Until = m.now.Add(l.Length)
	}
	j.Lease = l
	m.hold(j)
	j.delivery = c.Delivery
}

// serve hands out what has become possible to those who wait.
func (m *Model) serve() {
	defer m.setRousers()
	m.entrants = nil
	m.tellRest()
	for {
		w, c := m.nextPush()
		if w == nil {
			break
		}
		var r job.Result
		if j := m.alike(c); j != nil {
			r = instead(j)
		} else {
			r, _ = m.push(c, nil, nil)
		}
		m.complete(w, r)
		m.advance()
	}
	m.follow()
	if m.mayBeBehind() {
		return
	}
	// Whoever still waits for something that is there is served by the plain
	// rule; that the machine did not shows when the answers are compared.
	for _, w := range slices.Clone(m.waits) {
		if c, ok := w.cmd.(*job.Fetch); ok && !m.tooLate(w) {
			if j := m.pick(m.roused(w.part(c)), w.token, 0); j != nil {
				m.complete(w, job.Result{Jobs: []job.Job{j.Job}})
			}
		}
	}
}

// nextPush returns the next push that waited and has room. Those of a queue come in as
// they arrived; which queue comes first, if several have room, is left open.
func (m *Model) nextPush() (*wait, *job.Push) {
	var next *wait
	seen := map[queueName]bool{}
	for _, w := range m.waits {
		c, ok := w.cmd.(*job.Push)
		if !ok || seen[queueName{c.Spec.Namespace, c.Spec.Queue}] {
			continue
		}
		name := queueName{c.Spec.Namespace, c.Spec.Queue}
		seen[name] = true
		if m.full(name) || m.tooLate(w) {
			continue
		}
		id, told := m.oracle.Pushed(w.token)
		if told && id == m.peekID(&c.Spec) {
			return w, c
		}
		if m.mayBeBehind() && !told {
			continue
		}
		if next == nil || told && (id == 0 || m.jobs[id] != nil) { // refused, or given way, for what is there already
			next = w
		}
	}
	if next == nil {
		return nil, nil
	}
	c, _ := next.cmd.(*job.Push)
	return next, c
}

// follow hands out what the machine handed out, as far as that is possible by now.
// Where a command makes several jobs fetchable they may be handed out one by one
// or at its end, and a caller that waits on several queues be served from any: the
// document leaves that open.
func (m *Model) follow() {
	for progress := true; progress; {
		progress = false
		for _, token := range m.oracle.Given() { // in that order the leases began
			w := m.waitOf(token)
			if id, ok := m.oracle.Picked(token, 0); ok && w != nil && m.jobs[id] != nil && m.serveTo(w, m.jobs[id]) {
				progress = true
			}
		}
	}
}

// serveTo gives a job to a waiting caller, provided that the job is the first that
// can be fetched from its queue and the caller the first that waits on it.
func (m *Model) serveTo(w *wait, j *entry) bool {
	c, ok := w.cmd.(*job.Fetch)
	if !ok || m.firstOn(queueName{j.Namespace, j.Queue}) != w || m.fetchable(queueName{j.Namespace, j.Queue}, c) != j {
		return false
	}
	m.lease(j, c)
	m.complete(w, job.Result{Jobs: []job.Job{j.Job}})
	return true
}
