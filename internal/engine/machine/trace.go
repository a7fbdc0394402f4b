package machine

import "millrace/internal/job"

// Tracer is told of jobs that carry a trace, for whoever makes spans of it. As an Observer it changes nothing, is
// called within a step and must not call the machine. The job is valid only during the call.
type Tracer interface {
	// Fetched tells that a job was leased, and since when it had waited: since its push, or since it became ready
	// again.
	Fetched(j *job.Job, since, now job.Time)
	// Ended tells that a lease has ended: by CountAcked, CountFailed or CountLapsed.
	Ended(j *job.Job, how job.Counter, now job.Time)
}

// traceFetched tells of a job that has just been leased. Its trace is there.
func (m *Machine) traceFetched(e *entry, readyAt job.Time) {
	if m.opt.Tracer == nil || !e.Flags.Has(job.FlagTraced) {
		return
	}
	since := readyAt
	if e.Attempts <= 1 {
		since = e.Created
	}
	m.opt.Tracer.Fetched(&e.Job, since, m.now)
}

// traceEnded tells of a job whose lease is about to end. The trace is stored with the body, which
// is read if need be.
func (m *Machine) traceEnded(e *entry, how job.Counter) {
	if m.opt.Tracer == nil || !e.Flags.Has(job.FlagTraced) || e.State != job.Leased {
		return
	}
	c := entry{Job: e.Job, q: e.q, loaded: e.loaded} // what is read for this is not to stay in memory
	m.loadBody(&c)
	m.opt.Tracer.Ended(&c.Job, how, m.now)
}
