package operator

import (
	"cmp"
	"context"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// compareQueues tells whether a queue comes before, at or behind a name.
func compareQueues(q *job.QueueInfo, namespace, name string) int {
	return cmp.Or(strings.Compare(q.Namespace, namespace), strings.Compare(q.Name, name))
}

func countsOf(counts *[job.StateCount]uint64) map[string]uint64 {
	out := make(map[string]uint64, job.StateCount)
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		out[s.Name()] = counts[s]
	}
	return out
}

// Namespaces lists the namespaces that have a queue, in order of their names.
func (s *Service) Namespaces(page api.PageOf) (api.NamespacePage, error) {
	out := api.NamespacePage{Namespaces: []api.Namespace{}}
	limit, at, err := beginPage(page, "namespaces", "")
	if err != nil {
		return out, err
	}
	names, err := s.engine.Namespaces(at.Namespace, limit+1)
	if err != nil {
		return out, api.Refusal(err)
	}
	if len(names) > limit {
		names = names[:limit]
		at.Namespace = names[limit-1]
		out.Next = at.cursor()
	}
	sums, err := s.engine.SumsOf(names)
	for i := range sums {
		if sums[i].Queues > 0 { // else the last was removed just now
			out.Namespaces = append(out.Namespaces, api.Namespace{
				Name: names[i], Queues: int(sums[i].Queues), //nolint:gosec // a number of queues
				Counts: countsOf(&sums[i].Counts),
			})
		}
	}
	return out, api.Refusal(err)
}

// Queues lists queues in order of namespaces and names.
func (s *Service) Queues(f api.QueueFilter, page api.PageOf) (api.QueuePage, error) {
	out := api.QueuePage{Queues: []api.Queue{}}
	limit, at, err := beginPage(page, "queues", fingerprint(f))
	if err != nil {
		return out, err
	}
	err = s.search(func(v *engine.View) error {
		infos, more, err := queuesFrom(v, f, &at, limit)
		if err != nil {
			return err
		}
		for i := range infos {
			if err := v.OldestReady(&infos[i]); err != nil {
				return err
			}
			q, err := s.queue(&infos[i])
			if err != nil {
				return err
			}
			out.Queues = append(out.Queues, q)
		}
		if more {
			out.Next = at.cursor()
		}
		return nil
	})
	return out, err
}

// queuesFrom returns up to limit queues behind a position, which it moves, and whether there are more. It looks at no
// more than queueMax.
func queuesFrom(
	v *engine.View, f api.QueueFilter, at *position, limit int,
) (infos []job.QueueInfo, more bool, err error) {
	from, read := *at, 0
	visit := func(q *job.QueueInfo) bool {
		if from.Namespace != "" && compareQueues(q, from.Namespace, from.Queue) <= 0 {
			return true
		}
		fits := strings.Contains(q.Name, f.Name)
		if more = read == queueMax || fits && len(infos) == limit; more {
			return false
		}
		if fits {
			infos = append(infos, *q)
		}
		read++
		at.Namespace, at.Queue = q.Namespace, q.Name
		return true
	}
	if f.Namespace != "" {
		err = v.EachQueue(f.Namespace, from.Queue, visit)
	} else {
		err = v.EachQueueFrom(from.Namespace, from.Queue, visit)
	}
	return infos, more, err
}

// Queue returns what is known about a queue.
func (s *Service) Queue(namespace, name string) (api.Queue, error) {
	var out api.Queue
	err := s.view(func(v *engine.View) error {
		q, ok, err := v.Queue(namespace, name)
		if err == nil && !ok {
			err = noQueue(namespace, name)
		}
		if err == nil {
			err = v.OldestReady(&q)
		}
		if err == nil {
			out, err = s.queue(&q)
		}
		if err != nil {
			return err
		}
		h, ok, err := v.Hook(namespace, name)
		if ok {
			out.Hook = hookOf(&h)
		}
		return err
	})
	return out, err
}

func noQueue(namespace, name string) error {
	return api.NotFound("there is no queue %q in namespace %q", name, namespace)
}

