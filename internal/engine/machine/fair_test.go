package machine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/job"
)

func fair(queue string, weights map[string]uint32) *job.SetFair {
	return &job.SetFair{Namespace: namespace, Queue: queue, Fairness: job.Fairness{On: true, Weights: weights}}
}

func pushGroup(queue, group string) *job.Push {
	c := pushTo(queue)
	c.Spec.Group = group
	return c
}

// groupsOf fetches until nothing is there and returns the groups of the jobs in the order in which they came.
func groupsOf(s *stepper, most int) string {
	var got []string
	for range most {
		s.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: 1, Holder: worker(1)})
		if len(s.res.Jobs) == 0 {
			break
		}
		got = append(got, cmp.Or(s.res.Jobs[0].Group, "-"))
	}
	return strings.Join(got, "")
}

// A group with very many jobs delays the others by one job of its own in each round, wherever its jobs are.
func TestGroupsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pushes  string
		weights map[string]uint32
		want    string
	}{
		"a large one and two small ones": {"aaaaaaaabbcc", nil, "abcabcaaaaaa"},
		"jobs without a group are one":   {"----aab", nil, "-ab-a--"},
		"weights":                        {"aaaaaabbbcc", map[string]uint32{"a": 3, "c": 2}, "aaabccaaabb"},
		"weight of jobs without a group": {"----aa", map[string]uint32{"": 2}, "--a--a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStepper(t)
			s.must(fair("q", test.weights))
			for g := range strings.SplitSeq(test.pushes, "") {
				s.must(pushGroup("q", strings.Trim(g, "-")))
			}
			got := groupsOf(s, 100)
			if got != test.want {
				t.Errorf("%s were given out, want %s", got, test.want)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Priority comes before turns, also for jobs without a group.
func TestPriorityComesBeforeTurns(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"a-", "-a", "ab"} {
		s := newStepper(t)
		s.must(fair("q", nil))
		s.must(pushGroup("q", strings.Trim(groups[:1], "-")))
		second := pushGroup("q", strings.Trim(groups[1:], "-"))
		second.Spec.Policy.Priority = 1
		s.must(second)
		if got := groupsOf(s, 2); got != groups[1:]+groups[:1] {
			t.Errorf("%s were given out", got)
		}
	}
}

// A group that comes back again and again with one job does not get more than its share.
func TestGroupIsNotStarved(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.must(fair("q", nil))
	for range 50 {
		s.must(pushGroup("q", "many"))
	}
	var given []string
	for i := range 40 {
		s.must(pushGroup("q", fmt.Sprint("one", i%2)))
		given = append(given, groupsOf(s, 1))
	}
	n := 0
	for _, g := range given {
		if g == "many" {
			n++
		}
	}
	if n < 13 { // a third of the turns
		t.Errorf("of 40 jobs %d were of the group that waited: %v", n, given)
	}
}

// Groups that have jobs when the queue becomes fair, or is fair no longer, keep their place for one job.
func TestFairnessChanges(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.must(limit("q", job.Limits{GroupConcurrency: 100}))
	for _, g := range []string{"a", "a", "a", "b", "b", "c"} {
		s.must(pushGroup("q", g))
	}
	s.must(fair("q", nil))
	if got := groupsOf(s, 4); got != "abca" {
		t.Errorf("%s were given out of the queue that became fair", got)
	}
	s.must(pushGroup("q", "d"))
	s.must(pushGroup("q", "a"))
	s.must(&job.SetFair{Namespace: namespace, Queue: "q"})
	if got := groupsOf(s, 4); got != "bada" {
		t.Errorf("%s were given out of the queue that is fair no longer", got)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// What a caller waits for is given to it at the moment that its group may have it.
func TestGroupLimits(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.must(fair("q", nil))
	s.must(limit("q", job.Limits{GroupConcurrency: 2, GroupRate: 1, GroupPer: time.Second, GroupBurst: 3}))
	for range 6 {
		s.must(pushGroup("q", "a"))
	}
	if got := groupsOf(s, 9); got != "aa" {
		t.Fatalf("%s are leased at a time, want two", got)
	}
	waits := s.wait(waitAs(worker(2), "q"))
	s.must(&job.Ack{Ref: job.ByID(namespace, "q", 1), Need: job.NeedLeased})
	if got := tokens(s.step()); !slices.Equal(got, []uint64{waits}) {
		t.Fatalf("%v were served when a slot was free", got)
	}
	waits = s.wait(waitAs(worker(2), "q"))
	s.must(&job.Ack{Ref: job.ByID(namespace, "q", 2), Need: job.NeedLeased})
	if got := s.step(); len(got) > 0 {
		t.Fatalf("%v were served although the rate is used up", got)
	}
	at := s.NextWake()
	s.now = at - 1
	if s.Tick(s.now, 1); len(s.step()) > 0 {
		t.Fatal("a caller was served too early")
	}
	s.now = at
	if s.Tick(s.now, 1); !slices.Equal(tokens(s.step()), []uint64{waits}) {
		t.Error("the caller was not served when the rate allowed a job")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// A queue that promises one job of a group at a time keeps that when it is fair, also if it promises while jobs run. A
// limit of groups says another number.
func TestFairKeepsOnePerGroup(t *testing.T) {
	t.Parallel()
	promise := func(one bool) *job.Configure {
		return &job.Configure{Namespace: namespace, Queue: "q", Replace: true, Settings: job.Settings{OnePerGroup: one}}
	}
	s := newStepper(t)
	s.must(promise(true))
	for _, g := range []string{"a", "a", "a", "a", "b", "b"} {
		s.must(pushGroup("q", g))
	}
	for _, step := range []struct {
		do   job.Command
		want string
	}{
		{fair("q", nil), "ab"},
		{limit("q", job.Limits{GroupConcurrency: 2}), "ab"},
		{limit("q", job.Limits{}), ""},
		{promise(false), "aa"},
		{promise(true), ""},
	} {
		s.must(step.do)
		if got := groupsOf(s, 9); got != step.want {
			t.Errorf("after %+v %q were given out, want %q", step.do, got, step.want)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	s.must(pushGroup("q", "a"))
	s.must(pushGroup("q", "c"))
	if got := groupsOf(s, 9); got != "c" {
		t.Errorf("%q were given out of the queue that has promised again, want c", got)
	}
}

// A purge of very many groups leaves their records over. The queue gives out what is pushed meanwhile, by turns.
func TestPurgedFairQueueGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do(fair("q", nil))
	const groups = 1000 // more than one step goes over
	for g := range groups {
		b.do(pushGroup("q", fmt.Sprint(g)))
	}
	b.do(&job.Purge{Namespace: namespace, Queue: "q", State: job.Ready})
	for _, g := range []string{"999", "999", "998"} {
		b.do(pushGroup("q", g))
	}
	var got []string
	for range 3 {
		b.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}})
		got = append(got, b.res.Jobs[0].Group)
	}
	if want := []string{"999", "998", "999"}; !slices.Equal(got, want) {
		t.Errorf("groups %v were given out, want %v", got, want)
	}
	if err := b.m.Check(); err != nil {
		t.Error(err)
	}
	for b.m.Unfinished() {
		b.m.Tick(start, 1)
	}
	if err := b.m.Check(); err != nil {
		t.Error(err)
	}
}
