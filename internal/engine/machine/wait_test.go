package machine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// stepper drives a core whose steps do little work.
type stepper struct {
	*engine.Core
	t     *testing.T
	now   job.Time
	token uint64
	res   job.Result
}

// perStep is the work of one step of a stepper, and how many queues it looks at.
const perStep = 10

func newStepper(t *testing.T) *stepper {
	t.Helper()
	core, err := engine.OpenCore(memstore.New(), start,
		engine.CoreOptions{StepWork: perStep, NamesPerStep: perStep, WaitNames: 300})
	if err != nil {
		t.Fatal(err)
	}
	return &stepper{Core: core, t: t, now: start}
}

// do applies a command and returns its token and whether it was answered.
func (s *stepper) do(cmd job.Command) (token uint64, answered bool) {
	s.t.Helper()
	s.token++
	answered, _ = s.Apply(s.now, 1, s.token, cmd, &s.res)
	return s.token, answered
}

// wait applies a command that has to wait.
func (s *stepper) wait(cmd job.Command) uint64 {
	s.t.Helper()
	token, answered := s.do(cmd)
	if answered {
		s.t.Fatalf("%T did not wait: %v", cmd, s.res.Err)
	}
	return token
}

// must applies a command that succeeds at once.
func (s *stepper) must(cmd job.Command) {
	s.t.Helper()
	if _, answered := s.do(cmd); !answered || s.res.Err != nil {
		s.t.Fatalf("%T: answered %v, %v", cmd, answered, s.res.Err)
	}
}

// step returns what the last step has answered, which is not much, and asserts the
// invariants.
func (s *stepper) step() []machine.Completion {
	s.t.Helper()
	out := slices.Clone(s.Completed())
	if len(out) > perStep {
		s.t.Fatalf("one step answers %d callers", len(out))
	}
	if err := s.Check(); err != nil {
		s.t.Fatal(err)
	}
	if s.Behind() && s.NextWake() > s.now {
		s.t.Fatalf("something is left over, and the next look is at %d", s.NextWake())
	}
	return out
}

// rest does what is left over and returns what that has answered.
func (s *stepper) rest() []machine.Completion {
	s.t.Helper()
	var out []machine.Completion
	for more := true; more; {
		more = s.Tick(s.now, 1)
		out = append(out, s.step()...)
	}
	if s.Behind() {
		s.t.Fatal("something is left over after all")
	}
	return out
}

func tokens(cs []machine.Completion) []uint64 {
	var ts []uint64
	for _, c := range cs {
		ts = append(ts, c.Token)
	}
	return ts
}

func pushTo(q string) *job.Push { return &job.Push{Spec: job.Spec{Namespace: namespace, Queue: q}} }

func waitFor(queues ...string) *job.Fetch {
	return &job.Fetch{Namespace: namespace, Queues: queues, Wait: time.Hour}
}

// A resumed queue serves those who wait in pieces, in the order in which they came. A fetch
// that comes in between is served at once.
func TestResumeServesInPieces(t *testing.T) {
	t.Parallel()
	const callers = 3*perStep + 1
	s := newStepper(t)
	s.must(pushTo("q"))
	s.must(&job.Pause{Namespace: namespace, Queue: "q"})
	var want []uint64
	for range callers {
		want = append(want, s.wait(waitFor("q")))
		s.must(pushTo("q"))
	}
	s.must(&job.Resume{Namespace: namespace, Queue: "q"})
	got := s.step()
	if len(got) != perStep {
		t.Fatalf("the resume serves %d callers, want %d", len(got), perStep)
	}
	s.must(waitFor("q"))
	got = append(got, s.step()...)
	got = append(got, s.rest()...)
	if !slices.Equal(tokens(got), want) {
		t.Errorf("served %v, want %v", tokens(got), want)
	}
}

