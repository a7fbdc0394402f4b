package operator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/history"
	"millrace/internal/job"
)

const (
	// watchQueues is how many queues are looked at with one sample. With more it takes several to have seen all.
	watchQueues = 1000
	// watchKept bounds how many queues are remembered for one concern.
	watchKept = 100

	// A wait is unusual if it is longer than a minute, and this many times as long as 95 of 100 jobs of the queue
	// waited in the last hour.
	waitLong  = time.Minute
	waitTimes = 3
	// usualEvery is how often it is looked up how long that was.
	usualEvery = time.Minute

	// spaceLow is how many times store.free_floor is little.
	spaceLow = 2
)

// watcher looks for concerns. It is owned by the sampler's goroutine.
type watcher struct {
	s      *Service
	at     position // in the list of queues
	round  int      // of looking at all of them
	slow   map[queueName]watched
	paused map[queueName]watched

	usual   map[queueName]float64 // p95 in seconds
	usualAt time.Time

	died   [60]uint64 // by minute of the hour
	minute int64      // the newest of them
}

type queueName struct{ namespace, name string }

// watched is a queue that was found.
type watched struct {
	round   int
	seconds float64
}

func (w *watcher) init(s *Service) {
	w.s, w.at, w.slow, w.paused = s, position{List: "queues"}, make(map[queueName]watched), make(map[queueName]watched)
}

// load takes up how many jobs have died in the last hour.
func (w *watcher) load() error {
	past, err := w.s.History(history.All[0].Name)
	for i := range past.Points {
		w.count(past.Points[i].At, past.Points[i].Died)
	}
	return err
}

// count adds jobs that have died.
func (w *watcher) count(at time.Time, died uint64) {
	minute := at.Unix() / 60
	for m := max(w.minute+1, minute-int64(len(w.died))+1); m <= minute; m++ {
		w.died[m%int64(len(w.died))] = 0
	}
	w.minute = max(w.minute, minute)
	w.died[minute%int64(len(w.died))] += died
}

// look goes on with the list of queues.
func (w *watcher) look(v *engine.View) error {
	infos, more, err := queuesFrom(v, api.QueueFilter{}, &w.at, watchQueues)
	if err != nil {
		return err
	}
	now := w.s.engine.Now()
	for i := range infos {
		if err := w.judge(v, &infos[i], now); err != nil {
			return err
		}
	}
	if !more { // all have been seen: those that were not are gone
		for _, list := range []map[queueName]watched{w.slow, w.paused} {
			for name, seen := range list {
				if seen.round != w.round {
					delete(list, name)
				}
			}
		}
		w.round++
		w.at = position{List: w.at.List}
	}
	return nil
}

// lookAt looks at some queues out of turn: those to which most happens are to be known of at once.
func (w *watcher) lookAt(v *engine.View, busy []api.QueueSample) error {
	now := w.s.engine.Now()
	for i := range busy {
		q, ok, err := v.Queue(busy[i].Namespace, busy[i].Name)
		if err == nil && ok {
			err = w.judge(v, &q, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judge finds out whether jobs of a queue wait unusually long, and whether it is paused.
func (w *watcher) judge(v *engine.View, q *job.QueueInfo, now job.Time) error {
	name := queueName{q.Namespace, q.Name}
	if q.Counts[job.Ready] > 0 && !q.Paused {
		if err := v.OldestReady(q); err != nil {
			return err
		}
	}
	age := 0.0
	if q.OldestReady != 0 {
		age = now.Sub(q.OldestReady).Seconds()
	}
	w.note(w.slow, name, age > max(waitLong.Seconds(), waitTimes*w.usual[name]), age)
	w.note(w.paused, name, q.Paused, 0)
	return nil
}

func (w *watcher) note(list map[queueName]watched, name queueName, is bool, seconds float64) {
	if _, known := list[name]; !is {
		delete(list, name)
	} else if known || len(list) < watchKept {
		list[name] = watched{w.round, seconds}
	}
}

// concerns returns what there is to look at, the worst first.
func (w *watcher) concerns(now time.Time, died uint64, busy []api.QueueSample) ([]api.Concern, error) {
	w.count(now, died)
	if now.Sub(w.usualAt) >= usualEvery {
		w.usualAt, w.usual = now, make(map[queueName]float64)
		past, err := w.s.Parts(history.Parts[0].Name)
		if err != nil {
			w.s.log.Warn("cannot read how long jobs usually wait", slog.Any("error", err))
		}
		for i := range past.Queues {
			if q := &past.Queues[i]; q.Wait != nil {
				w.usual[queueName{q.Namespace, q.Name}] = q.Wait.P95
			}
		}
	}
	if err := w.s.view(func(v *engine.View) error { return errors.Join(w.lookAt(v, busy), w.look(v)) }); err != nil {
		return nil, err
	}
	out := append([]api.Concern{}, w.space()...)
	if c := worst(w.slow); c != nil {
		c.Kind = api.ConcernWaiting
		c.About = fmt.Sprintf("Jobs of queue %s have waited for %s%s.", c.Queue,
			roughly(w.slow[queueName{c.Namespace, c.Queue}].seconds), andMore(len(w.slow)))
		out = append(out, *c)
	}
	var sum uint64
	for _, n := range w.died {
		sum += n
	}
	if sum > 0 {
		out = append(out, api.Concern{
			Kind:  api.ConcernDied,
			About: fmt.Sprintf("%d %s died in the last hour.", sum, plural(sum, "job has", "jobs have")),
		})
	}
	if c := worst(w.paused); c != nil {
		c.Kind, c.About = api.ConcernPaused, fmt.Sprintf("Queue %s is paused%s.", c.Queue, andMore(len(w.paused)))
		out = append(out, *c)
	}
	return out, nil
}

// worst names the queue of a list whose jobs wait longest, or the first by name.
func worst(list map[queueName]watched) *api.Concern {
	names := make([]queueName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	first := slices.MinFunc(names, func(a, b queueName) int {
		return cmp.Or(cmp.Compare(list[b].seconds, list[a].seconds), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.name, b.name))
	})
	return &api.Concern{Namespace: first.namespace, Queue: first.name}
}

// andMore tells of the other queues of a list.
func andMore(n int) string {
	switch {
	case n <= 1:
		return ""
	case n >= watchKept:
		return fmt.Sprintf(" (and at least %d more queues)", n-1)
	}
	return fmt.Sprintf(" (and %d more %s)", n-1, plural(uint64(n-1), "queue", "queues"))
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// roughly shows a number of seconds in its largest unit.
func roughly(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 2*86400:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

// space tells whether the disk is nearly full.
func (w *watcher) space() []api.Concern {
	floor := w.s.opts.FreeFloor
	if floor == 0 || w.s.opts.FreeBytes == nil {
		return nil
	}
	free, err := w.s.opts.FreeBytes()
	switch {
	case err != nil:
		return nil
	case w.s.engine.Stats().NoSpace || free < floor:
		return []api.Concern{{
			Kind: api.ConcernSpace, Severe: true,
			About: fmt.Sprintf("The disk is full: %d MiB are free, and under store.free_floor (%d MiB) pushes are "+
				"refused.", free>>20, floor>>20),
		}}
	case free < spaceLow*floor:
		return []api.Concern{{
			Kind: api.ConcernSpace,
			About: fmt.Sprintf("The disk is nearly full: %d MiB are free, and under store.free_floor (%d MiB) pushes "+
				"are refused.", free>>20, floor>>20),
		}}
	}
	return nil
}
