package machine

import (
	"time"

	"millrace/internal/job"
	"millrace/internal/record"
)

// outcomeKept is how long the outcome of a tracked job is known.
const outcomeKept = 30 * time.Minute

// report takes what somebody tells about a job by its key (section 10). The lease is moved for any
// job; percent and text are kept for tracked ones only, alive or ended lately.
func (m *Machine) report(c *job.Report, res *job.Result) {
	e, tracked := m.reportable(c.Namespace, c.Key)
	if e != nil && e.State == job.Leased && e.Lease.Until != 0 && c.Until > e.Lease.Until {
		e.Lease.Until = c.Until
		m.moveLeaseEnd(&e.Job)
		m.save(e)
	}
	switch {
	case e != nil && e.Flags.Has(job.FlagTracked):
		p := m.getProgress(e)
		mergeReport(&p, c, m.now)
		m.putProgress(e, &p)
		res.Count = 1
	// No tracked job with the key is alive: the outcome of the last one may be meant.
	case !tracked:
		if o, ok := m.getOutcome(c.Namespace, c.Key); ok && m.now < o.Until {
			mergeReport(&o.Progress, c, m.now)
			m.putOutcome(c.Namespace, c.Key, &o)
			res.Count = 1
		}
	}
}

// mergeReport changes what a report tells and keeps the rest.
func mergeReport(p *record.Progress, c *job.Report, now job.Time) {
	if c.SetPercent {
		p.Percent, p.HasPercent = c.Percent, true
	}
	if c.SetText {
		p.Text = c.Text
	}
	p.At = now
}

// reportable returns the job that a report by key is about, nil if there is none, and whether any
// job with that key is alive and tracked: then no outcome of an earlier one is changed.
func (m *Machine) reportable(namespace, key string) (named *entry, tracked bool) {
	var r Reportable
	m.eachWithKey(namespace, key, func(e *entry) bool {
		if r.Offer(&e.Job) {
			named = e
		}
		return true
	})
	return named, r.Tracked
}

// Reportable finds, among the jobs with one key, the one that reports are about: the one leased
// longest, else the oldest. The machine and Query share it, so that who reports and who reads mean
// the same job.
type Reportable struct {
	Job     *job.Job // nil: there is none
	Tracked bool     // any of them is
}

// Offer looks at the next job, from the oldest on, and reports whether it is the one so far.
func (r *Reportable) Offer(j *job.Job) bool {
	if j.Flags.Has(job.FlagTombstone) || j.State.Finished() { // that counts as ended
		return false
	}
	r.Tracked = r.Tracked || j.Flags.Has(job.FlagTracked)
	if r.Job != nil && (j.State != job.Leased || r.Job.State == job.Leased && j.Entered >= r.Job.Entered) {
		return false
	}
	r.Job = j
	return true
}

// getProgress and putProgress read and write what was reported of a job that is alive. It is a
// record of the job, and goes with it.
func (m *Machine) getProgress(e *entry) (p record.Progress) {
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartProgress)
	b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = trim(b[:0])
	if ok {
		var err error
		p, err = record.DecodeProgress(b)
		corrupt("progress", err)
	}
	return p
}

func (m *Machine) putProgress(e *entry, p *record.Progress) {
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartProgress)
	m.valueBuf = record.AppendProgress(m.valueBuf[:0], p)
	m.set(m.keyBuf, m.valueBuf)
	m.valueBuf = trim(m.valueBuf)
}

// keepOutcome keeps how a tracked job has ended, under its key, with what was reported of it. It is
// called before the job leaves its state. An outcome of an earlier job with the key is replaced,
// together with its entry in the list of what is to be forgotten (INV-15).
func (m *Machine) keepOutcome(e *entry, how job.Outcome) {
	if !e.Flags.Has(job.FlagTracked) || e.Key == "" || e.State == job.Done { // a job that is done has ended before
		return
	}
	if old, ok := m.getOutcome(e.Namespace, e.Key); ok {
		// getOutcome has left the key of the outcome in m.keyBuf.
		m.cancelForget(old.Until, old.ID, m.keyBuf)
	}
	o := record.Outcome{Progress: m.getProgress(e), How: how, ID: e.ID}
	o.At = m.now
	m.putOutcome(e.Namespace, e.Key, &o)
	m.delPart(e, record.PartProgress)
}

// getOutcome reads an outcome. Whether it still counts is told by its time.
func (m *Machine) getOutcome(namespace, key string) (o record.Outcome, ok bool) {
	m.keyBuf = record.OutcomeKey(m.keyBuf[:0], namespace, key)
	b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = trim(b[:0])
	if ok {
		var err error
		o, err = record.DecodeOutcome(b)
		corrupt("outcome", err)
	}
	return o, ok
}

// putOutcome writes an outcome, which is known for outcomeKept from now on: every report prolongs
// it.
func (m *Machine) putOutcome(namespace, key string, o *record.Outcome) {
	m.keyBuf = record.OutcomeKey(m.keyBuf[:0], namespace, key)
	if until := m.now.Add(outcomeKept); until != o.Until {
		if o.Until != 0 {
			m.cancelForget(o.Until, o.ID, m.keyBuf)
		}
		o.Until = until
		m.forgetLater(until, o.ID, m.keyBuf)
	}
	m.valueBuf = record.AppendOutcome(m.valueBuf[:0], o)
	m.set(m.keyBuf, m.valueBuf)
	m.valueBuf = trim(m.valueBuf)
}
