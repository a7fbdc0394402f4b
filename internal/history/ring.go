package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Ring is a ring of slots in the store.
type Ring struct {
	Name  string
	Step  time.Duration // length of a slot
	slots int64
	space string // under which its slots are kept, by its name and their place
}

const (
	spaceAll   = "admin.history"
	spaceParts = "admin.parts"
)

// All are the rings of everything together, and Parts those of protocols, types and queues: an hour, a day and a month.
// A slot of the latter holds much more, so they have fewer and longer ones, with the busiest queues and types only.
var (
	All = []Ring{
		{"10s", 10 * time.Second, 360, spaceAll}, {"1m", time.Minute, 1440, spaceAll}, {"1h", time.Hour, 720, spaceAll},
	}
	Parts = []Ring{
		{"hour", time.Minute, 60, spaceParts},
		{"day", 15 * time.Minute, 96, spaceParts},
		{"month", 6 * time.Hour, 120, spaceParts},
	}
)

// Find returns the ring with a name; nil: there is none.
func Find(rings []Ring, name string) *Ring {
	if i := slices.IndexFunc(rings, func(r Ring) bool { return r.Name == name }); i >= 0 {
		return &rings[i]
	}
	return nil
}

func (r *Ring) begin(at time.Time) time.Time { return at.UTC().Truncate(r.Step) }

// key is the name under which the slot that a time falls into is kept.
func (r *Ring) key(at time.Time) string {
	return fmt.Sprintf("%s/%04d", r.Name, at.Unix()/int64(r.Step/time.Second)%r.slots)
}

// write returns the command that keeps a slot.
func (r *Ring) write(s *Slot) job.Command {
	out := *s
	if r.space == spaceParts {
		out.Parts = slices.Concat(s.Busiest())
	}
	value, err := json.Marshal(out)
	if err != nil {
		panic("history: a slot cannot be written: " + err.Error()) // it holds texts, a time and numbers
	}
	return &job.SetValue{Space: r.space, Name: r.key(s.At), Value: value}
}

// Slots returns the slots of the ring that are over, the oldest first. Those in which the server did not run are not
// there.
func (r *Ring) Slots(e *engine.Engine, now time.Time) ([]Slot, error) {
	values, err := e.Values(r.space, r.Name+"/", int(r.slots))
	if err != nil {
		return nil, err
	}
	slots := make([]Slot, 0, len(values))
	oldest := now.Add(-r.Step * time.Duration(r.slots))
	for _, v := range values {
		s, ok := decode(v.Value)
		if ok && strings.HasPrefix(v.Name, r.Name+"/") && s.At.After(oldest) && s.At.Before(r.begin(now)) {
			slots = append(slots, s)
		}
	}
	slices.SortFunc(slots, func(a, b Slot) int { return a.At.Compare(b.At) })
	return slots, nil
}

// Recorder adds readings to the slots that are not over, and keeps those that are. It is for one goroutine.
type Recorder struct {
	Engine *engine.Engine
	open   map[*Ring]*Slot
}

// eachRing visits all rings.
func eachRing(visit func(*Ring)) {
	for _, rings := range [][]Ring{All, Parts} {
		for i := range rings {
			visit(&rings[i])
		}
	}
}

// Load takes up the slots that a server that stopped a moment ago has left.
func (c *Recorder) Load(now time.Time) error {
	c.open = map[*Ring]*Slot{}
	var errs []error
	eachRing(func(r *Ring) {
		value, ok, err := c.Engine.Value(r.space, r.key(now))
		errs = append(errs, err)
		if s, read := decode(value); ok && read && s.At.Equal(r.begin(now)) {
			sum := Sum([]Slot{s})
			sum.At, sum.Counts = s.At, s.Counts
			c.open[r] = &sum
		}
	})
	return errors.Join(errs...)
}

// Add counts a reading and how many jobs there are in each state, and keeps the slots that are over.
func (c *Recorder) Add(ctx context.Context, now time.Time, read *Reading, counts map[string]uint64) error {
	var over []job.Command
	eachRing(func(r *Ring) {
		begin := r.begin(now)
		s := c.open[r]
		if s != nil && !s.At.Equal(begin) {
			over = append(over, r.write(s))
			s = nil
		}
		if s == nil {
			s = &Slot{At: begin}
			c.open[r] = s
		}
		if r.space == spaceAll {
			s.add(Name{}, read.Of(Name{}))
			s.Counts = counts
			return
		}
		for name, f := range read.Parts {
			if name != (Name{}) {
				s.add(name, f)
			}
		}
	})
	return c.keep(ctx, over)
}

// Flush keeps the slots that are not over, so that a restart can take them up.
func (c *Recorder) Flush(ctx context.Context) error {
	var all []job.Command
	for r, s := range c.open {
		all = append(all, r.write(s))
	}
	return c.keep(ctx, all)
}

func (c *Recorder) keep(ctx context.Context, cmds []job.Command) error {
	if len(cmds) == 0 {
		return nil
	}
	var errs []error
	for _, r := range c.Engine.NewCaller().Do(ctx, cmds...) {
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	return errors.Join(errs...)
}