// A pause holds up those who are still to be served.
func TestPauseBetweenPieces(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	s.must(pushTo("q"))
	s.must(&job.Pause{Namespace: namespace, Queue: "q"})
	for range 2 * perStep {
		s.wait(waitFor("q"))
		s.must(pushTo("q"))
	}
	s.must(&job.Resume{Namespace: namespace, Queue: "q"})
	s.step()
	s.must(&job.Pause{Namespace: namespace, Queue: "q"}) // before the rest is served
	if got := s.rest(); len(got) != 0 {
		t.Errorf("a paused queue serves %d callers", len(got))
	}
	s.must(&job.Resume{Namespace: namespace, Queue: "q"})
	if got := append(s.step(), s.rest()...); len(got) != perStep {
		t.Errorf("%d callers are served, want the other %d", len(got), perStep)
	}
}

// Everybody who waits for a result is told it once, in pieces, even if the wait is
// cancelled or its time is up in between.
func TestResultIsToldInPieces(t *testing.T) {
	t.Parallel()
	const callers = 5 * perStep
	s := newStepper(t)
	s.must(pushTo("q"))
	id := s.res.ID
	await := &job.Await{Ref: job.ByID(namespace, "q", id), Wait: time.Minute}
	var want []uint64
	for range callers {
		want = append(want, s.wait(await))
	}
	s.must(&job.Ack{Ref: await.Ref, Need: job.NeedAny, Keep: true, Result: []byte("r")})
	got := s.step()
	s.must(&job.Cancel{Token: want[callers-1]})
	if s.res.Count != 1 {
		t.Error("a caller that is still to be told does not wait")
	}
	got = append(got, s.step()...)
	s.must(&job.Delete{Ref: await.Ref, Need: job.NeedAny}) // they are told what was
	got = append(got, s.step()...)
	s.now = s.now.Add(time.Minute)
	for more := true; more; {
		more = s.Tick(s.now, 1)
		got = append(got, s.Completed()...)
	}
	for _, c := range got {
		if c.Result.Err != nil || len(c.Result.Jobs) != 1 || string(c.Result.Jobs[0].Result) != "r" {
			t.Fatalf("told %+v", c.Result)
		}
	}
	told := tokens(got)
	slices.Sort(told)
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want each of %v", told, want)
	}
}

// A queue that is removed tells those who wait for results of its jobs, in pieces.
func TestRemoveTellsInPieces(t *testing.T) {
	t.Parallel()
	const jobs = 4 * perStep
	s := newStepper(t)
	for range jobs {
		s.must(pushTo("q"))
		s.wait(&job.Await{Ref: job.ByID(namespace, "q", s.res.ID), Wait: time.Hour})
	}
	s.must(&job.Remove{Namespace: namespace, Queue: "q"})
	got := s.step()
	if len(got) != perStep {
		t.Errorf("the removal tells %d callers, want %d", len(got), perStep)
	}
	got = append(got, s.rest()...)
	for _, c := range got {
		if c.Result.Err != job.ErrNotFound {
			t.Fatalf("told %v", c.Result.Err)
		}
	}
	if len(got) != jobs || s.Waiting() != 0 {
		t.Errorf("%d are told and %d wait", len(got), s.Waiting())
	}
}

// Pushes that waited for room come in in pieces and in order. One that comes in between
// does not overtake them, and cannot take their room.
func TestRoomIsGivenInPieces(t *testing.T) {
	t.Parallel()
	const pushes = 3 * perStep
	s := newStepper(t)
	set := func(capacity uint64) {
		s.must(&job.Configure{
			Namespace: namespace, Queue: "q", Replace: true,
			Settings: job.Settings{Capacity: capacity},
		})
	}
	set(1)
	s.must(pushTo("q"))
	waiting := &job.Push{Spec: pushTo("q").Spec, RoomWait: time.Hour}
	var want []uint64
	for range pushes {
		want = append(want, s.wait(waiting))
	}
	set(pushes + 1)
	got := s.step()
	want = append(want, s.wait(waiting))
	if _, answered := s.do(pushTo("q")); !answered || s.res.Err != job.ErrFull {
		t.Errorf("a push takes the room of those that waited: %v", s.res.Err)
	}
	set(pushes + 3)
	s.must(pushTo("q"))
	got = append(got, s.step()...)
	got = append(got, s.rest()...)
	if !slices.Equal(tokens(got), want) {
		t.Errorf("let in %v, want %v", tokens(got), want)
	}
	for i := 1; i < len(got); i++ {
		if got[i].Result.Err != nil || got[i].Result.ID <= got[i-1].Result.ID {
			t.Errorf("let in as job %d after %d, %v", got[i].Result.ID, got[i-1].Result.ID, got[i].Result.Err)
		}
	}
}

func queueNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("q", i)
	}
	return names
}

// proceed has a fetch go on until it is answered or waits, and returns how many steps that took.
func (s *stepper) proceed(token uint64) (steps int, answered bool) {
	s.t.Helper()
	for s.Walking(token) {
		answered, _ = s.Continue(s.now, 1, token, &s.res)
		s.step()
		steps++
	}
	return steps, answered
}

// A fetch from many queues looks at some of them in each step, and takes the first job.
func TestFetchLooksInPieces(t *testing.T) {
	t.Parallel()
	const queues = 5 * perStep
	names := queueNames(queues)
	for _, pick := range []job.Pick{job.PickInOrder, job.PickRandom, job.PickBest} {
		s := newStepper(t)
		f := &job.Fetch{Namespace: namespace, Queues: names, Pick: pick}
		token, _ := s.do(f)
		if steps, answered := s.proceed(token); !answered || s.res.Err != job.ErrTimeout || steps != 4 {
			t.Errorf("pick %d: answered %v, %v, in %d further steps", pick, answered, s.res.Err, steps)
		}
		for _, i := range []int{7, 23, 42} {
			p := pushTo(names[i])
			p.Spec.Policy.Priority = int64(i)
			s.must(p)
		}
		want := map[job.Pick][]int64{job.PickInOrder: {7, 23, 42}, job.PickBest: {42, 23, 7}, job.PickRandom: nil}[pick]
		var got []int64
		for range 3 {
			if token, answered := s.do(f); !answered {
				s.proceed(token)
			}
			if len(s.res.Jobs) != 1 {
				t.Fatalf("pick %d: got %d jobs", pick, len(s.res.Jobs))
			}
			got = append(got, s.res.Jobs[0].Policy.Priority)
		}
		if want != nil && !slices.Equal(got, want) {
			t.Errorf("pick %d: got %v, want %v", pick, got, want)
		}
		if s.Waiting() != 0 {
			t.Errorf("pick %d: %d wait", pick, s.Waiting())
		}
	}
}

// While a fetch looks at its queues it is given what arrives in those that it has looked at.
// What arrives in the others it finds itself.
func TestFetchIsServedWhileItLooks(t *testing.T) {
	t.Parallel()
	names := queueNames(3 * perStep)
	s := newStepper(t)
	token := s.wait(waitFor(names...))
	s.must(pushTo(names[0]))
	if got := s.step(); !slices.Equal(tokens(got), []uint64{token}) || s.Walking(token) {
		t.Errorf("a job that arrives in a queue that was looked at goes to %v", tokens(got))
	}
	token = s.wait(waitFor(names...))
	if !s.Walking(token) {
		t.Fatal("the fetch has looked at all its queues at once")
	}
	s.must(pushTo(names[2*perStep]))
	s.Continue(s.now, 1, token, &s.res)
	if answered, _ := s.Continue(s.now, 1, token, &s.res); !answered || len(s.res.Jobs) != 1 {
		t.Error("a job that arrived in a queue that had not been looked at is not found")
	}
	token = s.wait(waitFor(names...))
	s.must(&job.Cancel{Token: token})
	if got := s.step(); len(got) != 1 || got[0].Result.Err != job.ErrCanceled {
		t.Errorf("cancelled: %+v", got)
	}
	s.rest()
}

