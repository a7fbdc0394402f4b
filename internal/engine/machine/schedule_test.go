package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// ticks is a core with one schedule, whose process may be killed at any time.
type ticks struct {
	*testing.T
	core  *engine.Core
	store store.Store
	now   job.Time
	res   job.Result
}

// newTicks begins at a whole minute.
func newTicks(t *testing.T, s job.Schedule) *ticks {
	t.Helper()
	k := &ticks{T: t, store: memstore.New(), now: job.TimeOf(time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC))}
	k.start()
	s.Namespace, s.Name, s.Job.Queue = namespace, "s", "q"
	k.do(&job.SetSchedules{Entries: []job.Schedule{s}})
	return k
}

func (k *ticks) start() {
	k.Helper()
	core, err := engine.OpenCore(k.store, k.now, engine.CoreOptions{})
	if err != nil {
		k.Fatal(err)
	}
	k.core = core
}

// kill ends the process without a word, after some time, and starts it again after some more.
func (k *ticks) kill(down time.Duration) {
	k.Helper()
	k.now = k.now.Add(down)
	k.start()
	k.pass(0)
}

func (k *ticks) do(cmd job.Command) {
	k.Helper()
	k.core.Apply(k.now, 1, 1, cmd, &k.res)
	k.commit()
}

// pass lets time go by, all at once.
func (k *ticks) pass(d time.Duration) {
	k.Helper()
	k.now = k.now.Add(d)
	for k.core.Tick(k.now, 1) {
	}
	k.commit()
}

func (k *ticks) commit() {
	k.Helper()
	if b, _ := k.core.Seal(); b != nil {
		if err := store.CommitNow(k.store, b); err != nil {
			k.Fatal(err)
		}
		k.core.Committed()
	}
	if err := k.core.Check(); err != nil {
		k.Fatal(err)
	}
}

func (k *ticks) info() job.ScheduleInfo {
	k.Helper()
	info, ok, err := engine.NewQuery(k.store).Schedule(namespace, "s")
	if !ok || err != nil {
		k.Fatal(ok, err)
	}
	return info
}

// want asserts how often jobs were pushed, ticks missed and ticks skipped, and how many seconds the next tick is away.
func (k *ticks) want(pushed, missed, skipped uint64, next float64) {
	k.Helper()
	i := k.info()
	got := []any{i.Pushed, i.MissedAny, i.Skipped, i.Next.Sub(k.now).Seconds()}
	if i.Next == 0 {
		got[3] = float64(0)
	}
	if want := []any{pushed, missed, skipped, next}; fmt.Sprint(got) != fmt.Sprint(want) {
		k.Fatalf("pushed, missed, skipped, next: %v, want %v; %+v", got, want, i.Runs)
	}
}

// fetch takes a job, and ack settles it.
func (k *ticks) fetch() job.ID {
	k.Helper()
	k.do(&job.Fetch{Namespace: namespace, Queues: []string{"q"}, Max: 1, DefaultLease: time.Hour})
	if len(k.res.Jobs) != 1 {
		k.Fatal("no job")
	}
	return k.res.Jobs[0].ID
}

func (k *ticks) settle(cmd job.Command) {
	k.Helper()
	if k.do(cmd); k.res.Err != nil {
		k.Fatal(k.res.Err)
	}
}

// TestTickOnceAfterKill is about the tick that a crash must neither repeat nor lose.
func TestTickOnceAfterKill(t *testing.T) {
	t.Parallel()
	k := newTicks(t, job.Schedule{When: "@every 10s"})
	k.pass(10 * time.Second)
	k.want(1, 0, 0, 10)
	k.kill(0)
	k.want(1, 0, 0, 10)
	k.kill(3 * time.Second)
	k.want(1, 0, 0, 7)
	k.kill(8 * time.Second) // missed, and made up for
	k.want(2, 0, 0, 9)
	k.kill(0)
	k.want(2, 0, 0, 9)
	k.pass(9 * time.Second)
	k.want(3, 0, 0, 10)
	// What was not committed is done again, once.
	k.now = k.now.Add(10 * time.Second)
	for k.core.Tick(k.now, 1) {
	}
	k.kill(0)
	k.want(4, 0, 0, 10)
	if n := k.core.Sums(namespace).Counts[job.Ready]; n != 4 {
		t.Fatalf("%d jobs, want one per tick", n)
	}
}

func TestMissedTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		s               job.Schedule
		pushed, missed  uint64
		jumped, skipped uint64 // the same for a clock that is put forward by an hour
	}{
		{"once", job.Schedule{}, 1, 5, 1, 359},
		{"skip", job.Schedule{Missed: job.MissedSkip}, 0, 6, 0, 360},
		{"all", job.Schedule{Missed: job.MissedAll, MissedMax: 10}, 6, 0, 10, 350},
		{"some", job.Schedule{Missed: job.MissedAll, MissedMax: 4}, 4, 2, 4, 356},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.s.When = "@every 10s"
			k := newTicks(t, c.s)
			k.kill(65 * time.Second)
			k.want(c.pushed, c.missed, 0, 5)
			k = newTicks(t, c.s)
			k.pass(time.Hour)
			k.want(c.jumped, c.skipped, 0, 10)
		})
	}
	// Ticks that are a little late are not missed.
	k := newTicks(t, job.Schedule{When: "@every 10s", Missed: job.MissedSkip})
	k.pass(35 * time.Second)
	k.want(3, 0, 0, 5)
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	k := newTicks(t, job.Schedule{When: "@every 10s", Overlap: job.OverlapSkip})
	k.pass(10 * time.Second)
	k.pass(20 * time.Second)
	k.want(1, 0, 2, 10)
	id := k.fetch()
	k.settle(&job.Ack{Ref: job.ByID(namespace, "q", id), Need: job.NeedLeased})
	k.pass(10 * time.Second)
	k.want(2, 0, 2, 10)
	// It does not matter in which queue the job is by then, nor that it has failed.
	id = k.fetch()
	k.settle(&job.Release{Ref: job.ByID(namespace, "q", id), Need: job.NeedLeased})
	k.settle(&job.Move{Ref: job.ByID(namespace, "q", id), Queue: "r"})
	k.pass(10 * time.Second)
	k.want(2, 0, 3, 10)
	k.settle(&job.Kill{Ref: job.ByID(namespace, "r", id)})
	k.pass(10 * time.Second)
	k.want(3, 0, 3, 10)
	// It may come back and succeed.
	if r := k.info().Runs[2]; r.Outcome != job.Died {
		t.Fatalf("%+v", r)
	}
	k.settle(&job.Respawn{Ref: job.ByID(namespace, "r", id), One: true})
	k.settle(&job.Ack{Ref: job.ByID(namespace, "r", id), Need: job.NeedAny})
	var got []string
	for _, r := range k.info().Runs {
		got = append(got, fmt.Sprint(r.Kind, r.Outcome, r.Count))
	}
	want := fmt.Sprint([]string{
		fmt.Sprint(job.RunPushed, job.Succeeded, 1), fmt.Sprint(job.RunOverlapped, job.Alive, 2),
		fmt.Sprint(job.RunPushed, job.Succeeded, 1), fmt.Sprint(job.RunOverlapped, job.Alive, 1),
		fmt.Sprint(job.RunPushed, job.Alive, 1),
	})
	if fmt.Sprint(got) != want {
		t.Fatalf("runs %v, want %v", got, want)
	}
}

