package operator

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
	"millrace/internal/history"
	"millrace/internal/job"
)

const (
	busiestMax = 100
	// sampleShare keeps the reading of counters to a twentieth of the time, however much happens.
	sampleShare = 20
	// sampleLate is how long that may put a sample off: while the disk is slow, people look at these figures.
	sampleLate = 15 * time.Second
	streamMax  = 64
)

// sampler asks now and then what has happened, for everybody who watches and for the history.
type sampler struct {
	s *Service

	// Owned by the goroutine of run.
	at       time.Time // of the sample before; zero: there is none
	meter    history.Meter
	recorder history.Recorder
	watch    watcher
	asked    chan chan error // for a sample now

	mu      sync.Mutex // guards what follows
	latest  *api.Sample
	read    *history.Reading // that latest is made of
	text    []byte           // latest as JSON
	changed chan struct{}    // closed with the next sample
	streams int
}

func (sm *sampler) init(s *Service) {
	sm.s, sm.changed, sm.asked = s, make(chan struct{}), make(chan chan error)
	sm.meter, sm.recorder = history.Meter{
		Engine:   s.engine,
		DoorName: s.opts.DoorName,
	}, history.Recorder{Engine: s.engine}
	sm.watch.init(s)
}

// run takes samples until ctx ends. The first only tells where the counters stand.
func (sm *sampler) run(ctx context.Context) {
	now := sm.s.opts.Now()
	if err := errors.Join(sm.recorder.Load(now), sm.watch.load()); err != nil {
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
			if err := sm.recorder.Flush(context.WithoutCancel(ctx)); err != nil {
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

// take takes one sample.
func (sm *sampler) take(ctx context.Context, now time.Time) error {
	read, err := sm.meter.Read()
	if err != nil {
		return api.Refusal(err)
	}
	all, counts, seconds := read.Of(history.Name{}), countsOf(&read.Sums.Counts), 0.0
	if !sm.at.IsZero() {
		seconds = now.Sub(sm.at).Seconds()
	}
	kept := sm.recorder.Add(ctx, now, read, counts) // first, because what was read is not told again
	sm.at = now
	busy, err := sm.busy(read, seconds)
	if err != nil {
		return err
	}
	concerns, err := sm.watch.concerns(now, all.Died, busy)
	if err != nil {
		return err
	}
	sm.publish(&api.Sample{
		At: now.UTC(), Seconds: seconds, Rates: rateOf(all, seconds), Counts: counts, Queues: int(read.Sums.Queues), //nolint:gosec // a number of queues
		Waiting: sm.s.engine.Stats().Waiters, Wait: waitOf(all.Wait), Protocols: sm.protocols(read, seconds),
		Busiest: busy, Concerns: concerns,
	}, read)
	return kept
}

// protocols returns what happened through each protocol, in the order of doors.
func (sm *sampler) protocols(read *history.Reading, seconds float64) []api.ProtocolSample {
	out := []api.ProtocolSample{}
	for door := range job.Door(engine.DoorCount) {
		name := history.Name{Protocol: sm.s.opts.DoorName(door)}
		if f := read.Parts[name]; f != nil {
			out = append(out, api.ProtocolSample{
				Protocol: name.Protocol, Rates: rateOf(f, seconds),
				Wait: waitOf(f.Wait),
			})
		}
	}
	return out
}

// busy returns the queues where most has happened, with how they stand now.
func (sm *sampler) busy(read *history.Reading, seconds float64) ([]api.QueueSample, error) {
	names := make([]history.Name, 0, len(read.Parts))
	for name := range read.Parts {
		if name.Queue != "" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b history.Name) int {
		return cmp.Or(cmp.Compare(read.Of(b).Work(), read.Of(a).Work()), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Queue, b.Queue))
	})
	out := make([]api.QueueSample, min(len(names), busiestMax))
	err := sm.s.view(func(v *engine.View) error {
		for i, name := range names[:len(out)] {
			q, _, err := v.Queue(name.Namespace, name.Queue)
			if err != nil {
				return err
			}
			f := read.Of(name)
			out[i] = api.QueueSample{
				Namespace: name.Namespace, Name: name.Queue, Rates: rateOf(f, seconds),
				Ready: q.Counts[job.Ready], Running: q.Counts[job.Leased], Wait: waitOf(f.Wait),
			}
		}
		return nil
	})
	return out, err
}

func rateOf(f *history.Figures, seconds float64) api.Rates {
	if seconds <= 0 {
		return api.Rates{}
	}
	return api.Rates{
		Pushed: float64(f.Pushed) / seconds, Fetched: float64(f.Fetched) / seconds, Acked: float64(f.Acked) / seconds,
		Failed: float64(f.Failed) / seconds,
	}
}

// publish hands a sample to everybody.
func (sm *sampler) publish(sample *api.Sample, read *history.Reading) {
	text, err := json.Marshal(sample)
	if err != nil {
		panic("operator: a sample cannot be written: " + err.Error()) // it holds texts and finite numbers only
	}
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.latest, sm.text, sm.read = sample, text, read
	close(sm.changed)
	sm.changed = make(chan struct{})
}

// rates returns what happens in a queue.
func (sm *sampler) rates(namespace, name string) api.Rates {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	if sm.latest == nil {
		return api.Rates{}
	}
	return rateOf(sm.read.Of(history.Name{Namespace: namespace, Queue: name}), sm.latest.Seconds)
}

// Live returns the latest sample; zero before the first.
func (s *Service) Live() api.Sample {
	s.sampler.mu.Lock()
	defer s.sampler.mu.Unlock()
	if s.sampler.latest == nil {
		return api.Sample{
			Counts: countsOf(new([job.StateCount]uint64)), Busiest: []api.QueueSample{},
			Protocols: []api.ProtocolSample{}, Concerns: []api.Concern{},
		}
	}
	out := *s.sampler.latest
	out.Counts, out.Busiest, out.Protocols = maps.Clone(out.Counts), slices.Clone(out.Busiest),
		slices.Clone(out.Protocols)
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
