package history

import (
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Meter tells what was added to the figures of the engine since it was last asked. It is for one goroutine.
type Meter struct {
	Engine   *engine.Engine
	DoorName func(job.Door) string

	all      [job.CounterCount]uint64
	commands map[Name]Figures
	times    map[timesKey]*engine.Times // nil: it was not asked yet
}

// timesKey tells apart what the engine keeps times of.
type timesKey struct {
	row    uint64 // of its queue
	door   job.Door
	typ    string
	others bool
}

// Reading is what was added. Something to which nothing has happened is not in it.
type Reading struct {
	Parts map[Name]*Figures
	Sums  job.Sums // of all queues, now
}

// Of returns what was added to something.
func (r *Reading) Of(name Name) *Figures {
	if f := r.Parts[name]; f != nil {
		return f
	}
	return new(Figures)
}

func (r *Reading) add(name Name, f *Figures) {
	if f.empty() {
		return
	}
	if r.Parts[name] == nil {
		r.Parts[name] = new(Figures)
	}
	r.Parts[name].Add(f)
}

// Read asks the engine, which tells what has changed: the number of queues does not matter. The first time only tells
// where the figures stand. What a queue that was removed had since the last time is left out of all waiting and running
// times, and one that is made again begins at zero.
func (m *Meter) Read() (*Reading, error) {
	a, err := m.Engine.Activity()
	if err != nil {
		return nil, err
	}
	r := &Reading{Parts: map[Name]*Figures{}, Sums: a.Sums}
	first := m.times == nil
	added := a.All
	for c, n := range m.all {
		added[c] -= n
	}
	m.all = a.All
	r.count(Name{}, &added)
	for i := range a.Queues {
		q := &a.Queues[i]
		r.count(Name{Namespace: q.Namespace, Queue: q.Queue}, &q.Added)
	}
	m.readTimes(r)
	m.readCommands(r)
	if first {
		clear(r.Parts)
	}
	return r, nil
}

// count adds what counters tell.
func (r *Reading) count(name Name, c *[job.CounterCount]uint64) {
	r.add(name, &Figures{
		Pushed: c[job.CountPushed], Fetched: c[job.CountFetched], Acked: c[job.CountAcked], Failed: c[job.CountFailed],
		Died: c[job.CountDied], Expired: c[job.CountExpired],
	})
}

// readTimes adds how long jobs waited and ran.
func (m *Meter) readTimes(r *Reading) {
	now := make(map[timesKey]*engine.Times, len(m.times))
	m.Engine.EachQueueFigures(func(q *engine.QueueFigures) {
		for i := range q.Types {
			t := &q.Types[i]
			key := timesKey{q.Row, q.Door, t.Type, t.Others}
			before := m.times[key]
			if before != nil && before.Wait.Count == t.Wait.Count && before.Run.Count == t.Run.Count {
				now[key] = before
				continue
			}
			after, added := t.Times, t.Times
			now[key] = &after
			if before != nil {
				added.Sub(before)
			}
			waits := Figures{Wait: &added.Wait}
			r.add(Name{}, &waits)
			if !q.Others {
				r.add(Name{Namespace: q.Namespace, Queue: q.Queue}, &waits)
			}
			if t.Type != "" {
				r.add(Name{Type: t.Type}, &Figures{
					Fetched: added.Wait.Count, Acked: added.Run.Count - added.Failed, Failed: added.Failed,
					Wait: &added.Wait, Run: &added.Run,
				})
			}
			waits.Fetched = added.Wait.Count
			r.add(Name{Protocol: m.DoorName(q.Door)}, &waits)
		}
	})
	m.times = now
}

// readCommands adds what was asked for through each protocol. A command that pushes several jobs counts once.
func (m *Meter) readCommands(r *Reading) {
	now := map[Name]Figures{}
	for _, c := range m.Engine.Commands() {
		name := Name{Protocol: m.DoorName(c.Door)}
		f, ok := now[name], c.Outcomes[engine.OutcomeOK]
		switch c.Verb { //nolint:exhaustive // only what is pushed and settled counts here
		case job.VerbPush, job.VerbRun, job.VerbAtomic:
			f.Pushed += ok
		case job.VerbAck:
			f.Acked += ok
		case job.VerbFail:
			f.Failed += ok
		default:
		}
		now[name] = f
	}
	for name, f := range now {
		before := m.commands[name]
		added := Figures{
			Pushed: f.Pushed - before.Pushed, Acked: f.Acked - before.Acked,
			Failed: f.Failed - before.Failed,
		}
		r.add(name, &added)
	}
	m.commands = now
}