func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	k := newTicks(t, job.Schedule{When: "@every 10s"})
	k.pass(13 * time.Second)
	set := func(when string, source job.Source, replace bool, names ...string) {
		t.Helper()
		c := &job.SetSchedules{Source: source, Replace: replace}
		for _, name := range names {
			c.Entries = append(c.Entries, job.Schedule{
				Namespace: namespace, Name: name, When: when,
				Job: job.Spec{Queue: "q"},
			})
		}
		k.do(c)
	}
	refused := func(kind job.Kind, text string, index int) {
		t.Helper()
		if e := k.res.Err; e == nil || e.Kind != kind || e.Index != index || !strings.Contains(e.Text, text) {
			t.Fatalf("%+v, want kind %d at %d and %q", e, kind, index, text)
		}
	}
	// The same again changes nothing, and another schedule counts from now.
	set("@every 10s", job.SourceAPI, false, "s")
	if k.want(1, 0, 0, 7); k.res.Count != 0 {
		t.Fatalf("%d changes", k.res.Count)
	}
	set("@every 20s", job.SourceAPI, false, "s")
	k.want(1, 0, 0, 20)
	// A pause forgets the ticks that come meanwhile.
	k.do(&job.PauseSchedule{Namespace: namespace, Name: "s", Paused: true})
	k.want(1, 0, 0, 0)
	k.pass(time.Minute)
	k.do(&job.PauseSchedule{Namespace: namespace, Name: "s"})
	k.want(1, 0, 0, 20)
	k.do(&job.RunSchedule{Namespace: namespace, Name: "s"})
	k.want(2, 0, 0, 20)
	// A wrong entry changes nothing at all.
	set("@every 5s", job.SourceFile, true, "a", "")
	refused(job.Invalid, "name", 1)
	set("0 0 30 2 *", job.SourceFile, true, "a", "s")
	refused(job.Invalid, "never due", 0)
	set("@every 5s", job.SourceFile, true, "a", "a")
	refused(job.Invalid, "twice", 1)
	k.want(2, 0, 0, 20)
	// A file takes the entry over, with its history, and then the operator may not change it.
	set("@every 5s", job.SourceFile, true, "a", "s")
	if k.want(2, 0, 0, 5); k.res.Count != 2 {
		t.Fatalf("%d changes", k.res.Count)
	}
	set("@every 6s", job.SourceAPI, false, "s")
	refused(job.Exists, "file", 0)
	k.do(&job.DropSchedule{Namespace: namespace, Name: "s"})
	refused(job.Exists, "file", 0)
	set("@every 5s", job.SourceFile, true)
	if all, err := engine.NewQuery(k.store).Schedules(""); len(all) != 0 || err != nil {
		t.Fatal(all, err)
	}
	k.do(&job.RunSchedule{Namespace: namespace, Name: "s"})
	refused(job.NotFound, "no such schedule", 0)
}

// An entry that is set again keeps its next tick unless its zone is another. It keeps its pause unless the entry says
// another one than before.
func TestScheduleIsSetAgain(t *testing.T) {
	t.Parallel()
	s := job.Schedule{When: "@every 20s"}
	k := newTicks(t, s)
	set := func(change func()) {
		t.Helper()
		change()
		s.Namespace, s.Name, s.Job.Queue = namespace, "s", "q"
		if k.do(&job.SetSchedules{Entries: []job.Schedule{s}}); k.res.Count != 1 {
			t.Fatalf("%d changes, %v", k.res.Count, k.res.Err)
		}
	}
	k.pass(5 * time.Second)
	set(func() { s.Job.Type = "t" })
	k.want(0, 0, 0, 15)
	set(func() { s.Zone = "Asia/Kathmandu" })
	k.want(0, 0, 0, 20)
	k.pass(5 * time.Second)
	set(func() { s.Paused = true })
	k.want(0, 0, 0, 0)
	k.do(&job.PauseSchedule{Namespace: namespace, Name: "s"})
	k.pass(5 * time.Second)
	set(func() { s.Job.Type = "u" }) // an operator has had it go on, which the entry does not undo
	k.want(0, 0, 0, 15)
	set(func() { s.Paused = false }) // it goes on already
	k.want(0, 0, 0, 15)
	k.do(&job.PauseSchedule{Namespace: namespace, Name: "s", Paused: true})
	set(func() { s.Job.Type = "v" })
	k.want(0, 0, 0, 0)
}

// A schedule with a past does not repeat its last tick. Overlap waits for the job of that tick, and not for an older
// one that is still there.
func TestScheduleWithPast(t *testing.T) {
	t.Parallel()
	last := job.TimeOf(time.Date(2026, 11, 17, 11, 59, 0, 0, time.UTC))
	older := last.Add(-time.Minute)
	k := newTicks(t, job.Schedule{When: "@every 10s", Overlap: job.OverlapSkip, Past: &job.SchedulePast{
		Created: older, LastTick: last, LastAt: last, Pushed: 2, Runs: []job.ScheduleRun{
			{Tick: older, At: older, Count: 1},
			{Tick: last, At: last, Count: 1, Outcome: job.Succeeded},
		},
	}})
	push := pushTo("q")
	push.Spec.Batch = k.info().ID
	push.Past = &job.Past{State: job.Ready, Created: older, Role: job.FlagTick}
	k.settle(push)
	k.settle(&job.PauseSchedule{Namespace: namespace, Name: "s", Rest: true, Next: last})
	k.want(2, 0, 0, 10)
	k.pass(10 * time.Second)
	k.want(3, 0, 0, 10)
	if r := k.info().Runs[0]; r.Job == 0 || r.Outcome != job.Alive {
		t.Fatalf("the older run: %+v", r)
	}
}

