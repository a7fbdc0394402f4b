package sim

import (
	"fmt"
	"slices"

	"millrace/internal/job"
)

// enter puts a job into a state. What belonged to the old state goes.
func (m *Model) enter(j *entry, s job.State) {
	if j.State == job.Ready { // it leaves its group, even if it comes back
		j.State = 0
		m.retake(queueName{j.Namespace, j.Queue})
	}
	m.entered++
	j.State, j.Since, j.Entered = s, m.now, m.entered
	j.toOld, j.last = false, false
	j.Timer = 0
	j.Lease = job.Lease{}
	j.delivery, j.postponed = nil, 0
	j.Blockers = nil
	m.retake(queueName{j.Namespace, j.Queue})
}

// toReady makes a job ready at a place.
func (m *Model) toReady(j *entry, p job.Place) { m.toReadySince(j, p, m.now) }

// toReadySince makes a job ready that counts as ready since a time.
func (m *Model) toReadySince(j *entry, p job.Place, since job.Time) {
	ready := m.list(queueName{j.Namespace, j.Queue}, job.Ready)
	ready = slices.DeleteFunc(ready, func(o *entry) bool { return o == j })
	o := job.Order{Priority: j.Policy.Priority, First: j.Order.First}
	switch p {
	case job.PlaceTail:
		o.Seq = m.nextSequence()
	case job.PlaceOld:
		o.Rank, o.At, o.Seq = j.Order.Rank, j.Order.At, j.Order.Seq
	case job.PlaceHead:
		if len(ready) > 0 {
			o.Rank = ready[0].Order.Rank - 1
		}
		o.Seq = m.nextSequence()
	case job.PlaceBack:
		if len(ready) > 0 {
			o.Rank = ready[len(ready)-1].Order.Rank + 1
		}
		o.Seq = m.nextSequence()
	case job.PlaceDue:
		o.Rank, o.At, o.Seq = -1, j.RunAt, m.nextSequence()
	case job.PlaceSched:
		o.At, o.Seq = j.RunAt, j.Order.First
	}
	left := j.State == job.Leased
	m.enter(j, job.Ready)
	j.Order, j.Since = o, since
	// Its caller was there before the restart.
	if !left && j.Flags.Has(job.FlagEphemeral) && m.runOf(j) == nil && !m.trial {
		m.withdraw(j)
	} else {
		m.unleased(j, left)
	}
	m.follow()
}

func (m *Model) nextSequence() uint64 {
	m.sequence++
	return m.sequence
}

// toScheduled makes a job wait until its RunAt.
func (m *Model) toScheduled(j *entry) {
	left := j.State == job.Leased
	m.enter(j, job.Scheduled)
	m.unleased(j, left)
}

// unleased withdraws an ephemeral job whose lease has ended without an answer,
// when nobody waits for it any longer.
func (m *Model) unleased(j *entry, left bool) {
	if !left || !j.Flags.Has(job.FlagEphemeral) {
		return
	}
	w := m.runOf(j)
	if w != nil && (w.deadline == 0 || w.deadline > m.now) {
		return
	}
	m.withdraw(j)
}

// withdraw ends an ephemeral job that was not done in time.
func (m *Model) withdraw(j *entry) {
	if w := m.runOf(j); w != nil {
		m.complete(w, job.Result{Err: job.ErrTimeout})
	}
	m.count(j, job.CountCancelled)
	m.drop(j)
	m.strike(j.ID)
}

// runOf returns the Run that waits for a job.
func (m *Model) runOf(j *entry) *wait {
	for _, w := range m.waits {
		if _, ok := w.cmd.(*job.Run); ok && w.id == j.ID {
			return w
		}
	}
	return nil
}

// drop removes a job. Whoever still waits for it is told that there is none.
func (m *Model) drop(j *entry) {
	delete(m.jobs, j.ID)
	m.retake(queueName{j.Namespace, j.Queue})
	m.gone++
	m.tried(j.ID)
	m.tickEnds(j.ID, job.Removed)
	m.unwait(j.ID)
}

// unwait tells those who wait for a job that there is none.
func (m *Model) unwait(id job.ID) {
	for _, w := range slices.Clone(m.waits) {
		if w.id == id {
			m.tell(w, job.Result{Err: job.ErrNotFound})
		}
	}
}

// finish makes a job Done or Failed with a result, and answers those who await
// it. An ephemeral job answers its caller and is gone.
func (m *Model) finish(j *entry, s job.State, result []byte) {
	m.enter(j, s)
	j.Result = result
	for _, w := range slices.Clone(m.waits) {
		if w.id == j.ID {
			m.tell(w, job.Result{Jobs: []job.Job{j.Job}})
		}
	}
	if j.Flags.Has(job.FlagEphemeral) {
		m.drop(j)
	}
}

// strike releases those that wait for a job.
func (m *Model) strike(id job.ID) { m.endDependants(id, false) }

