package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Rates are how much happens in a second.
type Rates struct {
	Pushed  float64 `json:"pushed"`
	Fetched float64 `json:"fetched"`
	Acked   float64 `json:"acked"`
	Failed  float64 `json:"failed"`
}

func (r Rates) sum() float64 { return r.Pushed + r.Fetched + r.Acked + r.Failed }

// Sample is what happened in the last moments.
type Sample struct {
	At      time.Time         `json:"at"`
	Seconds float64           `json:"seconds"` // that the rates are of
	Rates   Rates             `json:"rates"`
	Counts  map[string]uint64 `json:"counts"`  // jobs by state
	Queues  int               `json:"queues"`  // how many there are
	Waiting int               `json:"waiting"` // callers that wait for something
	Wait    *Wait             `json:"wait,omitempty"`
	// Protocols are those through which something happened.
	Protocols []ProtocolSample `json:"protocols"`
	// Busiest are the queues where most happened, at most busiestMax, the busiest first.
	Busiest []QueueSample `json:"busiest"`
	// Concerns are what an operator should look at, the worst first.
	Concerns []Concern `json:"concerns"`
}

// QueueSample is what happened in a queue.
type QueueSample struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rates     Rates  `json:"rates"`
	Ready     uint64 `json:"ready"`
	Running   uint64 `json:"running"`
	Wait      *Wait  `json:"wait,omitempty"`
}

const (
	busiestMax = 100
	// sampleShare keeps the reading of counters to a twentieth of the time, however much happens.
	sampleShare = 20
	// sampleLate is how long that may put a sample off: while the disk is slow, people look at these figures.
	sampleLate = 15 * time.Second
	streamMax  = 64
)

// counted are the counters that samples and history are made of.
var counted = [...]job.Counter{job.CountPushed, job.CountFetched, job.CountAcked, job.CountFailed, job.CountDied, job.CountExpired}

// The places of some of them.
const (
	tallyPushed = iota
	tallyFetched
	tallyAcked
	tallyFailed
	tallyDied
)

// tally are the values of the counted counters.
type tally [len(counted)]uint64

func tallyOf(totals *[job.CounterCount]uint64) (t tally) {
	for i, c := range counted {
		t[i] = totals[c]
	}
	return t
}

func (t tally) plus(u tally) tally {
	for i := range t {
		t[i] += u[i]
	}
	return t
}

// since returns what was added. Counters that have begun anew count from zero.
func (t tally) since(before tally) (d tally) {
	for i := range t {
		if t[i] >= before[i] {
			d[i] = t[i] - before[i]
		} else {
			d[i] = t[i]
		}
	}
	return d
}

func (t tally) rates(seconds float64) Rates {
	return Rates{
		Pushed: float64(t[tallyPushed]) / seconds, Fetched: float64(t[tallyFetched]) / seconds, Acked: float64(t[tallyAcked]) / seconds,
		Failed: float64(t[tallyFailed]) / seconds,
	}
}

type queueName struct{ namespace, name string }

// sampler asks now and then what has happened, for everybody who watches and for the history.
type sampler struct {
	s       *Service
	history history

	// Owned by the goroutine of run.
	before tally     // what had happened by the sample before
	at     time.Time // when that was; zero: there is none
	meter  meter
	parts  partsHistory
	types  typeMeter
	watch  watcher
	asked  chan chan error // for a sample now

	mu      sync.Mutex          // guards what follows
	added   map[queueName]tally // in the latest
	latest  *Sample
	text    []byte        // latest as JSON
	changed chan struct{} // closed with the next sample
	streams int
}

func (sm *sampler) init(s *Service) {
	sm.s, sm.changed, sm.asked = s, make(chan struct{}), make(chan chan error)
	sm.history.engine, sm.parts.engine, sm.meter.engine, sm.types.engine = s.engine, s.engine, s.engine, s.engine
	sm.watch.init(s)
}

// run takes samples until ctx ends. The first only tells where the counters stand.
func (sm *sampler) run(ctx context.Context) {
	now := sm.s.opts.Now()
	if err := errors.Join(sm.history.load(now), sm.parts.load(now), sm.watch.load()); err != nil {
		sm.s.log.Warn("cannot read the history", slog.Any("error", err))
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			if sm.s.engine.Err() != nil {
				return // which has told why
			}
			sm.parts.each(sm.types.last())
			if err := sm.history.keep(context.WithoutCancel(ctx), append(sm.history.flush(), sm.parts.flush()...)); err != nil {
				sm.s.log.Warn("cannot keep the history", slog.Any("error", err))
			}
			return
		case answer := <-sm.asked:
			answer <- sm.take(ctx, sm.s.opts.Now())
			continue
		case <-wait.C:
		}
		began := time.Now()
		if err := sm.take(ctx, sm.s.opts.Now()); err != nil && sm.s.engine.Err() == nil {
			if p, _ := api.AsProblem(err); p.Type != api.ProblemDraining.New("").Type {
				sm.s.log.Warn("cannot read the counters of queues", slog.Any("error", err))
			}
		}
		wait.Reset(max(sm.s.opts.SampleEvery, min(sampleShare*time.Since(began), sampleLate)))
	}
}