func TestScheduleLimits(t *testing.T) {
	t.Parallel()
	k := newTicks(t, job.Schedule{When: "@every 10s"})
	entry := func(name string) job.Schedule {
		return job.Schedule{Namespace: namespace, Name: name, When: "@daily", Job: job.Spec{Queue: "q", Type: "t"}}
	}
	for name, spoil := range map[string]func(*job.Schedule){
		"bytes": func(s *job.Schedule) {
			s.Job.Body, s.Job.BodyKind = make([]byte, job.MaxScheduleBytes), job.BodyBytes
		},
		"1 to 1000":     func(s *job.Schedule) { s.Missed, s.MissedMax = job.MissedAll, job.MaxMissed+1 },
		"needs a queue": func(s *job.Schedule) { s.Job.Queue = "" },
		"no batch":      func(s *job.Schedule) { s.Job.Batch = 1 },
	} {
		s := entry("x")
		spoil(&s)
		k.do(&job.SetSchedules{Entries: []job.Schedule{s}})
		if k.res.Err == nil || !strings.Contains(k.res.Err.Text, name) {
			t.Errorf("%v, want %q", k.res.Err, name)
		}
	}
	c := &job.SetSchedules{Source: job.SourceFile, Replace: true}
	for i := range job.MaxSchedules {
		c.Entries = append(c.Entries, entry(fmt.Sprint("s", i)))
	}
	k.do(c)
	if k.res.Err == nil || k.res.Err.Kind != job.TooLarge || k.res.Err.Index != job.MaxSchedules-1 {
		t.Fatalf("one too many: %v", k.res.Err)
	}
	c.Entries = c.Entries[:job.MaxSchedules-1]
	for range 2 {
		if k.do(c); k.res.Err != nil {
			t.Fatal(k.res.Err)
		}
	}
	// History is bounded.
	for range 3 * job.ScheduleRuns {
		k.pass(10 * time.Second)
	}
	if n := len(k.info().Runs); n != job.ScheduleRuns {
		t.Fatalf("%d runs are remembered", n)
	}
}

// A full queue has no room for ticks either.
func TestTickRefused(t *testing.T) {
	t.Parallel()
	k := newTicks(t, job.Schedule{When: "@every 10s"})
	k.do(&job.Configure{Namespace: namespace, Queue: "q", Settings: job.Settings{Capacity: 2}})
	for range 5 {
		k.pass(10 * time.Second)
	}
	k.want(2, 0, 3, 10)
	runs := k.info().Runs
	if last := runs[len(runs)-1]; len(runs) != 3 || last.Kind != job.RunRefused ||
		last.Refused != job.Full || last.Count != 3 {
		t.Fatalf("%+v", runs)
	}
	k.do(&job.Remove{Namespace: namespace, Queue: "q"})
	k.pass(10 * time.Second)
	k.want(3, 0, 3, 10)
	if r := k.info().Runs[0]; r.Outcome != job.Removed {
		t.Fatalf("%+v", r)
	}
	// Another reason is another run.
	k = newTicks(t, job.Schedule{When: "@every 10s", Job: job.Spec{Lock: "l", LockFor: time.Hour}})
	k.do(&job.Configure{Namespace: namespace, Queue: "q", Settings: job.Settings{Capacity: 1}})
	k.do(pushTo("q"))
	k.pass(20 * time.Second)
	takes := pushTo("r")
	takes.Spec.Lock, takes.Spec.LockFor = "l", time.Hour
	k.do(takes)
	k.pass(10 * time.Second)
	runs = k.info().Runs
	if len(runs) != 2 || runs[0].Refused != job.Full || runs[0].Count != 2 || runs[1].Refused != job.Locked {
		t.Fatalf("%+v", runs)
	}
}
