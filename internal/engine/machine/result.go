package machine

import "millrace/internal/job"

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

// waitFor has a caller wait for the result of a job of a queue.
func (m *Machine) waitFor(w *waiter, q *queue, until job.Time) {
	m.awaiting[w.awaits] = append(m.awaiting[w.awaits], w)
	w.standIn(q, &q.awaited)
	m.enqueue(w, until)
}

// moveWaits has those who wait for the result of a job wait in the queue that it is in now.
func (m *Machine) moveWaits(e *entry) {
	for _, w := range m.awaiting[e.ID] {
		w.nodes[0].in.remove(&w.nodes[0])
		w.standIn(e.q, &e.q.awaited)
	}
}

// tellResult answers everybody who waits for a job that has finished.
func (m *Machine) tellResult(e *entry) {
	for _, w := range append([]*waiter(nil), m.awaiting[e.ID]...) {
		var res job.Result
		m.answer(e, &res)
		m.complete(w, res, m.step)
	}
}

// tellGone answers everybody who waits for a job that has gone without finishing.
func (m *Machine) tellGone(e *entry) {
	for _, w := range append([]*waiter(nil), m.awaiting[e.ID]...) {
		m.refuse(w, job.ErrNotFound)
	}
}

// run pushes a job for one caller, who waits for its result (section 7).
func (m *Machine) run(token uint64, c *job.Run, res *job.Result) (answered bool) {
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
func (m *Machine) runJob(w *waiter) *entry { return m.loadJob(w.nodes[0].q, w.awaits) }

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