// A caller leaves the lists of many queues in pieces. Until then they pass over it.
func TestManyListsAreLeftInPieces(t *testing.T) {
	t.Parallel()
	names := queueNames(20 * perStep)
	s := newStepper(t)
	s.must(pushTo(names[5]))
	s.must(&job.Fetch{Namespace: namespace, Queues: names[5:6]})
	first := s.wait(waitFor(append(names, names...)...))
	s.proceed(first)
	if n := s.WaitingNames(); n != len(names) {
		t.Errorf("%d names are waited on, want each of %d once", n, len(names))
	}
	second := s.wait(waitFor(names[3:6]...))
	s.must(&job.Cancel{Token: first})
	s.step()
	if n := s.WaitingNames(); n == 0 {
		t.Error("all lists are left at once")
	}
	s.must(&job.Remove{Namespace: namespace, Queue: names[5]})
	s.must(pushTo(names[5]))
	if got := s.step(); !slices.Equal(tokens(got), []uint64{second}) {
		t.Errorf("the job goes to %v, want %d", tokens(got), second)
	}
	s.rest()
	if n := s.WaitingNames(); n != 0 {
		t.Errorf("%d names are left", n)
	}
}

// The number of names that are waited on is limited. Those of a fetch that names a few do not count.
func TestWaitingNamesAreLimited(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	many := s.wait(waitFor(queueNames(250)...))
	s.proceed(many)
	token := s.wait(waitFor(queueNames(60)...))
	if _, answered := s.proceed(token); !answered || s.res.Err != job.ErrOverloaded {
		t.Errorf("more names than allowed: answered %v, %v", answered, s.res.Err)
	}
	s.rest()
	s.wait(waitFor(queueNames(10)...))
	s.must(&job.Cancel{Token: many})
	s.rest()
	token = s.wait(waitFor(queueNames(60)...))
	if _, answered := s.proceed(token); answered {
		t.Errorf("the names of those who have gone still count: %v", s.res.Err)
	}
}

// A fetch that meets many jobs whose time has run out ends some of them in each step.
func TestExpiredJobsEndInPieces(t *testing.T) {
	t.Parallel()
	s := newStepper(t)
	for range 1000 {
		p := pushTo("q")
		p.Spec.TTL = time.Second
		s.must(p)
	}
	s.must(pushTo("q"))
	live := s.res.ID
	s.now = s.now.Add(time.Minute)
	token, answered := s.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}})
	if answered {
		t.Fatal("one step ends them all")
	}
	if steps, answered := s.proceed(token); !answered || len(s.res.Jobs) != 1 ||
		s.res.Jobs[0].ID != live || steps < 10 {
		t.Errorf("answered %v with %d jobs after %d steps, want job %d", answered, len(s.res.Jobs), steps, live)
	}
}

// A fetch that goes on may be given a job by what it sets off itself: an expired job that it
// meets takes others along, one of which is moved to a queue that it waits on already.
func TestFetchIsServedByItself(t *testing.T) {
	t.Parallel()
	for _, pick := range []job.Pick{job.PickInOrder, job.PickBest} {
		names := queueNames(2 * perStep)
		s := newStepper(t)
		old := pushTo(names[perStep])
		old.Spec.TTL = time.Second
		s.must(old)
		blocker := job.Blocker{QueueNum: 1, ID: s.res.ID}
		next := pushTo(names[perStep+1])
		next.Spec.BlockedBy = []job.Blocker{blocker}
		next.Spec.Policy.Exhaust, next.Spec.Policy.DeadQueue = job.ExhaustMove, names[0]
		s.must(next)
		moved := s.res.ID
		s.must(pushTo(names[perStep]))
		f := waitFor(names...)
		f.Pick = pick
		token := s.wait(f)
		s.now = s.now.Add(time.Minute)
		var got []job.ID
		for s.Walking(token) {
			answered, _ := s.Continue(s.now, 1, token, &s.res)
			for i := range s.res.Jobs {
				got = append(got, s.res.Jobs[i].ID)
			}
			for _, c := range s.step() {
				got = append(got, c.Result.Jobs[0].ID)
				if answered || c.Token != token {
					t.Errorf("pick %d: %d is answered, and the fetch has been already: %v", pick, c.Token, answered)
				}
			}
		}
		if pick == job.PickInOrder && !slices.Equal(got, []job.ID{moved}) || len(got) != 1 {
			t.Errorf("pick %d: got %v", pick, got)
		}
		s.rest()
	}
}
