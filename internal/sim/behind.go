package sim

import (
	"maps"
	"slices"

	"millrace/internal/job"
)

// A step serves, lets in and tells a bounded number of those who wait. The model follows
// the machine in how many, and checks whom: they are the first in their lists.

// mayBeBehind reports whether callers may be left over, so that only those are served that
// the machine has served.
func (m *Model) mayBeBehind() bool { return m.behind || m.oracle.Behind() }

// tooLate reports whether the time of a caller was up before its turn came: many timers of
// one step share its work.
func (m *Model) tooLate(w *wait) bool {
	at := job.Earlier(w.wake, w.deadline)
	return at != 0 && at <= m.now && m.oracle.TimedOut(w.token)
}

// waitOf returns the wait of a caller, or nil.
func (m *Model) waitOf(token uint64) *wait {
	if i := slices.IndexFunc(m.waits, func(w *wait) bool { return w.token == token }); i >= 0 {
		return m.waits[i]
	}
	return nil
}

// change replaces a wait, which copies of the model share.
func (m *Model) change(w *wait, do func(*wait)) *wait {
	c := *w
	do(&c)
	m.waits = slices.Clone(m.waits)
	m.waits[slices.Index(m.waits, w)] = &c
	return &c
}

// tell answers a caller that waits for a result, or notes the answer if the machine is to
// give it later.
func (m *Model) tell(w *wait, r job.Result) {
	switch {
	case w.told != nil: // it is known already
	case m.mayBeBehind() && !slices.Contains(m.oracle.Given(), w.token):
		m.change(w, func(w *wait) { w.told = &r })
	default:
		m.complete(w, r)
	}
}

// tellRest answers those who are still to be told, as far as the machine has.
func (m *Model) tellRest() {
	for _, w := range slices.Clone(m.waits) {
		if w.told != nil && (!m.mayBeBehind() || slices.Contains(m.oracle.Given(), w.token)) {
			m.complete(w, *w.told)
		}
	}
}

// countEntrants returns how many pushes wait for queues that have room for one.
func (m *Model) countEntrants() map[queueName]uint64 {
	m.entrants = nil
	n := map[queueName]uint64{}
	for _, w := range m.waits {
		if c, ok := w.cmd.(*job.Push); ok {
			n[queueName{c.Spec.Namespace, c.Spec.Queue}]++
		}
	}
	maps.DeleteFunc(n, func(name queueName, _ uint64) bool { return m.full(name) })
	return n
}

// letsIn reports whether pushes are still to be let into the queue of another one.
func (m *Model) letsIn(s *job.Spec) bool { return m.entrants[queueName{s.Namespace, s.Queue}] > 0 }

// stand has a fetch wait on further queues.
func (m *Model) stand(w *wait, names []string) *wait {
	c := *w
	c.stood = maps.Clone(w.stood)
	if c.stood == nil {
		c.stood = map[string]uint64{}
	}
	for _, name := range names {
		if c.stood[name] == 0 {
			m.came++
			c.stood[name] = m.came
		}
	}
	return &c
}

// part is a fetch from those queues only that the caller waits on already.
func (w *wait) part(f *job.Fetch) *job.Fetch {
	c := *f
	c.Queues = slices.DeleteFunc(slices.Clone(f.Queues), func(name string) bool { return w.stood[name] == 0 })
	return &c
}

// firstOn returns the fetch that came to a queue first, of those who may have a job of it, or nil.
func (m *Model) firstOn(name queueName) *wait {
	var first *wait
	for _, w := range m.waits {
		c, ok := w.cmd.(*job.Fetch)
		if q := m.queues[name]; ok && q != nil {
			if _, limited := m.limited(q, c.Holder); limited {
				continue
			}
		}
		if ok && c.Namespace == name.ns && w.stood[name.name] != 0 &&
			(first == nil || w.stood[name.name] < first.stood[name.name]) {
			first = w
		}
	}
	return first
}

// walk is how far a fetch from many queues has come.
type walk struct {
	next   int
	survey bool            // it looks for the best job, or for any, and takes none yet
	found  map[string]bool // the queues that had one
	best   *job.Job
}

func (m *Model) beginWalk(c *job.Fetch) {
	w := &wait{
		token: m.token, cmd: c, armed: m.arm(),
		walk: &walk{survey: c.Pick != job.PickInOrder, found: map[string]bool{}},
	}
	if c.Wait > 0 && c.Wait != job.WaitForever {
		w.deadline = m.now.Add(c.Wait)
	}
	m.waits = append(m.waits, w)
	m.lookOn(w)
}

