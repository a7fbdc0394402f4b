//go:build linux

package faults

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// TestClockJumps sets the clock while the server is down. Nothing is lost, ids go on, and what is due at a time
// is due when the clock shows it: not earlier, however often it is set. (What happens while it runs is in
// internal/engine: its time is that of its start and what has passed since.)
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const rate, lease, delay = time.Minute, 2 * time.Minute, 3 * time.Minute
	for _, jump := range []time.Duration{
		-24 * time.Hour, -time.Hour, -10 * time.Millisecond, 10 * time.Millisecond, time.Hour, 24 * time.Hour,
	} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			t.Parallel()
			fsys := vfs.NewMem()
			since := max(-jump, 0) + time.Minute // a bubble's clock begins at the same moment each time
			var last job.ID
			var ready, rated, leased, later job.Time // when each of them can be fetched
			synctest.Test(t, func(t *testing.T) {
				testkit.Advance(t, since)
				n := open(t, fsys, memDir)
				c := n.NewCaller()
				must(t, c, push("leased", "leased"))
				must(t, c, &job.Fetch{
					Namespace: namespace, Queues: []string{"leased"}, Max: 1,
					LeaseSet: true, Lease: lease,
				})
				for queue, limits := range map[string]job.Limits{
					"rated": {Rate: 1, Per: rate, Burst: 1}, "group": {GroupRate: 1, GroupPer: rate, GroupBurst: 1},
				} {
					must(t, c, &job.SetLimits{Namespace: namespace, Queue: queue, Limits: limits})
					for range 2 { // the first uses up the rate
						p := push(queue, queue)
						p.Spec.Group = queue
						must(t, c, p)
					}
					got := must(t, c, &job.Fetch{Namespace: namespace, Queues: []string{queue}, Max: 1})[0].Jobs
					must(t, c, &job.Ack{Ref: got[0].Ref()})
				}
				delayed := push("later", "later")
				delayed.Spec.Delay = delay
				must(t, c, delayed)
				last = must(t, c, push("ready", "ready"))[0].ID
				ready, rated, leased, later = n.Now(), n.Now().Add(rate), n.Now().Add(lease), n.Now().Add(delay)
				n.mustClose(t)
			})
			synctest.Test(t, func(t *testing.T) {
				testkit.Advance(t, since+jump)
				n := open(t, fsys, memDir)
				c := n.NewCaller()
				if id := must(t, c, push("new", "new"))[0].ID; id != last+1 {
					t.Errorf("the next id is %d after %d", id, last)
				}
				wantDue(t, n.Engine, "ready", min(ready, n.Now()))
				group := rated
				if jump < -rate { // buckets of groups are full again
					group = n.Now()
				}
				rated = min(rated, n.Now().Add(rate)) // rates go on counting
				wantDue(t, n.Engine, "group", group)
				wantDue(t, n.Engine, "rated", rated)
				wantDue(t, n.Engine, "leased", leased)
				wantDue(t, n.Engine, "later", later)
				n.mustClose(t)
			})
		})
	}
}

// wantDue checks that the one job of a queue can be fetched at a time, or now if that is past, and not before.
func wantDue(t *testing.T, e *engine.Engine, queue string, at job.Time) {
	t.Helper()
	fetch := &job.Fetch{Namespace: namespace, Queues: []string{queue}, Max: 1, LeaseSet: true, Lease: 1000 * time.Hour}
	c := e.NewCaller()
	if early := at.Sub(e.Now()) - time.Millisecond; early > 0 {
		testkit.Advance(t, early)
		if jobs := c.Do(t.Context(), fetch)[0].Jobs; len(jobs) > 0 {
			t.Errorf("%s is there too early, at %v", queue, e.Now().Std())
		}
		testkit.Advance(t, 2*time.Millisecond)
	}
	if jobs := c.Do(t.Context(), fetch)[0].Jobs; len(jobs) != 1 || string(jobs[0].Body) != queue {
		t.Errorf("%s: %d jobs at %v, want it at %v", queue, len(jobs), e.Now().Std(), at.Std())
	}
}

// TestDaylightSaving goes through the nights in which clocks on the wall are set: to the engine they are nights like
// others, whatever zone a time was written in.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	for name, zone := range map[string]*time.Location{
		"summer": time.FixedZone("CEST", 2*3600),
		"winter": time.FixedZone("CET", 3600),
	} {
		for _, night := range []string{"2026-03-29T00:30:00Z", "2026-10-25T00:30:00Z"} {
			start, err := time.Parse(time.RFC3339, night)
			if err != nil {
				t.Fatal(err)
			}
			before := job.Time(0)
			for minute := range 180 {
				instant := start.Add(time.Duration(minute) * time.Minute)
				// As a client in that zone writes it, and as it is read again.
				parsed, err := time.Parse(time.RFC3339, instant.In(zone).Format(time.RFC3339))
				if err != nil {
					t.Fatal(err)
				}
				at := job.TimeOf(parsed)
				if at != job.TimeOf(instant) || at <= before || at.Std().Location() != time.UTC ||
					!at.Std().Equal(instant) {
					t.Fatalf("%s, %v: %v", name, instant, at.Std())
				}
				before = at
			}
		}
	}
}
