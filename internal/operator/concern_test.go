package operator

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// What needs attention is told with the next sample, and no longer when it is mended.
func TestConcerns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := uint64(1 << 40)
		f := newFixture(t, Options{
			FreeBytes: func() (uint64, error) { return free, nil }, FreeFloor: 1 << 30,
			SampleEvery: time.Second,
		}, HandlerOptions{})
		defer f.close()
		want := func(what string, kinds ...api.ConcernKind) []api.Concern {
			t.Helper()
			testkit.Advance(t, 2*time.Second)
			got := f.service.Live().Concerns
			var have []api.ConcernKind
			for _, c := range got {
				have = append(have, c.Kind)
			}
			if !slices.Equal(have, kinds) {
				t.Errorf("%s: %+v, want %v", what, got, kinds)
			}
			return got
		}
		id := f.push(job.Spec{Queue: "mails", Policy: job.Policy{Exhaust: job.ExhaustDead, MaxFails: 1}})
		f.push(job.Spec{Queue: "other", Delay: time.Hour})
		want("a new job")
		testkit.Advance(t, 2*time.Minute)
		got := want("after two minutes", api.ConcernWaiting)
		if len(got) == 1 && (got[0].Queue != "mails" || got[0].About != "Jobs of queue mails have waited for 2 min.") {
			t.Errorf("%+v", got[0])
		}
		f.do(&job.Pause{Namespace: "ns", Queue: "mails"})
		want("what is paused is not slow", api.ConcernPaused)
		f.do(&job.Pause{Namespace: "ns", Queue: "other"})
		if got := want("two queues", api.ConcernPaused); len(got) == 1 &&
			got[0].About != "Queue mails is paused (and 1 more queue)." {
			t.Errorf("%+v", got[0])
		}
		f.do(&job.Resume{Namespace: "ns", Queue: "mails"}, &job.Remove{Namespace: "ns", Queue: "other"})
		f.do(&job.Fetch{Namespace: "ns", Queues: []string{"mails"}, Max: 1},
			&job.Fail{Ref: job.ByID("ns", "mails", id), Need: job.NeedLeased})
		if got := want("a job has died", api.ConcernDied); len(got) == 1 &&
			got[0].About != "1 job has died in the last hour." {
			t.Errorf("%+v", got[0])
		}
		free = 3 << 29
		if got := want("little space", api.ConcernSpace, api.ConcernDied); len(got) > 0 && got[0].Severe {
			t.Errorf("%+v", got[0])
		}
		free = 1 << 20
		if got := want("no space", api.ConcernSpace, api.ConcernDied); len(got) > 0 && !got[0].Severe {
			t.Errorf("%+v", got[0])
		}
		free = 1 << 40
		testkit.Advance(t, time.Hour)
		want("an hour later")
	})
}

// A wait is unusual if jobs of the queue did not wait as long in the last hour.
func TestConcernUsual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{SampleEvery: time.Second}, HandlerOptions{})
		defer f.close()
		for range 3 {
			f.push(job.Spec{Queue: "slow"})
			testkit.Advance(t, 10*time.Minute)
			f.do(&job.Fetch{Namespace: "ns", Queues: []string{"slow"}, Max: 1})
		}
		f.push(job.Spec{Queue: "slow"})
		testkit.Advance(t, 15*time.Minute)
		if got := f.service.Live().Concerns; len(got) != 0 {
			t.Errorf("as usual: %+v", got)
		}
		testkit.Advance(t, 2*time.Hour)
		if got := f.service.Live().Concerns; len(got) != 1 ||
			got[0].About != "Jobs of queue slow have waited for 2 h." {
			t.Errorf("after two hours: %+v", got)
		}
	})
}

// Of several queues the one whose jobs wait longest is told of, of equal ones the first by name.
func TestWorstConcern(t *testing.T) {
	t.Parallel()
	got := worst(map[queueName]watched{
		{"ns", "a"}: {seconds: 90}, {"ns", "b"}: {seconds: 100}, {"ns", "c"}: {seconds: 100},
	})
	if got == nil || *got != (api.Concern{Namespace: "ns", Queue: "b"}) {
		t.Errorf("%+v", got)
	}
}

// With very many queues a sample looks at some of them, and those that are gone are forgotten.
func TestConcernRounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{SampleEvery: time.Hour}, HandlerOptions{})
	defer f.close()
	cmds := make([]job.Command, 0, 2*watchQueues)
	for i := range cap(cmds) {
		cmds = append(cmds, &job.Pause{Namespace: "ns", Queue: fmt.Sprintf("q%05d", i), Make: true})
	}
	f.do(cmds...)
	var w watcher
	w.init(f.service)
	look := func() {
		t.Helper()
		if err := f.service.view(func(v *engine.View) error { return w.look(v) }); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if w.round != 0 || len(w.paused) != watchKept {
		t.Errorf("round %d, %d queues kept", w.round, len(w.paused))
	}
	for i := range cmds {
		cmds[i] = &job.Remove{Namespace: "ns", Queue: fmt.Sprintf("q%05d", i)}
	}
	f.do(cmds...)
	look()
	look()
	if w.round != 2 || len(w.paused) != 0 {
		t.Errorf("round %d, %d queues kept", w.round, len(w.paused))
	}
}

// With more queues than one sample looks at, those to which something happens are looked at with each.
func TestConcernsOfBusyQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{SampleEvery: time.Second}, HandlerOptions{})
		defer f.close()
		cmds := make([]job.Command, 5*watchQueues)
		for i := range cmds {
			cmds[i] = &job.Push{Spec: job.Spec{Namespace: "ns", Queue: fmt.Sprintf("q%05d", i), Delay: time.Hour}}
		}
		f.do(cmds...)
		testkit.Advance(t, 7*time.Second) // a round, and the first sample of the next
		f.push(job.Spec{Queue: "zz"})
		f.do(&job.Pause{Namespace: "ns", Queue: "zz"})
		testkit.Advance(t, time.Second)
		if got := f.service.Live().Concerns; len(got) != 1 || got[0].Kind != api.ConcernPaused || got[0].Queue != "zz" {
			t.Errorf("%+v", got)
		}
	})
}
