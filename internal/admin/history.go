package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// resolution is one of the rings of the history: so many slots of so long.
type resolution struct {
	name  string
	step  time.Duration
	slots int64
}

// resolutions are all of them: an hour, a day and a month.
var resolutions = [...]resolution{
	{"10s", 10 * time.Second, 360},
	{"1m", time.Minute, 1440},
	{"1h", time.Hour, 720},
}

// historySpace is where the slots are kept, under the resolution and their place in the ring.
const historySpace = "admin.history"

// Point is what happened in one slot of the history, and how many jobs there were at its end.
type Point struct {
	At      time.Time `json:"at"` // when the slot began
	Pushed  uint64    `json:"pushed"`
	Fetched uint64    `json:"fetched"`
	Acked   uint64    `json:"acked"`
	Failed  uint64    `json:"failed"`
	Died    uint64    `json:"died"`
	Expired uint64    `json:"expired"`
	Wait    *Wait     `json:"wait,omitempty"`
	Run     *Wait     `json:"run,omitempty"` // only of a type of jobs
	// Counts are the jobs by state, of all queues together.
	Counts map[string]uint64 `json:"counts,omitempty"`

	wait timing.Histogram // Wait while the slot is not over
}

func (p *Point) add(t *tally, counts map[string]uint64, wait *timing.Histogram) {
	for i, at := range []*uint64{&p.Pushed, &p.Fetched, &p.Acked, &p.Failed, &p.Died, &p.Expired} {
		*at += t[i]
	}
	p.Counts = counts
	if wait.Count > 0 {
		p.wait.Add(wait)
		p.Wait = waitOf(&p.wait)
	}
}

// history collects the slots that are not over yet. It is owned by the sampler's goroutine.
type history struct {
	engine *engine.Engine
	open   [len(resolutions)]*Point
}

func (r *resolution) begin(at time.Time) time.Time { return at.UTC().Truncate(r.step) }

// name of the slot that a time falls into.
func (r *resolution) slot(at time.Time) string {
	return fmt.Sprintf("%s/%04d", r.name, (at.Unix()/int64(r.step/time.Second))%r.slots)
}

// load takes up the slots that a server that stopped a moment ago has left.
func (h *history) load(now time.Time) error {
	for i := range resolutions {
		r := &resolutions[i]
		value, ok, err := h.engine.Value(historySpace, r.slot(now))
		if err != nil {
			return err
		}
		var p Point
		if ok && json.Unmarshal(value, &p) == nil && p.At.Equal(r.begin(now)) {
			h.open[i] = &p
		}
	}
	return nil
}

// add counts a sample, and returns the commands that keep the slots that are over.
func (h *history) add(now time.Time, t tally, counts *[job.StateCount]uint64, wait *timing.Histogram) []job.Command {
	var over []job.Command
	names := countsOf(counts)
	for i := range resolutions {
		r := &resolutions[i]
		begin := r.begin(now)
		if p := h.open[i]; p != nil && !p.At.Equal(begin) {
			over = append(over, r.write(p))
			h.open[i] = nil
		}
		if h.open[i] == nil {
			h.open[i] = &Point{At: begin}
		}
		h.open[i].add(&t, names, wait)
	}
	return over
}

// flush returns the commands that keep the slots that are not over, so that a restart can take them up. How long jobs
// waited in them begins anew.
func (h *history) flush() []job.Command {
	var all []job.Command
	for i := range resolutions {
		if p := h.open[i]; p != nil {
			all = append(all, resolutions[i].write(p))
		}
	}
	return all
}

func (r *resolution) write(p *Point) job.Command {
	value, err := json.Marshal(p)
	if err != nil {
		panic("admin: a point of the history cannot be written: " + err.Error()) // it holds a time and numbers
	}
	return &job.SetValue{Space: historySpace, Name: r.slot(p.At), Value: value}
}

func (h *history) keep(ctx context.Context, cmds []job.Command) error {
	if len(cmds) == 0 {
		return nil
	}
	var errs []error
	for _, r := range h.engine.NewCaller().Do(ctx, cmds...) {
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	return errors.Join(errs...)
}

// History is what happened lately, in slots of one length, the oldest first. Slots in which the
// server did not run are not there.
type History struct {
	Resolution string  `json:"resolution"`
	Seconds    float64 `json:"seconds"` // length of a slot
	Points     []Point `json:"points"`
}

// History returns a ring of the history: "10s" is the last hour, "1m" the last day, "1h" the last
// month. The slot that is not over is not in it.
func (s *Service) History(name string) (History, error) {
	i := slices.IndexFunc(resolutions[:], func(r resolution) bool { return r.name == name })
	if i < 0 {
		return History{}, api.Invalid("resolution: %q is none of 10s, 1m and 1h", name)
	}
	r := &resolutions[i]
	out := History{Resolution: name, Seconds: r.step.Seconds(), Points: []Point{}}
	values, err := s.engine.Values(historySpace, name+"/", int(r.slots))
	if err != nil {
		return out, api.Refusal(err)
	}
	now := s.opts.Now()
	oldest := now.Add(-r.step * time.Duration(r.slots))
	for _, v := range values {
		var p Point
		if !strings.HasPrefix(v.Name, name+"/") || json.Unmarshal(v.Value, &p) != nil {
			continue
		}
		if p.At.After(oldest) && p.At.Before(r.begin(now)) {
			out.Points = append(out.Points, p)
		}
	}
	slices.SortFunc(out.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	return out, nil
}
