package admin

import (
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// Wait tells how long jobs waited, from when they were ready until they were fetched. Quantiles are as exact as
// the buckets that they are counted in: a fifth too long at most.
type Wait struct {
	Jobs uint64  `json:"jobs"` // that were fetched
	Mean float64 `json:"mean_seconds"`
	P50  float64 `json:"p50_seconds"`
	P95  float64 `json:"p95_seconds"`
}

// waitOf sums a histogram up; nil if nothing was counted.
func waitOf(h *timing.Histogram) *Wait {
	if h == nil || h.Count == 0 {
		return nil
	}
	return &Wait{Jobs: h.Count, Mean: h.Mean().Seconds(), P50: h.Quantile(0.5).Seconds(), P95: h.Quantile(0.95).Seconds()}
}

// meter tells what was added to the figures of the engine since it was last asked. It is owned by the sampler's
// goroutine.
type meter struct {
	engine   *engine.Engine
	waits    map[waitKey]*timing.Histogram
	commands map[job.Door]tally
}

// waitKey tells apart what the engine keeps times of.
type waitKey struct {
	queueName
	others bool
	door   job.Door
}

// metered is what was added.
type metered struct {
	all    timing.Histogram
	queues map[queueName]*timing.Histogram
	doors  map[job.Door]*doorFigures
}

// doorFigures is what came through one door.
type doorFigures struct {
	tally tally
	wait  timing.Histogram
}

func (m *metered) door(d job.Door) *doorFigures {
	if m.doors[d] == nil {
		m.doors[d] = new(doorFigures)
	}
	return m.doors[d]
}

// read asks the engine. What a queue that was removed had since the last time is left out, and one that is made
// again begins anew.
func (mt *meter) read() *metered {
	m := &metered{queues: map[queueName]*timing.Histogram{}, doors: map[job.Door]*doorFigures{}}
	now := make(map[waitKey]*timing.Histogram, len(mt.waits))
	mt.engine.EachQueue(func(q *engine.QueueFigures) {
		key := waitKey{queueName{q.Namespace, q.Queue}, q.Others, q.Door}
		before, after := mt.waits[key], new(timing.Histogram)
		for i := range q.Types {
			after.Add(&q.Types[i].Wait)
		}
		now[key] = after
		if after.Count == 0 || before != nil && before.Count == after.Count && before.Sum == after.Sum {
			return
		}
		added := *after
		if before != nil && before.Count < added.Count {
			added.Sub(before)
		}
		m.all.Add(&added)
		m.door(q.Door).wait.Add(&added)
		if q.Others {
			return
		}
		if m.queues[key.queueName] == nil {
			m.queues[key.queueName] = new(timing.Histogram)
		}
		m.queues[key.queueName].Add(&added)
	})
	mt.waits = now
	mt.readCommands(m)
	return m
}

// readCommands counts what was asked through each door. A command that pushes several jobs counts once.
func (mt *meter) readCommands(m *metered) {
	now := make(map[job.Door]tally, len(mt.commands))
	for _, f := range mt.engine.Commands() {
		t, ok := now[f.Door], f.Outcomes[engine.OutcomeOK]
		switch f.Verb { //nolint:exhaustive // only what is pushed and settled counts here
		case job.VerbPush, job.VerbRun, job.VerbAtomic:
			t[tallyPushed] += ok
		case job.VerbAck:
			t[tallyAcked] += ok
		case job.VerbFail:
			t[tallyFailed] += ok
		default:
		}
		now[f.Door] = t
	}
	for door, t := range now {
		if d := t.since(mt.commands[door]); d != (tally{}) {
			m.door(door).tally = d
		}
	}
	for _, d := range m.doors {
		d.tally[tallyFetched] = d.wait.Count
	}
	mt.commands = now
}

// ProtocolSample is what happened through a protocol. A command that pushes several jobs at once counts as one.
type ProtocolSample struct {
	Protocol string `json:"protocol"`
	Rates    Rates  `json:"rates"`
	Wait     *Wait  `json:"wait,omitempty"`
}

// protocols turns the figures of doors into samples, in the order of doors.
func (s *Service) protocols(m *metered, seconds float64) []ProtocolSample {
	out := []ProtocolSample{}
	for door := range engine.DoorCount {
		if d := m.doors[job.Door(door)]; d != nil && seconds > 0 {
			out = append(out, ProtocolSample{s.opts.DoorName(job.Door(door)), rateOf(d.tally, seconds), waitOf(&d.wait)})
		}
	}
	return out
}
