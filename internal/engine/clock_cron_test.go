package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// The clock is set while the server is down, with an entry that is due every minute. Set forwards, all that was missed
// has one job. Set back, no minute has a second job: the entry goes on when the clock has come to the minute behind the
// last one.
func TestClockJumpsOfSchedules(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{
		-365 * 24 * time.Hour, -24 * time.Hour, -time.Hour, -10 * time.Millisecond, time.Hour, 24 * time.Hour,
		365 * 24 * time.Hour,
	} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kept := memstore.New()
				wrong := 30 * time.Second // a bubble begins with a minute: the middle of one
				open := func() *engine.Engine {
					off := wrong
					e, err := engine.Open(engine.Options{
						Store: kept, Now: func() job.Time { return job.TimeOf(time.Now().Add(off)) },
					})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				wants := func(e *engine.Engine, what string, want uint64) {
					t.Helper()
					q, _, err := e.Queue("ns", "ticks")
					if got := q.Totals[job.CountPushed]; err != nil || got != want {
						t.Errorf("%s: %d jobs, %v, want %d", what, got, err, want)
					}
				}
				e := open()
				do(t, e, &job.SetSchedules{Entries: []job.Schedule{
					{Namespace: "ns", Name: "c", When: "* * * * *", Job: job.Spec{Queue: "ticks"}},
				}}).wants(t)
				testkit.Advance(t, 3*time.Minute)
				wants(e, "three minutes", 3)
				next, before := e.Now().Add(30*time.Second), uint64(3)
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				wrong += jump
				if jump > 0 {
					next, before = next.Add(jump), 4
				}
				e = open()
				testkit.Advance(t, time.Millisecond)
				wants(e, "at the start", before)
				testkit.Advance(t, next.Sub(e.Now())-time.Millisecond)
				wants(e, "just before the next minute", before)
				testkit.Advance(t, 2*time.Minute+2*time.Millisecond)
				wants(e, "two minutes later", before+3)
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
