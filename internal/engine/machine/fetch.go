package machine

import (
	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// A fetch looks at a bounded number of queues in one step. If it names more, or meets a
// pile of jobs whose time has run out, it stays unfinished: its caller has it go on in
// further steps, between which other commands get their turn.

// fetchWalk is how far an unfinished fetch has come.
type fetchWalk struct {
	next int // the first of its names that it has not looked at
	// survey says that it only looks for now: it takes the best job of all, or one at
	// random, when it has seen all its queues.
	survey bool
	found  uint64 // queues that had a job
	queue  string // that of the job it has chosen
	best   job.ID
	rank   int64 // the priority of that job
}

// fetch takes jobs, or has its caller wait for one. The answer needs the push of each job to be
// durable, not its own lease, unless it is firm: see lease.
func (m *Machine) fetch(token uint64, c *job.Fetch, res *job.Result) (answered bool, needs uint64) {
	if c.One {
		return true, m.fetchOne(c, res)
	}
	if len(c.Queues) > m.opt.NamesPerStep {
		return m.continueWalk(m.startWalk(token, c), res)
	}
	needs, looked := m.take(c, c.Queues, res)
	switch {
	case len(res.Jobs) > 0:
		return true, needs
	case looked < len(c.Queues):
		m.startWalk(token, c)
		m.walking = true
		return false, 0
	case m.isLapsing(c):
		res.Err = job.ErrLapsing
		return true, m.step
	case c.Wait <= 0:
		res.Err = job.ErrTimeout
		return true, m.step
	}
	w := &waiter{token: token, holder: c.Holder, fetch: c, until: m.deadline(c.Wait)}
	// The caller is known before it enters lists: whoever finds it there may answer it.
	m.enqueue(w, w.until)
	if c.Margin > 0 {
		m.armMargin(w)
	}
	return m.register(w, c.Queues, res), m.step
}

// fetchOne leases the one job that a fetch names. It never waits, and does not ask whether the
// queue is paused.
func (m *Machine) fetchOne(c *job.Fetch, res *job.Result) (needs uint64) {
	e, err := m.lookupBy(&c.Ref, c.Holder, job.NeedAny, func(e *entry) *job.Error { return m.checkFetchable(e, c) })
	if err != nil {
		res.Err = err
		return m.step
	}
	return m.takeOne(e, c, res)
}

// fetchableByName are the states in which a job can be fetched by its name.
var fetchableByName = job.StatesOf(job.Ready, job.Scheduled, job.Retrying, job.Buried)

// checkFetchable says why a job cannot be fetched by its name; nil if it can. Groups and limits hold here
// as for any other fetch.
func (m *Machine) checkFetchable(e *entry, c *job.Fetch) *job.Error {
	busy := e.q.isRegrouping() || e.Group != "" && !m.canLeaseGroup(e.q, m.getGroup(e.q, e.Group))
	if !c.In.Allow(e.State) || !fetchableByName.Allow(e.State) || busy || isExpired(e, m.now) {
		return job.ErrBadState
	}
	if e.q.limit != nil && !m.canLeaseTo(e.q, c.Holder) {
		return job.ErrBadState
	}
	return nil
}

// register has a fetch wait for jobs of some queues, and reports whether it was refused because too
// many names are waited on.
func (m *Machine) register(w *waiter, names []string, res *job.Result) (refused bool) {
	if m.joinFetchLists(w, names) {
		return false
	}
	m.dequeue(w)
	res.Err = job.ErrOverloaded
	return true
}

// take leases jobs of some queues to a fetch. It returns how many of the queues it has looked at:
// not all if their expired jobs are too many for this step. With another pick than in order it
// takes a job only after it has seen all queues, so that it has looked at all or counts as having
// looked at none.
func (m *Machine) take(c *job.Fetch, names []string, res *job.Result) (needs uint64, looked int) {
	if c.Pick == job.PickInOrder {
		return m.takeInOrder(nil, c, names, res)
	}
	for n := max(c.Max, 1); len(res.Jobs) < n; {
		e, short := m.pick(c, names)
		if short {
			return needs, 0
		}
		if e == nil {
			break
		}
		needs = max(needs, m.takeOne(e, c, res))
	}
	return needs, len(names)
}

// takeInOrder is take from the first queues that have a job. W is the fetch if it is registered, as
// a fetch over very many names is; it stops if that is answered by what it sets off on the way:
// ending an expired job may make another one ready in a queue in whose list it already is (INV-10).
func (m *Machine) takeInOrder(w *waiter, c *job.Fetch, names []string, res *job.Result) (needs uint64, looked int) {
	n := max(c.Max, 1)
	for i, name := range names {
		q := m.findQueue(c.Namespace, name)
		if q == nil {
			continue
		}
		for len(res.Jobs) < n {
			e, short := m.headFor(q, c)
			// Ending expired jobs has answered this very fetch: Completed has a job for it, and it
			// gets no second one.
			if w != nil && len(res.Jobs) == 0 && m.waiting[w.token] != w {
				return 0, i
			}
			if short {
				return needs, i
			}
			if e == nil {
				break
			}
			if w != nil && len(res.Jobs) == 0 {
				m.dequeue(w) // before anything else can be given to it
			}
			needs = max(needs, m.takeOne(e, c, res))
		}
		if len(res.Jobs) == n {
			break
		}
	}
	return needs, len(names)
}

// takeOne leases a job. What that sets free, such as the next job of a group, is given out before
// the next job is taken.
func (m *Machine) takeOne(e *entry, c *job.Fetch, res *job.Result) (needs uint64) {
	m.leave(e)
	needs = m.lease(e, c, res)
	m.serveWakes()
	return needs
}

// startWalk registers a fetch that takes more than one step. It is registered even if it must not
// wait: Cancel and the end of its holder have to find it between two steps.
func (m *Machine) startWalk(token uint64, c *job.Fetch) *waiter {
	k := &fetchWalk{survey: c.Pick != job.PickInOrder}
	w := &waiter{token: token, holder: c.Holder, fetch: c, walk: k, until: job.Never}
	if c.Wait > 0 {
		w.until = m.deadline(c.Wait)
	}
	m.enqueue(w, w.until)
	return w
}

// Continue goes on with a fetch or a flush that was left unfinished. What it returns is as with
// Apply. The owner calls it as long as Walking says so, with other commands in between. Timers are
// not fired first: each command does that.
func (m *Machine) Continue(now job.Time, rnd, token uint64, res *job.Result) (answered bool, needs uint64) {
	m.begin(now, rnd)
	res.Reset()
	w := m.waiting[token]
	if w.flush != nil {
		m.walking = true
		m.continueFlush()
		return false, 0
	}
	m.beginTransition()
	m.byCaller = true
	answered, needs = m.continueWalk(w, res)
	m.byCaller = false
	m.endTransition()
	return answered, needs
}

// Walking reports whether the fetch or flush of a caller, to which the last step belongs,
// has to go on.
func (m *Machine) Walking(token uint64) bool {
	if !m.walking {
		return false
	}
	w := m.waiting[token] // it may have been given a job at the end of the step
	return w != nil && (w.walk != nil || w.flush != nil)
}

// continueWalk looks at the next queues of an unfinished fetch. It has the fetch wait at those that it
// has looked at, before others get their turn: a job that arrives there meanwhile would otherwise
// wake nobody.
func (m *Machine) continueWalk(w *waiter, res *job.Result) (answered bool, needs uint64) {
	c, k := w.fetch, w.walk
	names := c.Queues[k.next:min(k.next+m.opt.NamesPerStep, len(c.Queues))]
	if k.survey {
		k.next += m.survey(c, k, names)
	} else {
		needs, looked := m.takeInOrder(w, c, names, res)
		if len(res.Jobs) > 0 {
			return true, needs
		}
		if m.waiting[w.token] != w {
			return false, 0 // Completed has its answer
		}
		if c.Wait > 0 && m.register(w, names[:looked], res) {
			return true, m.step
		}
		k.next += looked
	}
	if k.next < len(c.Queues) {
		m.walking = true
		return false, 0
	}
	if k.survey {
		return m.endSurvey(w, res)
	}
	if m.refuseEmpty(w, res) {
		return true, m.step
	}
	w.walk = nil
	if c.Margin > 0 {
		m.armMargin(w)
	}
	return false, 0
}

// refuseEmpty ends a fetch that has found nothing and must not wait, and reports whether it did.
func (m *Machine) refuseEmpty(w *waiter, res *job.Result) bool {
	switch {
	case m.isLapsing(w.fetch):
		res.Err = job.ErrLapsing
	case w.fetch.Wait <= 0:
		res.Err = job.ErrTimeout
	default:
		return false
	}
	m.dequeue(w)
	return true
}

// survey looks for the best job in further queues, or for one at random. It returns how many queues
// it has looked at. The random choice keeps the n-th queue with a chance of one in n, which gives
// each the same chance without knowing how many will have a job.
func (m *Machine) survey(c *job.Fetch, k *fetchWalk, names []string) int {
	for i, name := range names {
		q := m.findQueue(c.Namespace, name)
		if q == nil {
			continue
		}
		e, short := m.headFor(q, c)
		if short {
			return i
		}
		if e == nil {
			continue
		}
		k.found++
		if c.Pick == job.PickBest {
			if k.found == 1 || e.Policy.Priority > k.rank || (e.Policy.Priority == k.rank && e.ID < k.best) {
				k.queue, k.best, k.rank = name, e.ID, e.Policy.Priority
			}
		} else if m.draw()%k.found == 0 {
			k.queue = name
		}
	}
	return len(names)
}

// endSurvey takes what is first by now in the queue of the job that was chosen. If nothing is left
// there, or there was nothing at all and the fetch may wait, the queues are looked at once more in
// order, and the first job there is will do. A survey registers nowhere, so that the second walk is
// also what has the fetch wait.
func (m *Machine) endSurvey(w *waiter, res *job.Result) (answered bool, needs uint64) {
	c, k := w.fetch, w.walk
	if q := m.findQueue(c.Namespace, k.queue); k.found > 0 && q != nil {
		e, short := m.headFor(q, c)
		if short {
			m.walking = true
			return false, 0
		}
		if e != nil {
			m.dequeue(w)
			return true, m.takeOne(e, c, res)
		}
	}
	if k.found == 0 && c.Wait <= 0 && m.refuseEmpty(w, res) {
		return true, m.step
	}
	w.walk = &fetchWalk{}
	m.walking = true
	return false, 0
}

// headFor is head for a fetch, which the limits of the queue may keep from it. canLeaseTo is asked only
// if there may be a job: it arms the alarm of the queue.
func (m *Machine) headFor(q *queue, c *job.Fetch) (first *entry, short bool) {
	if q.limit != nil && q.Counts[job.Ready] > 0 && !q.Paused && !m.canLeaseTo(q, c.Holder) {
		return nil, false
	}
	return m.head(q)
}

// pick returns the job that a fetch gets next, or nil. Short is as with head.
func (m *Machine) pick(c *job.Fetch, names []string) (e *entry, short bool) {
	heads, short := m.heads(c, names)
	if short || len(heads) == 0 {
		return nil, short
	}
	if c.Pick == job.PickRandom {
		return heads[m.draw()%uint64(len(heads))], false
	}
	best := heads[0]
	for _, e := range heads {
		if e.Policy.Priority > best.Policy.Priority ||
			(e.Policy.Priority == best.Policy.Priority && e.ID < best.ID) {
			best = e
		}
	}
	return best, false
}

// heads returns the first fetchable job of each queue that has one, each queue once. The slice is
// valid until the next call.
func (m *Machine) heads(c *job.Fetch, names []string) (es []*entry, short bool) {
	es = m.headsBuf[:0]
	m.mark++
	for _, name := range names {
		q := m.findQueue(c.Namespace, name)
		if q == nil || m.markVisited(q) {
			continue
		}
		e, short := m.headFor(q, c)
		if short {
			return nil, true
		}
		if e != nil {
			es = append(es, e)
		}
	}
	m.headsBuf = es
	return es, false
}

// lease gives a job that has left its list to a caller and adds it to the answer. Every delivery
// comes through here. It returns the step that must be durable before the caller may have it: that
// of the push, not of the lease unless it is to be firm (INV-11). A lease that is lost in a crash
// only means that the job is delivered again.
func (m *Machine) lease(e *entry, c *job.Fetch, res *job.Result) (needs uint64) {
	q := e.q
	e.Attempts++
	// The fetch's own length wins, then the job's, then the fetch's default (section 4).
	length := e.Policy.Lease
	switch {
	case c.LeaseSet:
		length = c.Lease
	case length == 0:
		length = c.DefaultLease
	}
	e.Lease = job.Lease{Holder: c.Holder, Length: length, Exclusive: c.Exclusive, OnEnd: c.OnEnd, Door: c.Door}
	if length > 0 || c.LeaseSet {
		e.Lease.Until = m.now.Add(length)
	}
	// A job that is fetched by its name may not have been ready.
	readyAt := m.now
	if e.State == job.Ready {
		readyAt = e.Since
	}
	m.setState(e, job.Leased)
	m.setList(q, record.ListLeased, &e.Job)
	// Group, holder and limits learn of the lease after the job is leased and before it is saved:
	// all of them may change the job or the queue, and INV-2, INV-4 and INV-18 hold at the end of
	// the step.
	m.occupyGroup(e)
	m.holdLease(e)
	if q.limit != nil {
		m.takeSlot(e)
	}
	if e.Lock != "" && e.LockUntil == job.LockUntilFetch {
		m.unlock(e)
	}
	m.save(e)
	m.answer(e, res)
	m.countFetched(e, readyAt)
	res.Jobs[len(res.Jobs)-1].ReadyAt = readyAt
	// The answer owns the buffers now, and a worker that has the job does not need them here.
	if !plant.BodyOverwritten.On() {
		m.dropBody(e)
	}
	// Beyond the bound leases are only in the store, and are read when they are settled.
	if m.residentLeases < m.opt.Resident {
		m.keepResident(e)
		e.leased = true
		m.residentLeases++
	}
	m.track(e, c.Delivery)
	if c.Firm || q.limit != nil { // or a crash would forget that a slot is taken
		return m.step
	}
	return e.pushStep
}