func (s *Service) queue(q *job.QueueInfo) (out api.Queue, err error) {
	out = api.Queue{
		Namespace: q.Namespace, Name: q.Name, Counts: countsOf(&q.Counts), Jobs: q.Total(),
		Totals: make(map[string]uint64, job.CounterCount),
		Rates:  s.sampler.rates(q.Namespace, q.Name), Paused: q.Paused, PausedUntil: api.Instant(q.PausedUntil),
		Capacity:  q.Settings.Capacity,
		Protocols: []string{}, Created: api.Instant(q.Created), Hidden: q.Hidden,
	}
	for c := range job.CounterCount {
		out.Totals[job.Counter(c).String()] = q.Totals[c]
	}
	for d := range 32 {
		if q.Doors.Has(job.Door(d)) {
			out.Protocols = append(out.Protocols, s.opts.DoorName(job.Door(d)))
		}
	}
	if q.OldestReady != 0 {
		age := max(0, s.engine.Now().Sub(q.OldestReady).Seconds())
		out.OldestReadySeconds = &age
	}
	out.Fairness = fairnessOf(q.Fairness)
	out.Limits, err = s.limitUse(q)
	return out, err
}

// exists refuses a queue that is not there, because the engine does not for every command.
func (s *Service) exists(namespace, name string) error {
	_, err := s.Queue(namespace, name)
	return err
}

// Pause stops fetches from a queue: for some time, or with zero until it is resumed.
func (s *Service) Pause(ctx context.Context, namespace, name string, limit time.Duration) (api.Queue, error) {
	if limit < 0 || limit > api.DurationMax {
		return api.Queue{}, api.Invalid("for: choose up to ten years, or nothing for no end")
	}
	return s.changeQueue(ctx, namespace, name, &job.Pause{Namespace: namespace, Queue: name, For: limit})
}

// Resume lets fetches from a queue go on.
func (s *Service) Resume(ctx context.Context, namespace, name string) (api.Queue, error) {
	return s.changeQueue(ctx, namespace, name, &job.Resume{Namespace: namespace, Queue: name})
}

func (s *Service) changeQueue(ctx context.Context, namespace, name string, cmd job.Command) (api.Queue, error) {
	if err := s.exists(namespace, name); err != nil {
		return api.Queue{}, err
	}
	if _, err := s.do(ctx, cmd); err != nil {
		return api.Queue{}, err
	}
	verb := "resume"
	if _, pauses := cmd.(*job.Pause); pauses {
		verb = "pause"
	}
	s.Note(ctx, 0, "%s queue %s", verb, name)
	return s.Queue(namespace, name)
}

// Purge removes all jobs of a queue that are in a state.
func (s *Service) Purge(ctx context.Context, namespace, name, state string) (api.Count, error) {
	st, ok := job.ParseState(state)
	if !ok {
		return api.Count{}, api.Invalid("state: %q is none of %s", state, stateNames())
	}
	if err := s.exists(namespace, name); err != nil {
		return api.Count{}, err
	}
	r, err := s.do(ctx, &job.Purge{Namespace: namespace, Queue: name, State: st})
	if err == nil {
		s.Note(ctx, r.Count, "delete %s jobs of queue %s", st.Name(), name)
	}
	return api.Count{Jobs: r.Count}, err
}

// RemoveQueue removes a queue with all its jobs.
func (s *Service) RemoveQueue(ctx context.Context, namespace, name string, o api.RemoveOptions) (api.Count, error) {
	r, err := s.do(ctx, &job.Remove{Namespace: namespace, Queue: name, IfIdle: o.IfIdle, KeepQueue: o.Keep})
	if err == nil && o.Keep {
		s.Note(ctx, r.Count, "empty queue %s", name)
	} else if err == nil {
		s.Note(ctx, r.Count, "remove queue %s", name)
	}
	return api.Count{Jobs: r.Count}, err
}

// RespawnMax bounds the jobs that one command brings back: it holds up everybody else.
const RespawnMax = 1000

// Respawn makes dead jobs of a queue ready again as if they were new.
func (s *Service) Respawn(ctx context.Context, namespace, name string, o api.RespawnOptions) (api.Count, error) {
	if o.Limit < 1 || o.Limit > RespawnMax {
		return api.Count{}, api.Invalid("limit is %d: choose 1 to %d", o.Limit, RespawnMax)
	}
	if o.TTL < 0 {
		return api.Count{}, api.Invalid("ttl must not be negative")
	}
	if err := s.exists(namespace, name); err != nil {
		return api.Count{}, err
	}
	r, err := s.do(ctx, &job.Respawn{
		Namespace: namespace, Queue: name, Limit: o.Limit,
		Attempts: o.Attempts, TTL: o.TTL,
	})
	if err == nil {
		s.Note(ctx, r.Count, "respawn dead jobs of queue %s", name)
	}
	return api.Count{Jobs: r.Count}, err
}
