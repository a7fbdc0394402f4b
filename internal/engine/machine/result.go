package machine

import (
	"slices"

	"millrace/internal/job"
)

// await waits for the end of a job, or answers it if that has come.
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

// jobWait is those who wait for the result of one job.
type jobWait struct {
	waitList
	id         job.ID
	in         *jobWaits
	prev, next *jobWait
}

// jobWaits are those who wait for results of jobs of one queue, so that the removal of the queue
// finds them without a look at its jobs; or those who are to be told the same, and are taken from
// here in pieces.
type jobWaits struct {
	head, tail *jobWait
	q          *queue        // nil once they are to be told
	answer     *sharedAnswer // nil while they wait
}

// sharedAnswer is what many are told. It is made when the job ends: all get the same answer,
// whatever becomes of the job before their turn (section 7).
type sharedAnswer struct {
	res   job.Result
	needs uint64
}

// result returns the answer of one of them. The list of jobs is copied, because its caller may use
// it again for another command.
func (t *sharedAnswer) result() job.Result {
	res := t.res
	res.Jobs = slices.Clone(res.Jobs)
	return res
}

// push and remove add a job's waits and take them out.
func (l *jobWaits) push(v *jobWait) {
	v.in, v.prev, v.next = l, l.tail, nil
	if l.tail == nil {
		l.head = v
	} else {
		l.tail.next = v
	}
	l.tail = v
}

func (l *jobWaits) remove(v *jobWait) {
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

// jobWaitsOf returns those who wait for results of jobs of a queue.
func (q *queue) jobWaitsOf() *jobWaits {
	if q.awaited == nil {
		q.awaited = &jobWaits{q: q}
	}
	return q.awaited
}

// waitFor has a caller wait for the result of a job of a queue.
func (m *Machine) waitFor(w *waiter, q *queue, until job.Time) {
	v := m.awaiting[w.awaits]
	if v == nil {
		v = &jobWait{id: w.awaits}
		m.awaiting[w.awaits] = v
		q.jobWaitsOf().push(v)
	}
	w.jobWait = v
	w.joinList(&v.waitList)
	m.enqueue(w, until)
}

// leaveJobWait takes a caller out. The job is not awaited any more when the last one goes; another
// jobWait may have taken its place, if this one is of those who are being told.
func (m *Machine) leaveJobWait(w *waiter) {
	v := w.jobWait
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
		e.q.jobWaitsOf().push(v)
	}
}

// notifyFinished answers everybody who waits for a job that has finished. The answer is read only if
// there is somebody.
func (m *Machine) notifyFinished(e *entry) {
	if v := m.awaiting[e.ID]; v != nil {
		t := &sharedAnswer{needs: m.step}
		m.answer(e, &t.res)
		m.notifyJobWait(v, t)
	}
}

// notifyGone answers everybody who waits for a job that has gone without finishing.
func (m *Machine) notifyGone(e *entry) {
	if v := m.awaiting[e.ID]; v != nil {
		m.notifyJobWait(v, m.notFound())
	}
}

// notFound is the answer about a job that has gone. It needs the step in which it went.
func (m *Machine) notFound() *sharedAnswer {
	return &sharedAnswer{res: job.Result{Err: job.ErrNotFound}, needs: m.step}
}

// notifyJobWait answers everybody who waits for one job. They are taken out of the tables first: as
// soon as one is answered, what that sets off must not find the job awaited.
func (m *Machine) notifyJobWait(v *jobWait, t *sharedAnswer) {
	if v.in.answer != nil {
		return // they are to be told already
	}
	// They leave the list of the queue, which may be removed before all of them have been told.
	v.in.remove(v)
	delete(m.awaiting, v.id)
	l := &jobWaits{answer: t}
	l.push(v)
	m.notifyAll(l)
}

// endJobWaits tells those who wait for results of jobs of a queue that is removed.
func (m *Machine) endJobWaits(q *queue) {
	if l := q.awaited; l != nil {
		q.awaited = nil
		l.q, l.answer = nil, m.notFound()
		m.notifyAll(l)
	}
}

// notifyAll answers any number of callers. What is too much for this step is left over for notifySome.
func (m *Machine) notifyAll(l *jobWaits) {
	for l.head != nil {
		if !m.spendWork() {
			m.notifying.add(l)
			return
		}
		m.notify(l.head.first())
	}
}

// notifySome goes on with those who are still to be told.
func (m *Machine) notifySome() {
	for !m.notifying.empty() && m.workBudget > 0 {
		m.notifyAll(m.notifying.take())
	}
}

// hasAnswer reports whether the answer to a caller is known already.
func (w *waiter) hasAnswer() bool { return w.jobWait != nil && w.jobWait.in.answer != nil }

// notify answers a caller whose answer is known.
func (m *Machine) notify(w *waiter) {
	t := w.jobWait.in.answer
	m.complete(w, t.result(), t.needs)
}

// run pushes a job for one caller, who waits for its result (section 7). The caller is registered
// before the job is admitted: a worker that waits may get the job at once, and withdrawIfAbandoned
// must find the caller.
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
	m.storeNewJob(e, &c.Spec, nil)
	return false
}

// runJob returns the job of a run that waits; nil if it was purged and the clean-up has not come to
// tell the caller yet.
func (m *Machine) runJob(w *waiter) *entry { return m.loadJob(w.jobWait.in.q, w.awaits) }

// finishRun answers the caller of a run, and everybody else who waits, with the job as if it were
// finished. It never enters a list of finished jobs: it is gone in the same transition.
func (m *Machine) finishRun(e *entry, s job.State, result []byte) {
	m.loadBody(e)
	m.leave(e)
	e.State, e.Since, e.Result, e.Lease = s, m.now, append([]byte(nil), result...), job.Lease{}
	m.notifyFinished(e)
	m.erase(e)
}

// withdrawIfAbandoned withdraws an ephemeral job that is in no list if nobody waits for it any
// more, or no longer than now, and reports whether it did. Every way of a job back to a list passes
// here, because its caller may have gone while a worker had it.
func (m *Machine) withdrawIfAbandoned(e *entry) bool {
	if !e.Flags.Has(job.FlagEphemeral) {
		return false
	}
	w := m.runs[e.ID]
	if w != nil && !w.overdue {
		return false
	}
	if w != nil {
		m.refuse(w, job.ErrTimeout)
	}
	m.count(e.q, job.CountCancelled)
	m.erase(e)
	m.releaseDependants(e)
	return true
}