// fall exhausts every job that waits for this one, directly or through others.
func (m *Model) fall(id job.ID) { m.endDependants(id, true) }

// remember appends a failure.
func (j *entry) remember(f job.Failure) {
	j.Failures = append(slices.Clone(j.Failures), f)
	if n := len(j.Failures); n > job.FailuresKept { // the first and the newest
		j.Failures = append(j.Failures[:1], j.Failures[n-job.FailuresKept+1:]...)
	}
}

// fail is one failed execution.
func (m *Model) fail(j *entry, f job.Failure, result []byte) {
	f.At = m.now
	j.Fails++
	m.tried(j.ID)
	j.remember(f)
	m.count(j, job.CountFailed)
	p := j.Policy
	switch {
	case j.Flags.Has(job.FlagEphemeral):
		m.outcome(j, job.Died)
		m.finish(j, job.Failed, result)
		m.fall(j.ID)
	case p.MaxFails > 0 && j.Fails >= p.MaxFails, p.MaxAttempts > 0 && j.Attempts >= p.MaxAttempts:
		m.exhaust(j, result)
	case p.Backoff.Unit <= 0:
		m.count(j, job.CountRetried)
		m.toReady(j, p.Requeue)
	default:
		m.count(j, job.CountRetried)
		j.RunAt = m.due(j)
		if j.RunAt > m.now {
			m.enter(j, job.Retrying)
		} else {
			m.toReady(j, p.Due)
		}
	}
}

// due returns when a job that has just failed is due, as the machine drew it.
func (m *Model) due(j *entry) job.Time {
	b := j.Policy.Backoff
	first := b.After(m.now, j.Fails, 0)
	if b.Jitter < 2 {
		return first
	}
	told, ok := m.oracle.RunAt(j.ID)
	if !ok {
		return first // it went in the same step: nobody can tell
	}
	for r := range uint64(b.Jitter) {
		if b.After(m.now, j.Fails, r) == told {
			return told
		}
	}
	m.illegal("job %d: a back-off until %d is not among those allowed", j.ID, told)
	return first
}

func (m *Model) illegal(format string, args ...any) {
	if m.broken == nil {
		m.broken = fmt.Errorf(format, args...)
	}
}

// exhaust is the end of a job's tries, and of those that wait for it.
func (m *Model) exhaust(j *entry, result []byte) {
	m.exhaustOne(j, result)
	m.fall(j.ID)
}

func (m *Model) exhaustOne(j *entry, result []byte) {
	m.died(j, job.Exhausted)
	m.tried(j.ID)
	m.tickEnds(j.ID, job.Died)
	if j.Flags.Has(job.FlagEphemeral) {
		m.outcome(j, job.Died)
		m.finish(j, job.Failed, result)
		return
	}
	switch j.Policy.Exhaust {
	case job.ExhaustDrop:
		m.outcome(j, job.Died)
		m.drop(j)
	case job.ExhaustDead:
		m.toDead(j)
	case job.ExhaustKeep:
		m.finish(j, job.Failed, result)
	case job.ExhaustMove:
		if j.Policy.DeadQueue == "" {
			m.outcome(j, job.Died)
			m.drop(j)
			return
		}
		m.changeQueue(j, j.Policy.DeadQueue)
		j.Attempts, j.Fails, j.RunAt, j.Failures = 0, 0, 0, nil
		j.Policy.DeadQueue = ""
		m.toReady(j, job.PlaceTail)
	}
}

// toDead puts a job into its queue's dead list.
func (m *Model) toDead(j *entry) {
	m.enter(j, job.Dead)
	m.tried(j.ID)
	m.tickEnds(j.ID, job.Died)
	j.Policy.ExpireAt = 0
	if j.Policy.DeadFor > 0 {
		j.Timer = m.now.Add(j.Policy.DeadFor)
	}
	for limit, n := int(j.Policy.DeadMax), m.StepWork; limit > 0 && n > 0; n-- {
		dead := m.list(queueName{j.Namespace, j.Queue}, job.Dead)
		if len(dead) <= limit {
			break
		}
		m.drop(dead[0])
		m.strike(dead[0].ID)
	}
}

// changeQueue moves a job to another queue, which gives it a new number if it numbers jobs.
func (m *Model) changeQueue(j *entry, to string) {
	m.count(j, job.CountMoved)
	if j.Queue == to {
		return
	}
	q := m.queue(queueName{j.Namespace, to})
	from := queueName{j.Namespace, j.Queue}
	j.Queue, j.QueueNum = to, q.num
	m.retake(from)
	m.retake(q.queueName)
	q.hidden = false
	m.number(j, q)
}

// number gives a job that arrives in a queue the next serial number, if there are any.
func (m *Model) number(j *entry, q *queue) {
	j.Serial = 0
	j.Flags &^= job.FlagSerial
	if q.settings.Serials {
		j.Serial = q.nextSerial
		q.nextSerial++
		j.Flags |= job.FlagSerial
	}
}
