package sim

import (
	"time"

	"millrace/internal/job"
)

// outcomeKept is how long the outcome of a tracked job is known.
const outcomeKept = 30 * time.Minute

type keyName struct{ ns, key string }

// progress is what has been reported about a tracked job.
type progress struct {
	percent    int64
	hasPercent bool
	text       string
	at         job.Time
}

// outcome is how a tracked job has ended, and until when that is known.
type outcome struct {
	progress

	how   job.Outcome
	until job.Time
}

func (p *progress) take(now job.Time, c *job.Report) {
	if c.SetPercent {
		p.percent, p.hasPercent = c.Percent, true
	}
	if c.SetText {
		p.text = c.Text
	}
	p.at = now
}

// outcome remembers how a tracked job ends. One that is done has ended before.
func (m *Model) outcome(j *entry, how job.Outcome) {
	if !j.Flags.Has(job.FlagTracked) || j.Key == "" || j.State == job.Done {
		return
	}
	o := outcome{progress: j.reported, how: how, until: m.now.Add(outcomeKept)}
	o.at = m.now
	m.outcomes[keyName{j.Namespace, j.Key}] = o
	j.reported = progress{} // should it ever come back, nothing has been reported
}

// reportable returns the job that a report by a key is about, nil if there is none,
// and whether a job with that key is alive that takes reports.
func (m *Model) reportable(name keyName) (named *entry, tracked bool) {
	ref := job.ByKey(name.ns, name.key)
	alive := func(j *entry) bool { return !j.State.Finished() }
	named = m.find(ref, true, func(j *entry) bool { return j.State == job.Leased })
	if named == nil || named.State != job.Leased {
		named = m.find(ref, false, alive)
	}
	if named != nil && !alive(named) {
		named = nil
	}
	tracking := m.sorted(func(j *entry) bool { return matches(j, ref) && alive(j) && j.Flags.Has(job.FlagTracked) })
	return named, len(tracking) > 0
}

// ended returns the outcome that is known under a key.
func (m *Model) ended(name keyName) (outcome, bool) {
	o, there := m.outcomes[name]
	return o, there && m.now < o.until
}

func (m *Model) applyReport(c *job.Report) {
	name := keyName{c.Namespace, c.Key}
	j, tracked := m.reportable(name)
	if j != nil && j.State == job.Leased && j.Lease.Until != 0 {
		j.Lease.Until = max(j.Lease.Until, c.Until)
	}
	o, ended := m.ended(name)
	switch {
	case j != nil && j.Flags.Has(job.FlagTracked):
		j.reported.take(m.now, c)
	case ended && !tracked:
		o.take(m.now, c)
		o.until = m.now.Add(outcomeKept)
		m.outcomes[name] = o
	default:
		m.answerCount(0)
		return
	}
	m.answerCount(1)
}

// Progress returns what is known about a tracked job.
func (m *Model) Progress(namespace, key string) (job.Progress, bool) {
	name := keyName{namespace, key}
	j, tracked := m.reportable(name)
	if j != nil && j.Flags.Has(job.FlagTracked) {
		p := j.reported.shown()
		p.State, p.Updated = j.State, max(j.Since, j.reported.at)
		return p, true
	}
	o, ended := m.ended(name)
	if !ended || tracked {
		return job.Progress{}, false
	}
	p := o.shown()
	p.Outcome = o.how
	return p, true
}

func (p progress) shown() job.Progress {
	return job.Progress{Percent: p.percent, HasPercent: p.hasPercent, Text: p.text, Updated: p.at}
}
