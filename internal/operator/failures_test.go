package operator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// fails makes a job of a type that has failed, and is dead or waits for its next attempt.
func (f *fixture) fails(queue, kind string, dead bool, by job.Failure) job.ID {
	f.t.Helper()
	p := job.Policy{MaxFails: 5, Backoff: job.Backoff{Unit: 24 * time.Hour, Power: 1}, Exhaust: job.ExhaustDead}
	if dead {
		p.MaxFails = 1
	}
	id := f.push(job.Spec{Queue: queue, Type: kind, Policy: p})
	f.do(&job.Fetch{Namespace: "ns", Queues: []string{queue}, Max: 1},
		&job.Fail{Ref: job.ByID("ns", queue, id), Need: job.NeedLeased, Failure: by})
	return id
}

// Failures are grouped by type and by what their errors have in common, and a group's filter fits its jobs.
func TestFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		defer f.close()
		if got, err := f.service.Failures("", ""); err != nil || len(got.Groups) != 0 || !got.Complete() {
			t.Errorf("nothing has failed: %+v, %v", got, err)
		}
		var last job.ID
		begun := time.Now()
		for i := range 6 {
			last = f.fails("a", "Mail", i < 4, job.Failure{
				Type:    "Timeout",
				Message: fmt.Sprintf("no answer after %d ms\nsecond line", 100+i),
			})
			testkit.Advance(t, time.Minute)
		}
		f.fails("b", "Mail", true, job.Failure{Type: "Refused", Message: "connection refused"})
		f.fails("b", "", true, job.Failure{Type: "Timeout", Message: "no answer after 5 ms"})
		f.fails("b", "Odd", true, job.Failure{Type: "OnlyType"})
		f.fails("b", "Silent", true, job.Failure{})
		killed := f.push(job.Spec{Queue: "c", Type: "Killed"})
		slot := f.push(job.Spec{Queue: "c", Type: "Deleted", Policy: job.Policy{DeadSlots: true}})
		f.do(&job.Kill{Ref: job.ByID("ns", "c", killed)}, &job.Kill{Ref: job.ByID("ns", "c", slot)})
		f.do(&job.Delete{Ref: job.ByID("ns", "c", slot), Need: job.NeedAny}) // which leaves its place among the dead
		got, err := f.service.Failures("", "")
		if err != nil || got.Looked != 12 || got.Total != 12 || !got.Complete() || len(got.Groups) != 6 {
			t.Fatalf("%+v, %v", got, err)
		}
		g := got.Groups[0]
		if g.Type != "Mail" || g.Error != "no answer after" || g.Count != 6 || g.Dead != 4 || g.Retrying != 2 ||
			g.Sample.ID != last ||
			!g.First.Equal(begun) || !g.Last.Equal(begun.Add(5*time.Minute)) {
			t.Errorf("%+v", g)
		}
		sum := 0
		for _, n := range g.Chart {
			sum += n
		}
		if sum != 6 || g.Chart[0] != 1 {
			t.Errorf("chart %v", g.Chart)
		}
		for _, g := range got.Groups {
			if g.Error == "" {
				if g.Type != "Killed" {
					t.Errorf("no error: %+v", g)
				}
				continue
			}
			page, err := f.service.Jobs(g.Filter, api.PageOf{})
			if err != nil || len(page.Jobs) != g.Count {
				t.Errorf("%s %q: the filter fits %d jobs of %d, %v", g.Type, g.Error, len(page.Jobs), g.Count, err)
			}
		}
		if got, err = f.service.Failures("ns", "b"); err != nil || got.Total != 4 || len(got.Groups) != 4 {
			t.Errorf("of one queue: %+v, %v", got, err)
		}
		for _, g := range got.Groups {
			if g.Filter.Namespace != "ns" || g.Filter.Queue != "b" {
				t.Errorf("of one queue: %+v", g)
			}
		}
	})
}

// However many jobs have failed, a bounded number is read, and every queue has its turn.
func TestFailuresBounded(t *testing.T) {
	t.Parallel()
	var reads Reads
	f := newFixture(t, Options{Reads: func(r Reads) { reads = r }}, HandlerOptions{})
	defer f.close()
	past := func(queue, message string) job.Command {
		return &job.Push{
			Spec: job.Spec{Namespace: "ns", Queue: queue, Type: "T"},
			Past: &job.Past{State: job.Dead, Failures: []job.Failure{{At: job.TimeOf(time.Now()), Message: message}}},
		}
	}
	cmds := make([]job.Command, 0, 3*failureLoads)
	for range cap(cmds) {
		cmds = append(cmds, past("many", "the usual"))
	}
	f.do(append(cmds, past("few", "something rare"))...)
	got, err := f.service.Failures("", "")
	if err != nil || reads.Loads > failureLoads || got.Complete() || got.Total != uint64(len(cmds)+1) ||
		len(got.Groups) != 2 {
		t.Errorf("%+v, %+v, %v", reads, got, err)
	}
}

// A group is named by the part of its errors that does not change.
func TestCommonPart(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "plain words": "plain words", "user 17 is unknown": "user 17 is unknown",
		"timed out after 30 s":     "timed out after",
		"cannot open \"/x\"\nmore": "cannot open", "12 errors": "12 errors",
	} {
		if got := commonPart(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
