package operator

import (
	"context"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/schedule"
)

var (
	missedNames  = []string{job.MissedOnce: "once", job.MissedSkip: "skip", job.MissedAll: "all"}
	overlapNames = []string{job.OverlapAllow: "allow", job.OverlapSkip: "skip"}
	sourceNames  = []string{job.SourceAPI: "api", job.SourceFile: "file"}
	runNames     = []string{
		job.RunPushed: "fired", job.RunByHand: "manual", job.RunMissed: "missed",
		job.RunOverlapped: "overlapped", job.RunRefused: "refused",
	}
	resultNames = []string{
		job.Alive: "unfinished", job.Succeeded: "succeeded", job.Died: "died",
		job.Removed: "removed",
	}
)

// CronEntry makes the entry that the engine keeps, for a namespace and with the door of its jobs.
func CronEntry(n *api.NewCron, namespace, name string, door job.Door) (job.Schedule, error) {
	s := job.Schedule{
		Namespace: namespace, Name: name, When: n.Schedule, Zone: n.TimeZone, Paused: n.Paused,
		MissedMax: n.MissedLimit,
	}
	for _, part := range []struct {
		what, text string
		names      []string
		to         *uint8
	}{{"missed", n.Missed, missedNames, (*uint8)(&s.Missed)}, {
		"overlap", n.Overlap, overlapNames,
		(*uint8)(&s.Overlap),
	}} {
		if part.text == "" {
			continue
		}
		i := slices.Index(part.names, part.text)
		if i < 0 {
			return s, api.Invalid("%s: %q is none of %v", part.what, part.text, part.names)
		}
		*part.to = uint8(i) //nolint:gosec // an index of a short table
	}
	switch {
	case s.Missed != job.MissedAll && n.MissedLimit != 0:
		return s, api.Invalid("missed_limit: it is only for missed: all")
	case s.Missed == job.MissedAll && n.MissedLimit == 0:
		s.MissedMax = api.MissedLimitDefault
	}
	if n.Job.Trace != "" {
		return s, api.Invalid("traceparent: no run of a schedule is part of a trace")
	}
	if n.Job.RunAt != nil {
		return s, api.Invalid("run_at: the schedule says when the job runs")
	}
	if err := api.CheckQueue(namespace, n.Queue); err != nil {
		return s, err
	}
	var err error
	if s.Job, err = n.Job.Spec(); err != nil {
		return s, err
	}
	s.Job.Namespace, s.Job.Queue, s.Job.Origin = namespace, n.Queue, door
	return s, nil
}

// cron shows an entry.
func cron(i *job.ScheduleInfo) api.Cron {
	c := api.Cron{
		Namespace: i.Namespace, Name: i.Name, Origin: api.NameOf(sourceNames, i.Source),
		Created: api.Instant(i.Created), Next: api.Instant(i.Next), LastTick: api.Instant(i.LastTick),
		LastRun: api.Instant(i.LastAt),
		Fired:   i.Pushed, MissedCount: i.MissedAny, Skipped: i.Skipped, Running: i.Running,
	}
	c.Schedule, c.TimeZone, c.Queue, c.Paused = i.When, i.Zone, i.Job.Queue, i.Stopped
	c.Missed, c.MissedLimit, c.Overlap = api.NameOf(missedNames,
		i.Missed), i.MissedMax, api.NameOf(overlapNames, i.Overlap)
	j := &i.Job
	c.Job = api.NewJob{
		Type: j.Type, Key: j.Key, Unique: j.Unique, Group: j.Group, Payload: api.PayloadOf(j.Body, j.BodyKind),
		Priority: j.Policy.Priority,
		Delay:    j.Delay.Seconds(), TTL: j.TTL.Seconds(), Lease: j.Policy.Lease.Seconds(), Keep: j.Policy.Keep,
		Custom: api.CustomOf(j.Extra),
	}
	if n := int(j.Policy.MaxFails) - 1; n >= 0 {
		c.Job.Retry = &n
	}
	for k := range slices.Backward(i.Runs) {
		r := &i.Runs[k]
		run := api.CronRun{
			Tick: api.Instant(r.Tick), At: api.Instant(r.At), Kind: api.NameOf(runNames, r.Kind),
			Count: r.Count, Job: r.Job, Ended: api.Instant(r.Ended),
		}
		if r.Kind == job.RunPushed || r.Kind == job.RunByHand {
			run.Result = api.NameOf(resultNames, r.Outcome)
			if c.LastResult == "" {
				c.LastResult = run.Result
			}
		}
		if r.Refused != 0 {
			run.Refused = api.ProblemOf(r.Refused).Name()
		}
		c.Runs = append(c.Runs, run)
	}
	return c
}

