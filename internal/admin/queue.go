package admin

import (
	"cmp"
	"context"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Namespace is a namespace and what is in it.
type Namespace struct {
	Name   string            `json:"name"`
	Queues int               `json:"queues"`
	Counts map[string]uint64 `json:"counts"` // jobs by state
}

// Queue is what is known about a queue.
type Queue struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Counts    map[string]uint64 `json:"counts"` // jobs by state
	Jobs      uint64            `json:"jobs"`   // in whatever state
	Totals    map[string]uint64 `json:"totals"` // since the queue was made
	Rates     Rates             `json:"rates"`  // per second, lately
	Paused    bool              `json:"paused"`
	// PausedUntil is when the pause ends by itself.
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	// OldestReadySeconds is how long the ready job that is first in order has been ready.
	OldestReadySeconds *float64   `json:"oldest_ready_seconds,omitempty"`
	Capacity           uint64     `json:"capacity"` // zero is no limit
	Limits             *LimitUse  `json:"limits,omitempty"`
	Hook               *Hook      `json:"hook,omitempty"` // not in lists
	Fairness           *Fairness  `json:"fairness,omitempty"`
	Protocols          []string   `json:"protocols"`
	Created            *time.Time `json:"created,omitempty"`
	// Hidden tells that the queue was removed by a protocol that keeps its other jobs.
	Hidden bool `json:"hidden"`
}

// QueuePage is a part of the list of queues.
type QueuePage struct {
	Queues []Queue `json:"queues"`
	// Next continues the list; empty at its end. It may be there with few queues or none: a search for a part of a
	// name has stopped early, and goes on with it.
	Next string `json:"next,omitempty"`
}

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

// NamespacePage is a part of the list of namespaces.
type NamespacePage struct {
	Namespaces []Namespace `json:"namespaces"`
	Next       string      `json:"next,omitempty"`
}

// Namespaces lists the namespaces that have a queue, in order of their names.
func (s *Service) Namespaces(page PageOf) (NamespacePage, error) {
	out := NamespacePage{Namespaces: []Namespace{}}
	limit, err := page.size()
	if err != nil {
		return out, err
	}
	at, err := parseCursor(page.Cursor, "namespaces", "")
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
			out.Namespaces = append(out.Namespaces, Namespace{Name: names[i], Queues: int(sums[i].Queues), Counts: countsOf(&sums[i].Counts)}) //nolint:gosec // a number of queues
		}
	}
	return out, api.Refusal(err)
}

// QueueFilter says which queues are meant.
type QueueFilter struct {
	Namespace string `json:"namespace,omitempty"` // empty: every one
	Name      string `json:"name,omitempty"`      // a part of the name
}

// Queues lists queues in order of namespaces and names.
func (s *Service) Queues(f QueueFilter, page PageOf) (QueuePage, error) {
	out := QueuePage{Queues: []Queue{}}
	limit, err := page.size()
	if err != nil {
		return out, err
	}
	at, err := parseCursor(page.Cursor, "queues", fingerprint(f))
	if err != nil {
		return out, err
	}
	err = s.view(func(v *engine.View) error {
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
func queuesFrom(v *engine.View, f QueueFilter, at *position, limit int) (infos []job.QueueInfo, more bool, err error) {
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
func (s *Service) Queue(namespace, name string) (Queue, error) {
	var out Queue
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

func (s *Service) queue(q *job.QueueInfo) (out Queue, err error) {
	out = Queue{
		Namespace: q.Namespace, Name: q.Name, Counts: countsOf(&q.Counts), Jobs: q.Total(), Totals: make(map[string]uint64, job.CounterCount),
		Rates: s.sampler.rates(q.Namespace, q.Name), Paused: q.Paused, PausedUntil: api.Instant(q.PausedUntil), Capacity: q.Settings.Capacity,
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
func (s *Service) Pause(ctx context.Context, namespace, name string, limit time.Duration) (Queue, error) {
	if limit < 0 || limit > api.DurationMax {
		return Queue{}, api.Invalid("for: choose up to ten years, or nothing for no end")
	}
	return s.changeQueue(ctx, namespace, name, &job.Pause{Namespace: namespace, Queue: name, For: limit})
}

// Resume lets fetches from a queue go on.
func (s *Service) Resume(ctx context.Context, namespace, name string) (Queue, error) {
	return s.changeQueue(ctx, namespace, name, &job.Resume{Namespace: namespace, Queue: name})
}

func (s *Service) changeQueue(ctx context.Context, namespace, name string, cmd job.Command) (Queue, error) {
	if err := s.exists(namespace, name); err != nil {
		return Queue{}, err
	}
	if _, err := s.do(ctx, cmd); err != nil {
		return Queue{}, err
	}
	verb := "resume"
	if _, pauses := cmd.(*job.Pause); pauses {
		verb = "pause"
	}
	s.Note(ctx, 0, "%s queue %s", verb, name)
	return s.Queue(namespace, name)
}

// Count is how many jobs something has concerned.
type Count struct {
	Jobs int `json:"jobs"`
}

// Purge removes all jobs of a queue that are in a state.
func (s *Service) Purge(ctx context.Context, namespace, name, state string) (Count, error) {
	st, ok := job.ParseState(state)
	if !ok {
		return Count{}, api.Invalid("state: %q is none of %s", state, stateNames())
	}
	if err := s.exists(namespace, name); err != nil {
		return Count{}, err
	}
	r, err := s.do(ctx, &job.Purge{Namespace: namespace, Queue: name, State: st})
	if err == nil {
		s.Note(ctx, r.Count, "delete %s jobs of queue %s", st.Name(), name)
	}
	return Count{Jobs: r.Count}, err
}

// RemoveOptions say how a queue is removed.
type RemoveOptions struct {
	IfIdle bool // refuse if callers wait or jobs are leased
	Keep   bool // keep the empty queue, its settings and counters
}

// RemoveQueue removes a queue with all its jobs.
func (s *Service) RemoveQueue(ctx context.Context, namespace, name string, o RemoveOptions) (Count, error) {
	r, err := s.do(ctx, &job.Remove{Namespace: namespace, Queue: name, IfIdle: o.IfIdle, KeepQueue: o.Keep})
	if err == nil && o.Keep {
		s.Note(ctx, r.Count, "empty queue %s", name)
	} else if err == nil {
		s.Note(ctx, r.Count, "remove queue %s", name)
	}
	return Count{Jobs: r.Count}, err
}

// respawnMax bounds the jobs that one command brings back: it holds up everybody else.
const respawnMax = 1000

// RespawnOptions say how dead jobs come back.
type RespawnOptions struct {
	Limit    int           // at most so many, those that died first
	Attempts uint32        // how many attempts they have; zero is no bound
	TTL      time.Duration // how long they live; zero is for ever
}

// Respawn makes dead jobs of a queue ready again as if they were new.
func (s *Service) Respawn(ctx context.Context, namespace, name string, o RespawnOptions) (Count, error) {
	if o.Limit < 1 || o.Limit > respawnMax {
		return Count{}, api.Invalid("limit is %d: choose 1 to %d", o.Limit, respawnMax)
	}
	if o.TTL < 0 {
		return Count{}, api.Invalid("ttl must not be negative")
	}
	if err := s.exists(namespace, name); err != nil {
		return Count{}, err
	}
	r, err := s.do(ctx, &job.Respawn{Namespace: namespace, Queue: name, Limit: o.Limit, Attempts: o.Attempts, TTL: o.TTL})
	if err == nil {
		s.Note(ctx, r.Count, "respawn dead jobs of queue %s", name)
	}
	return Count{Jobs: r.Count}, err
}
