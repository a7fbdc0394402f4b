package machine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/internal/job"
)

const crowd = 150

func worker(n int) job.Holder { return job.Holder{Node: 1, Num: uint64(n)} }

func waitAs(holder job.Holder, queue string) *job.Fetch {
	c := waitFor(queue)
	c.Holder = holder
	return c
}

func limit(queue string, l job.Limits) *job.SetLimits {
	return &job.SetLimits{Namespace: namespace, Queue: queue, Limits: l}
}

// When a limit is lifted for which very many wait, they are served in the order they came, a few in each step. It does
// not matter whether they are of one worker or of as crowd.
func TestLimitIsLiftedInPieces(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string]int{"one worker": 1, "several workers": 7, "a worker each": crowd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStepper(t)
			s.must(limit("q", job.Limits{Worker: 1}))
			for i := range workers { // each is at its limit
				s.must(pushTo("q"))
				s.must(&job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: 1, Holder: worker(i)})
			}
			var came []uint64
			for i := range crowd {
				came = append(came, s.wait(waitAs(worker(i%workers), "q")))
			}
			for range crowd {
				s.must(pushTo("q"))
			}
			if got := s.rest(); len(got) != 0 {
				t.Fatalf("%d were given a job although they have their fill", len(got))
			}
			s.must(limit("q", job.Limits{}))
			served := tokens(s.step())
			steps := 0
			for ; s.Behind(); steps++ {
				s.Tick(s.now, 1)
				served = append(served, tokens(s.step())...)
			}
			if !slices.Equal(served, came) {
				t.Errorf("%d of %d were served, not all of them or not in order", len(served), crowd)
			}
			if steps < crowd/perStep {
				t.Errorf("all were served in %d steps", steps)
			}
		})
	}
}

// Leases from before a limit are counted in pieces, and who waits meanwhile is served when that is over.
func TestLeasesAreCountedInPieces(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	const leases = 10 * perStep
	for range leases {
		s.must(pushTo("q"))
	}
	s.must(&job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: leases, Holder: worker(1)})
	s.must(limit("q", job.Limits{Worker: leases}))
	if !s.Counting(namespace, "q") {
		t.Fatal("all leases were counted at once")
	}
	s.must(pushTo("q"))
	full, free := s.wait(waitAs(worker(1), "q")), s.wait(waitAs(worker(2), "q"))
	steps := 0
	var served []uint64
	for ; s.Unfinished(); steps++ {
		s.Tick(s.now, 1)
		served = append(served, tokens(s.step())...)
	}
	if !slices.Equal(served, []uint64{free}) {
		t.Errorf("%v were served, want %d and not %d", served, free, full)
	}
	if steps < leases/perStep-1 {
		t.Errorf("%d leases were counted in %d steps", leases, steps)
	}
}

// A rate that changes has every bucket full, although other limits change before all groups have been gone over.
func TestRateChangesWhileGroupsAreGoneOver(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	const groups = 3 * perStep
	rate := job.Limits{GroupRate: 1, GroupPer: time.Hour}
	s.must(limit("q", rate))
	for i := range 2 * groups {
		s.must(pushGroup("q", fmt.Sprint(i%groups)))
	}
	fetch := &job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: 2 * groups}
	s.must(fetch)
	for i := range s.res.Jobs {
		s.must(&job.Ack{Ref: job.ByID(namespace, "q", job.ID(1+i)), Need: job.NeedLeased})
	}
	rate.GroupBurst = 2
	s.must(limit("q", rate))
	rate.GroupConcurrency = 2
	s.must(limit("q", rate))
	if !s.Counting(namespace, "q") {
		t.Fatal("all groups were gone over at once")
	}
	s.rest()
	if s.must(fetch); len(s.res.Jobs) != groups {
		t.Errorf("%d groups were given a job, want %d", len(s.res.Jobs), groups)
	}
}

// What ends with the queue ends its slots, and parked callers wait on for the next queue of that name.
func TestLimitGoesWithItsQueue(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		s := newStepper(t)
		s.must(limit("q", job.Limits{Worker: 1, SlotFor: time.Hour}))
		s.must(pushTo("q"))
		s.must(&job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: 1, Holder: worker(1)})
		first, second := s.wait(waitAs(worker(1), "q")), s.wait(waitAs(worker(1), "q"))
		s.must(pushTo("q"))
		s.must(&job.Remove{Namespace: namespace, Queue: "q", KeepQueue: keep})
		s.must(pushTo("q"))
		s.must(pushTo("q"))
		got := append(tokens(s.step()), tokens(s.rest())...)
		want := []uint64{first, second}
		if keep { // and so is the limit
			want = want[:1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("kept %v: %v were served, want %v", keep, got, want)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}