// Walking reports whether the fetch with this token has to go on.
func (m *Model) Walking(token uint64) bool {
	w := m.waitOf(token)
	return w != nil && w.walk != nil
}

// Continue goes on with a fetch that has to.
func (m *Model) Continue(now job.Time, token uint64, o Oracle) ([]Completion, error) {
	m.begin(now, o)
	m.token = token
	m.lookOn(m.waitOf(token))
	m.advance()
	m.serve()
	return m.end()
}

// lookOn looks at the next queues of a fetch.
func (m *Model) lookOn(w *wait) {
	c, _ := w.cmd.(*job.Fetch)
	k := *w.walk
	part := *c
	part.Queues = c.Queues[k.next:min(k.next+m.NamesPerStep, len(c.Queues))]
	k.next += len(part.Queues)
	if k.survey {
		k.look(c, m.candidates(&part))
	} else {
		part.Pick = job.PickInOrder
		if m.takeTo(w, &part) {
			return
		}
		if c.Wait > 0 {
			w = m.change(w, func(o *wait) { *o = *m.stand(w, part.Queues) })
		}
	}
	switch {
	case k.next < len(c.Queues):
	case k.survey:
		if m.endSurvey(w, k) {
			return
		}
		k = walk{}
	case m.lapsing(c):
		m.complete(w, job.Result{Err: job.ErrLapsing})
		return
	case c.Wait > 0:
		m.change(w, func(w *wait) { w.walk, w.wake, w.armed = nil, m.wakeAt(c), m.rearm(w, c) })
		return
	default:
		m.complete(w, job.Result{Err: job.ErrTimeout})
		return
	}
	m.change(w, func(w *wait) { w.walk = &k })
}

// rearm returns the place of the alarm of a fetch that has looked at all its queues.
func (m *Model) rearm(w *wait, c *job.Fetch) uint64 {
	if c.Margin <= 0 {
		return w.armed
	}
	return m.arm()
}

// look notes the jobs that are first in their queues.
func (k *walk) look(c *job.Fetch, from []*entry) {
	k.found = maps.Clone(k.found)
	for _, j := range from {
		k.found[j.Queue] = c.Pick == job.PickRandom || k.found[j.Queue]
		if b := k.best; b == nil || j.Policy.Priority > b.Policy.Priority ||
			j.Policy.Priority == b.Policy.Priority && j.ID < b.ID {
			seen := j.Job
			k.best = &seen
		}
	}
}

// endSurvey gives a fetch what is first by now in the queue that it has chosen, or nothing
// if it does not wait and no queue had a job. It reports false if it is to look again.
func (m *Model) endSurvey(w *wait, k walk) bool {
	c, _ := w.cmd.(*job.Fetch)
	if k.best == nil {
		switch {
		case c.Wait > 0:
			return false
		case m.lapsing(c):
			m.complete(w, job.Result{Err: job.ErrLapsing})
		default:
			m.complete(w, job.Result{Err: job.ErrTimeout})
		}
		return true
	}
	part := *c
	part.Max, part.Pick, part.Queues = 1, job.PickInOrder, []string{k.best.Queue}
	if c.Pick == job.PickRandom {
		id, ok := m.oracle.Picked(w.token, 0)
		if !ok || m.jobs[id] == nil || !k.found[m.jobs[id].Queue] {
			// The one that was chosen is gone, and so is everything in its queue.
			for name := range k.found {
				if m.fetchable(queueName{c.Namespace, name}, c) == nil {
					return false
				}
			}
			m.illegal("token %d: every queue that had a job still has one, and none was given", w.token)
			return true
		}
		part.Queues = []string{m.jobs[id].Queue}
	}
	return m.takeTo(w, &part)
}

// takeTo answers a fetch with jobs, if there are any.
func (m *Model) takeTo(w *wait, c *job.Fetch) bool {
	var got []job.Job
	for len(got) < max(c.Max, 1) {
		j := m.pick(c, w.token, len(got))
		if j == nil {
			break
		}
		got = append(got, j.Job)
	}
	if len(got) > 0 {
		m.complete(w, job.Result{Jobs: got})
	}
	return len(got) > 0
}