// Crons lists the entries of a namespace, or of all if it is empty, in order of their names. Their bodies and runs are
// left out.
func (s *Service) Crons(namespace string) (api.Crons, error) {
	out := api.Crons{Cron: []api.Cron{}}
	err := s.view(func(v *engine.View) error {
		infos, err := v.Schedules(namespace)
		for i := range infos {
			c := cron(&infos[i])
			c.Runs, c.Job.Payload = nil, api.Payload{BodyKind: c.Job.BodyKind}
			out.Cron = append(out.Cron, c)
		}
		return err
	})
	return out, err
}

// Cron returns an entry.
func (s *Service) Cron(namespace, name string) (c api.Cron, err error) {
	err = s.view(func(v *engine.View) error {
		info, ok, err := v.Schedule(namespace, name)
		if err == nil && !ok {
			err = api.NotFound("there is no cron entry %q in namespace %q", name, namespace)
		}
		if err == nil {
			c = cron(&info)
		}
		return err
	})
	return c, err
}

// SetCron sets an entry.
func (s *Service) SetCron(ctx context.Context, namespace, name string, n api.NewCron) (api.Cron, error) {
	def, err := CronEntry(&n, namespace, name, s.opts.Door)
	if err != nil {
		return api.Cron{}, err
	}
	if _, err := s.do(ctx, &job.SetSchedules{Entries: []job.Schedule{def}}); err != nil {
		return api.Cron{}, err
	}
	s.Note(ctx, 0, "set cron entry %s: %s to queue %s", name, def.When, n.Queue)
	return s.Cron(namespace, name)
}

// DropCron removes an entry. Jobs that it has pushed stay.
func (s *Service) DropCron(ctx context.Context, namespace, name string) error {
	_, err := s.do(ctx, &job.DropSchedule{Namespace: namespace, Name: name})
	if err == nil {
		s.Note(ctx, 0, "remove cron entry %s", name)
	}
	return err
}

// PauseCron pauses an entry, or has it go on from now.
func (s *Service) PauseCron(ctx context.Context, namespace, name string, paused bool) (api.Cron, error) {
	if _, err := s.do(ctx, &job.PauseSchedule{Namespace: namespace, Name: name, Paused: paused}); err != nil {
		return api.Cron{}, err
	}
	verb := "resume"
	if paused {
		verb = "pause"
	}
	s.Note(ctx, 0, "%s cron entry %s", verb, name)
	return s.Cron(namespace, name)
}

// RunCron pushes the job of an entry now.
func (s *Service) RunCron(ctx context.Context, namespace, name string) (api.Pushed, error) {
	r, err := s.do(ctx, &job.RunSchedule{Namespace: namespace, Name: name})
	if err != nil {
		return api.Pushed{}, err
	}
	s.Note(ctx, 1, "run cron entry %s", name)
	return api.Pushed{ID: r.ID, State: r.State.Name()}, nil
}

// nextMax is of how many runs is told when they will be.
const nextMax = 1000

// NextCron tells when an entry is due next. While it is paused that is never.
func (s *Service) NextCron(namespace, name string, count int) (api.NextRuns, error) {
	out := api.NextRuns{Next: []time.Time{}}
	if count < 1 || count > nextMax {
		return out, api.Invalid("count: choose 1 to %d", nextMax)
	}
	c, err := s.Cron(namespace, name)
	if err != nil {
		return out, err
	}
	when, err := schedule.Parse(c.Schedule, c.TimeZone)
	if err != nil {
		return out, err
	}
	for at := c.Next; at != nil && len(out.Next) < count; {
		out.Next = append(out.Next, *at)
		next, ok := when.Next(*at)
		if !ok {
			break
		}
		at = &next
	}
	return out, nil
}