// Sample takes a sample now, besides those that are taken every now and then.
func (s *Service) Sample(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case s.sampler.asked <- answer:
		return <-answer
	case <-s.drained:
		return api.ProblemDraining.New("the server is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take takes one sample. The engine tells what has changed, so that the number of queues does not matter.
func (sm *sampler) take(ctx context.Context, now time.Time) error {
	seconds := now.Sub(sm.at).Seconds()
	first := sm.at.IsZero()
	times := sm.meter.read()
	a, err := sm.s.engine.Activity()
	if err != nil {
		return api.Refusal(err)
	}
	done := tallyOf(&a.All)
	all := done.since(sm.before)
	if first {
		times, a.Queues, all, seconds = &metered{}, nil, tally{}, 0
	}
	added := addedTo(a.Queues)
	busy, err := sm.busy(added, times, seconds)
	if err != nil {
		return err
	}
	concerns, err := sm.watch.concerns(now, all[tallyDied], busy)
	if err != nil {
		return err
	}
	sm.at, sm.before = now, done
	sm.publish(&Sample{
		At: now.UTC(), Seconds: seconds, Rates: rateOf(all, seconds), Counts: countsOf(&a.Sums.Counts), Queues: int(a.Sums.Queues), //nolint:gosec // a number of queues
		Waiting: sm.s.engine.Stats().Waiters, Wait: waitOf(&times.all), Protocols: sm.s.protocols(times, seconds), Busiest: busy, Concerns: concerns,
	}, added)
	over := sm.history.add(now, all, &a.Sums.Counts, &times.all)
	over = append(over, sm.parts.add(now, func(slot *partsSlot) { sm.s.countParts(slot, times, added) }, sm.types.last())...)
	return sm.history.keep(ctx, over)
}

// addedTo returns what has happened in each queue, as far as something that is sampled has.
func addedTo(queues []engine.Active) map[queueName]tally {
	added := make(map[queueName]tally, len(queues))
	for i := range queues {
		q := &queues[i]
		if t := tallyOf(&q.Added); t != (tally{}) {
			name := queueName{q.Namespace, q.Queue}
			added[name] = added[name].plus(t)
		}
	}
	return added
}

// busy returns the queues where most has happened, with how they stand now.
func (sm *sampler) busy(added map[queueName]tally, times *metered, seconds float64) ([]QueueSample, error) {
	all := make([]QueueSample, 0, len(added))
	for name, t := range added {
		all = append(all, QueueSample{Namespace: name.namespace, Name: name.name, Rates: rateOf(t, seconds)})
	}
	out := busiest(all)
	err := sm.s.view(func(v *engine.View) error {
		for i := range out {
			q, _, err := v.Queue(out[i].Namespace, out[i].Name)
			if err != nil {
				return err
			}
			out[i].Ready, out[i].Running = q.Counts[job.Ready], q.Counts[job.Leased]
			out[i].Wait = waitOf(times.queues[queueName{out[i].Namespace, out[i].Name}])
		}
		return nil
	})
	return out, err
}

// countParts adds what happened to protocols and queues to a slot of the history.
func (s *Service) countParts(slot *partsSlot, times *metered, added map[queueName]tally) {
	for door, d := range times.doors {
		if p := slot.of(partName{protocol: s.opts.DoorName(door)}); p != nil {
			p.add(&d.tally, &d.wait)
		}
	}
	for name, t := range added {
		if p := slot.of(partName{namespace: name.namespace, queue: name.name}); p != nil {
			p.add(&t, times.queues[name])
		}
	}
}

func rateOf(t tally, seconds float64) Rates {
	if seconds <= 0 {
		return Rates{}
	}
	return t.rates(seconds)
}

func busiest(all []QueueSample) []QueueSample {
	slices.SortFunc(all, func(a, b QueueSample) int {
		return cmp.Or(cmp.Compare(b.Rates.sum(), a.Rates.sum()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	out := make([]QueueSample, min(len(all), busiestMax))
	copy(out, all)
	return out
}

// publish hands a sample to everybody.
func (sm *sampler) publish(sample *Sample, added map[queueName]tally) {
	text, err := json.Marshal(sample)
	if err != nil {
		panic("admin: a sample cannot be written: " + err.Error()) // it holds texts and finite numbers only
	}
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.latest, sm.text, sm.added = sample, text, added
	close(sm.changed)
	sm.changed = make(chan struct{})
}

// rates returns what happens in a queue.
func (sm *sampler) rates(namespace, name string) Rates {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	if sm.latest == nil {
		return Rates{}
	}
	return rateOf(sm.added[queueName{namespace, name}], sm.latest.Seconds)
}

// Live returns the latest sample; zero before the first.
func (s *Service) Live() Sample {
	s.sampler.mu.Lock()
	defer s.sampler.mu.Unlock()
	if s.sampler.latest == nil {
		return Sample{Counts: countsOf(new([job.StateCount]uint64)), Busiest: []QueueSample{}, Protocols: []ProtocolSample{}, Concerns: []Concern{}}
	}
	out := *s.sampler.latest
	out.Counts, out.Busiest, out.Protocols = maps.Clone(out.Counts), slices.Clone(out.Busiest), slices.Clone(out.Protocols)
	out.Concerns = slices.Clone(out.Concerns)
	return out
}

// Watch calls send with each sample as JSON, the latest one first, until ctx ends, the server
// stops or send fails.
func (s *Service) Watch(ctx context.Context, send func(sample []byte) error) error {
	sm := &s.sampler
	sm.mu.Lock()
	full := sm.streams >= streamMax
	if !full {
		sm.streams++
	}
	sm.mu.Unlock()
	if full {
		return api.ProblemTooMany.New("%d streams are open: close one", streamMax)
	}
	defer func() {
		sm.mu.Lock()
		sm.streams--
		sm.mu.Unlock()
	}()
	for {
		sm.mu.Lock()
		text, changed := sm.text, sm.changed
		sm.mu.Unlock()
		if text != nil {
			if err := send(text); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-s.drained:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
