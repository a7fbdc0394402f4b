package operator

import (
	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

var (
	expiries = [...]string{job.ExpireAlways: "always", job.ExpireWaiting: "waiting"}
	lapses   = [...]string{job.LapseRequeue: "requeue", job.LapseFail: "fail"}
	exhausts = [...]string{
		job.ExhaustDrop: "drop", job.ExhaustDead: "dead", job.ExhaustKeep: "keep",
		job.ExhaustMove: "move",
	}
)

// Job returns everything about a job. The queue may be empty where it is not known; to name it is
// quicker.
func (s *Service) Job(namespace, queue string, id job.ID) (api.JobDetail, error) {
	var d api.JobDetail
	err := s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByID(namespace, queue, id))
		if api.IsNotFound(err) {
			return api.NotFound("job %d is not in namespace %q: it may have been acked, deleted or have expired", id,
				namespace)
		}
		if err != nil {
			return err
		}
		d = s.detail(&j)
		if j.Flags.Has(job.FlagTracked) && j.Key != "" {
			d.Tracked, err = tracked(v, &j, s.engine.Now())
		}
		if err == nil {
			d.Waits, err = s.waits(v, &j)
		}
		return err
	})
	return d, err
}

// waitsShown is how many of the jobs that a job waits for are shown.
const waitsShown = 20

// waits returns the jobs that a job waits for. Only those are found that have a number: others would be looked for in
// every queue.
func (s *Service) waits(v *engine.View, j *job.Job) (rows []api.JobRow, err error) {
	for _, id := range j.Blockers[:min(len(j.Blockers), waitsShown)] {
		b, err := v.Get(job.Ref{Kind: job.RefNumber, Namespace: j.Namespace, Number: id.Number(), ID: id})
		if api.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, s.row(&b, nil))
	}
	return rows, nil
}

// tracked returns what was reported about a job.
func tracked(v *engine.View, j *job.Job, now job.Time) (*api.Tracked, error) {
	p, ok, err := v.Progress(j.Namespace, j.Key, now)
	if err != nil || !ok || p.Outcome != job.Alive {
		return nil, err
	}
	t := &api.Tracked{Text: p.Text, Updated: api.Instant(p.Updated)}
	if p.HasPercent {
		t.Percent = &p.Percent
	}
	return t, nil
}

// JobBody returns the body of a job as it was pushed, whatever its size.
func (s *Service) JobBody(namespace, queue string, id job.ID) (body []byte, err error) {
	err = s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByID(namespace, queue, id))
		if api.IsNotFound(err) {
			return api.NotFound("job %d is not in namespace %q", id, namespace)
		}
		body = j.Body
		return err
	})
	return body, err
}

// detail shows everything about a job but its progress.
func (s *Service) detail(j *job.Job) api.JobDetail {
	d := api.JobDetail{
		JobRow: s.row(j, s.holders()), Buries: j.Buries, Lapses: j.Lapses, Releases: j.Releases, Kicks: j.Kicks,
		Policy: policy(&j.Policy), Failures: []api.Failure{}, BlockedBy: []job.ID{},
		Blocks: j.Flags.Has(job.FlagDependants), Lock: j.Lock, Ephemeral: j.Flags.Has(job.FlagEphemeral),
	}
	if j.Flags.Has(job.FlagSerial) {
		d.Serial = &j.Serial
	}
	if j.Flags.Has(job.FlagNumbered) {
		d.Number = j.ID.Number()
	}
	switch {
	case j.Flags.Has(job.FlagOnComplete):
		d.Callback = "complete"
	case j.Flags.Has(job.FlagOnSuccess):
		d.Callback = "success"
	}
	d.BlockedBy = append(d.BlockedBy, j.Blockers...)
	for i := range j.Failures {
		d.Failures = append(d.Failures, api.FailureOf(&j.Failures[i]))
	}
	if j.BodyKind != job.BodyNone {
		d.Body = api.ContentOf(j.Body, j.BodyKind)
	}
	if j.Flags.Has(job.FlagResult) {
		d.Result = api.ContentOf(j.Result, job.BodyBytes)
	}
	return d
}

func policy(p *job.Policy) api.Policy {
	out := api.Policy{
		LeaseSeconds: p.Lease.Seconds(), MaxAttempts: p.MaxAttempts, MaxFails: p.MaxFails,
		Expiry: api.NameOf(expiries[:], p.Expiry),
		Lapse:  api.NameOf(lapses[:], p.Lapse), Exhaust: api.NameOf(exhausts[:], p.Exhaust), DeadQueue: p.DeadQueue,
		DeadForSeconds: p.DeadFor.Seconds(), DeadMax: p.DeadMax, Keep: p.Keep,
	}
	if b := p.Backoff; b.Unit > 0 {
		out.Backoff = &api.Backoff{
			UnitSeconds: b.Unit.Seconds(), Power: b.Power, Skip: b.Skip,
			BaseSeconds: b.Base.Seconds(), Jitter: b.Jitter,
		}
	}
	return out
}

// row shows a job that was read whole.
func (s *Service) row(j *job.Job, workers map[job.Holder]string) api.JobRow {
	v := api.View{DoorName: s.opts.DoorName, Workers: workers, Now: s.engine.Now}
	return v.Row(j)
}
