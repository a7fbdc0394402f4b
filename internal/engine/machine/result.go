package machine

import (
	"slices"

	"millrace/internal/job"
)

func (m *Machine) await(token uint64, c *job.Await, res *job.Result) (answered bool) {
	e, err := m.lookup(&c.Ref, 0, job.NeedAny, job.Holder{})
	switch {
	case err != nil:
		res.Err = err
		return true
	case e.State.Finished():
		m.answer(e, res)
		return true
	case c.Wait <= 0:
		res.Err = job.ErrTimeout
		return true
	}
	m.waitFor(&waiter{token: token, awaits: e.ID}, e.q, m.deadline(c.Wait))
	return false
}

// vigil is those who wait for the result of one job.
type vigil struct {
	waitList
	id         job.ID
	in         *vigils
	prev, next *vigil
}

// vigils are those who wait for results of jobs of one queue, or those who are to be told
// the same.
type vigils struct {
	head, tail *vigil
	q          *queue // nil once they are to be told
	told       *news  // nil while they wait
}

// news is what many are told.
type news struct {
	res   job.Result
	needs uint64
}

// result returns the answer of one of them, which its caller may use again.
func (t *news) result() job.Result {
	res := t.res
	res.Jobs = slices.Clone(res.Jobs)
	return res
}

func (l *vigils) push(v *vigil) {
	v.in, v.prev, v.next = l, l.tail, nil
	if l.tail == nil {
		l.head = v
	} else {
		l.tail.next = v
	}
	l.tail = v
}

func (l *vigils) remove(v *vigil) {
	if v.prev == nil {
		l.head = v.next
	} else {
		v.prev.next = v.next
	}
	if v.next == nil {
		l.tail = v.prev
	} else {
		v.next.prev = v.prev
	}
	v.in, v.prev, v.next = nil, nil, nil
}

// vigilsOf returns those who wait for results of jobs of a queue.
func (q *queue) vigilsOf() *vigils {
	if q.awaited == nil {
		q.awaited = &vigils{q: q}
	}
	return q.awaited
}

// waitFor has a caller wait for the result of a job of a queue.
func (m *Machine) waitFor(w *waiter, q *queue, until job.Time) {
	v := m.awaiting[w.awaits]
	if v == nil {
		v = &vigil{id: w.awaits}
		m.awaiting[w.awaits] = v
		q.vigilsOf().push(v)
	}
	w.vigil = v
	w.standIn(&v.waitList)
	m.enqueue(w, until)
}

func (m *Machine) leaveVigil(w *waiter) {
	v := w.vigil
	v.remove(&w.one)
	if v.head == nil {
		v.in.remove(v)
		if m.awaiting[v.id] == v {
			delete(m.awaiting, v.id)
		}
	}
}

// moveWaits has those who wait for the result of a job wait in the queue that it is in now.
func (m *Machine) moveWaits(e *entry) {
	if v := m.awaiting[e.ID]; v != nil {
		v.in.remove(v) // from a queue that is there: the job is
		e.q.vigilsOf().push(v)
	}
}

// tellResult answers everybody who waits for a job that has finished.
func (m *Machine) tellResult(e *entry) {
	if v := m.awaiting[e.ID]; v != nil {
		t := &news{needs: m.step}
		m.answer(e, &t.res)
		m.tellVigil(v, t)
	}
}

// tellGone answers everybody who waits for a job that has gone without finishing.
func (m *Machine) tellGone(e *entry) {
	if v := m.awaiting[e.ID]; v != nil {
		m.tellVigil(v, m.notFound())
	}
}

func (m *Machine) notFound() *news {
	return &news{res: job.Result{Err: job.ErrNotFound}, needs: m.step}
}

// tellVigil answers everybody who waits for one job. As soon as the first is answered
// there is no such job any more.
func (m *Machine) tellVigil(v *vigil, t *news) {
	if v.in.told != nil {
		return // they are to be told already
	}
	v.in.remove(v)
	delete(m.awaiting, v.id)
	l := &vigils{told: t}
	l.push(v)
	m.tellAll(l)
}

// endJobWaits tells those who wait for results of jobs of a queue that is removed.
func (m *Machine) endJobWaits(q *queue) {
	if l := q.awaited; l != nil {
		q.awaited = nil
		l.q, l.told = nil, m.notFound()
		m.tellAll(l)
	}
}

// tellAll answers any number of callers. What is too much for this step is left over.
func (m *Machine) tellAll(l *vigils) {
	for l.head != nil {
		if !m.spend() {
			m.telling.add(l)
			return
		}
		m.tell(l.head.first())
	}
}

// tellSome goes on with those who are still to be told.
func (m *Machine) tellSome() {
	for !m.telling.empty() && m.work > 0 {
		m.tellAll(m.telling.take())
	}
}

// isTold reports whether the answer to a caller is known already.
func (w *waiter) isTold() bool { return w.vigil != nil && w.vigil.in.told != nil }

// tell answers a caller whose answer is known.
func (m *Machine) tell(w *waiter) {
	t := w.vigil.in.told
	m.complete(w, t.result(), t.needs)
}

// run pushes a job for one caller, who waits for its result (section 7).
func (m *Machine) run(token uint64, c *job.Run, res *job.Result) (answered bool) {
	m.flushFor(&c.Spec)
	if err := m.checkPush(&c.Spec); err != nil {
		res.Err = err
		return true
	}
	e := m.prepare(&c.Spec)
	m.enlist(e, &c.Spec)
	e.Flags |= job.FlagEphemeral
	w := &waiter{token: token, awaits: e.ID, run: true}
	m.runs[e.ID] = w
	m.waitFor(w, e.q, m.deadline(c.Wait))
	m.admit(e, &c.Spec, nil)
	return false
}

// runJob returns the job of a run that waits; nil if it was purged and the clean-up
// has not come to tell the caller yet.
func (m *Machine) runJob(w *waiter) *entry { return m.loadJob(w.vigil.in.q, w.awaits) }

// finishRun answers the caller of a run, and with it everybody else who waits, and
// the job is gone.
func (m *Machine) finishRun(e *entry, s job.State, result []byte) {
	m.loadBody(e)
	m.leave(e)
	e.State, e.Since, e.Result, e.Lease = s, m.now, append([]byte(nil), result...), job.Lease{}
	m.tellResult(e)
	m.erase(e)
}

// overdue withdraws an ephemeral job that is in no list if nobody waits for it any
// more, or no longer than now.
func (m *Machine) overdue(e *entry) bool {
	if !e.Flags.Has(job.FlagEphemeral) {
		return false
	}
	w := m.runs[e.ID]
	if w != nil && !w.late {
		return false
	}
	if w != nil {
		m.refuse(w, job.ErrTimeout)
	}
	m.count(e.q, job.CountCancelled)
	m.erase(e)
	m.succeeded(e)
	return true
}
