package operator

import (
	"cmp"
	"slices"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

var (
	stages   = []string{job.CallbackWaiting: "waiting", job.CallbackPushed: "pushed", job.CallbackAcked: "acked"}
	lockEnds = []string{job.LockUntilAck: "ack", job.LockUntilFetch: "fetch"}
)

// someQueues writes queues that have settings.
func (e *export) someQueues() (complete bool, err error) {
	from, read := e.at, 0
	complete = true
	if from.Namespace == "" {
		from.Namespace = e.match.Namespace
	}
	serr := e.view.EachQueueFrom(from.Namespace, from.Queue, func(q *job.QueueInfo) bool {
		if e.match.Namespace != "" && q.Namespace != e.match.Namespace {
			return false
		}
		if e.room == 0 || read == queueMax {
			complete = false
			return false
		}
		read++
		if compareQueues(q, e.at.Namespace, e.at.Queue) == 0 {
			return true
		}
		e.at.Namespace, e.at.Queue = q.Namespace, q.Name
		if r := queueRecord(q); r != nil && e.match.inQueue(q) {
			err = e.line(r)
		}
		return err == nil
	})
	return complete, cmp.Or(err, serr)
}

// queueRecord makes the line of a queue; nil if it has no settings.
func queueRecord(q *job.QueueInfo) *api.QueueRecord {
	r := &api.QueueRecord{
		Kind: api.KindQueue, Namespace: q.Namespace, Queue: q.Name, Configured: q.Configured,
		Capacity: q.Settings.Capacity,
		Serials:  q.Settings.Serials, Attrs: q.Settings.Attrs, OnePerGroup: q.Settings.OnePerGroup, Paused: q.Paused,
		PausedUntil: api.Instant(q.PausedUntil),
	}
	if !q.Limits.IsZero() {
		l := limitsOf(&q.Limits)
		r.Limits = &l
	}
	r.Fairness = fairnessOf(q.Fairness)
	if !r.Configured && !r.Paused && r.Limits == nil && r.Fairness == nil {
		return nil
	}
	return r
}

// someHooks writes hooks.
func (e *export) someHooks() (complete bool, err error) {
	hooks, err := e.view.Hooks(e.match.Namespace)
	for i := int(e.at.ID); i < len(hooks) && err == nil; i++ { //nolint:gosec // an index
		if e.room == 0 {
			return false, nil
		}
		e.at.ID++
		if h := hookOf(&hooks[i]); e.match.Queue == "" || e.match.Queue == h.Queue {
			err = e.line(api.HookRecord{Kind: api.KindHook, Namespace: h.Namespace, Queue: h.Queue, NewHook: h.NewHook})
		}
	}
	return err == nil, err
}

// someBatches writes batches, or what ends them.
func (e *export) someBatches() (complete bool, err error) {
	all, last, err := e.view.PastBatches(job.BatchID(e.at.ID), e.room)
	if err != nil {
		return false, err
	}
	for i := range all {
		b := &all[i]
		if e.match.Namespace != "" && b.Make.Namespace != e.match.Namespace {
			continue
		}
		var line any = e.s.batchRecord(b)
		if e.at.Phase == phaseBatchEnds {
			line = api.BatchEnd{
				Kind: api.KindBatchEnd, ID: b.ID, Namespace: b.Make.Namespace, Total: b.Rest.Total,
				Open: b.Rest.Open,
			}
		}
		if err := e.line(line); err != nil {
			return false, err
		}
	}
	e.at.ID = uint64(last)
	return last == 0, nil
}

func (s *Service) batchRecord(b *engine.PastBatch) *api.BatchRecord {
	m, p := &b.Make, b.Make.Past
	return &api.BatchRecord{
		Kind: api.KindBatch, ID: b.ID, Namespace: m.Namespace, Parent: m.Parent, Text: m.Text,
		Created:   api.Instant(p.Created),
		Committed: api.Instant(p.Committed), Succeeded: api.Instant(p.Succeeded), Acked: p.Acked,
		Complete: api.NameOf(stages, p.Complete), Success: api.NameOf(stages, p.Success),
		OpenFor: m.OpenFor.String(), KeepFor: m.KeepFor.String(), KeepDone: m.KeepDone.String(),
		OnComplete: s.specRecord(m.Complete), OnSuccess: s.specRecord(m.Success),
	}
}

// specRecord shows a job that is still to be pushed; nil if there is none.
func (s *Service) specRecord(spec *job.Spec) *api.Record {
	if spec == nil {
		return nil
	}
	j := &job.Job{
		Namespace: spec.Namespace, Queue: spec.Queue, Key: spec.Key, Type: spec.Type, Group: spec.Group,
		Body: spec.Body, BodyKind: spec.BodyKind,
		Extra: spec.Extra, Origin: spec.Origin, Policy: spec.Policy, RunAt: spec.RunAt, Delay: spec.Delay,
		Fingerprint: spec.Fingerprint,
	}
	r := s.record(j)
	r.State, r.Numbered, r.Tracked = "", spec.Numbered, spec.Tracked
	r.Unique, r.TTL, r.TTLFromRun, r.Head = spec.Unique, spec.TTL.Seconds(), spec.TTLFromRun, spec.At == job.PlaceHead
	if spec.Lock != "" {
		r.Lock, r.LockFor, r.LockEnds = spec.Lock, spec.LockFor.Seconds(), api.NameOf(lockEnds, spec.LockUntil)
	}
	for _, b := range spec.BlockedBy {
		r.BlockedBy = append(r.BlockedBy, max(b.ID, job.ID(b.Number)))
	}
	return &r
}

// someCrons writes cron entries, or what ends them.
func (e *export) someCrons() (complete bool, err error) {
	if e.crons == nil {
		if e.crons, err = e.view.Schedules(e.match.Namespace); err != nil {
			return false, err
		}
	}
	for i := int(e.at.ID); i < len(e.crons); i++ { //nolint:gosec // an index
		if e.room == 0 {
			return false, nil
		}
		info := &e.crons[i]
		e.at.ID++
		var line any = e.s.cronRecord(info)
		if e.at.Phase == phaseCronEnds {
			line = api.CronEnd{
				Kind: api.KindCronEnd, Namespace: info.Namespace, Name: info.Name, Paused: info.Stopped,
				Next: api.Instant(info.Next),
			}
		}
		if err := e.line(line); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *Service) cronRecord(i *job.ScheduleInfo) *api.CronRecord {
	c := cron(i)
	return &api.CronRecord{
		Kind: api.KindCron, Namespace: i.Namespace, Name: i.Name, Schedule: i.When, TimeZone: i.Zone, Missed: c.Missed,
		MissedLimit: i.MissedMax,
		Overlap:     c.Overlap, Job: *s.specRecord(&i.Job), Created: c.Created, LastTick: c.LastTick,
		LastRun: c.LastRun,
		Fired:   c.Fired, MissedCount: c.MissedCount, Skipped: c.Skipped, Runs: c.Runs,
	}
}

// scheduleName returns the name of the schedule of a job; empty if it was removed.
func (e *export) scheduleName(id job.BatchID) (string, error) {
	if name, ok := e.names[id]; ok {
		return name, nil
	}
	name, ok, err := e.view.ScheduleName(id)
	if ok {
		if e.names == nil {
			e.names = map[job.BatchID]string{}
		}
		e.names[id] = name
	}
	return name, err
}

// blockedJob names a job that waits for others.
type blockedJob struct {
	namespace, queue string
	id               job.ID
}

// blockedAhead is how many of them are looked for at a time, over all queues.
const blockedAhead = 20_000

// someBlocked writes jobs that wait for others, in order of their ids: a job waits for older ones only.
func (e *export) someBlocked() (complete bool, err error) {
	if !e.match.states.Allow(job.Blocked) {
		return true, nil
	}
	for size := 0; e.room > 0 && size < loadBytesMax; {
		if len(e.blocked) == 0 {
			if err := e.nextBlocked(); err != nil || len(e.blocked) == 0 {
				return err == nil, err
			}
		}
		b := e.blocked[0]
		j, err := e.view.Get(job.ByID(b.namespace, b.queue, b.id))
		if err != nil {
			return false, err
		}
		e.blocked = e.blocked[1:]
		e.at.ID = uint64(b.id)
		e.at.Examined++
		size += len(j.Body)
		if e.match.outside(&j) && e.match.inside(&j) {
			if err := e.job(&j); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// nextBlocked finds the blocked jobs with the lowest ids behind the position.
func (e *export) nextBlocked() (err error) {
	var next []blockedJob
	shorten := func() {
		slices.SortFunc(next, func(a, b blockedJob) int { return cmp.Compare(a.id, b.id) })
		next = next[:min(len(next), blockedAhead)]
	}
	serr := e.view.EachQueueFrom(e.match.Namespace, "", func(q *job.QueueInfo) bool {
		if e.match.Namespace != "" && q.Namespace != e.match.Namespace {
			return false
		}
		if q.Counts[job.Blocked] == 0 || !e.match.inQueue(q) {
			return true
		}
		after := engine.BehindBlocked(job.ID(e.at.ID))
		for {
			var page engine.Page
			page, err = e.view.List(engine.ListOptions{
				Namespace: q.Namespace, Queue: q.Name, State: job.Blocked,
				After: after, Limit: chunkMax,
			})
			for i := range page.Jobs {
				next = append(next, blockedJob{q.Namespace, q.Name, page.Jobs[i].ID})
			}
			full := len(next) >= 2*blockedAhead
			if full {
				shorten()
			}
			after = page.Next
			if err != nil || after == "" || full && page.Jobs[len(page.Jobs)-1].ID > next[len(next)-1].id {
				return err == nil
			}
		}
	})
	shorten()
	e.blocked = next
	return cmp.Or(err, serr)
}
