package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// adoptWords reads lines of three words, an id, what to do and a queue, as no real protocol has them.
func adoptWords(protocol, _ string) (func(line []byte) (Arrived, error), error) {
	if protocol != "words" {
		return nil, errors.New("it is not served")
	}
	return func(line []byte) (Arrived, error) {
		words := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
		if len(words) != 3 {
			return Arrived{}, errors.New("it has not three words")
		}
		a := Arrived{ID: words[0], Cmd: &job.Push{
			Spec: job.Spec{Namespace: "ns", Queue: words[2], Key: words[0]}, Past: &job.Past{State: job.Ready},
		}}
		switch words[1] {
		case "refuse":
			return a, errors.New("nobody wants it")
		case "partly":
			a.Lost = "its color"
		case "lock":
			until := job.TimeOf(time.Now().Add(time.Hour))
			a.Cmd = &job.Push{
				Spec: job.Spec{Namespace: "ns", Queue: words[2], Key: words[0], Lock: words[2]},
				Past: &job.Past{State: job.Ready, LockedUntil: until},
			}
		case "invalid":
			a.Cmd = &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q"}, Past: &job.Past{State: job.Leased}}
		case "pause":
			a.Cmd = &job.Pause{Namespace: "ns", Queue: words[2], Make: true}
		case "make":
			a.Cmd = &job.Configure{Namespace: "ns", Queue: words[2], Settings: job.Settings{Attrs: []byte("a")}}
		case "gone":
			a.Cmd, a.Gone = nil, true
		}
		return a, nil
	}, nil
}

func (f *fixture) migrate(query, text string) api.MigrationResult {
	f.t.Helper()
	r := request(f.t, "POST", "/api/v1/migrations/"+query, text)
	r.Header.Set("Content-Type", api.MediaLines)
	w := f.send(r)
	var out api.MigrationResult
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
		f.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return out
}

// jobs counts the jobs of a queue.
func (f *fixture) jobs(queue string) uint64 {
	f.t.Helper()
	q, err := f.service.Queue("ns", queue)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == 404 {
		return 0
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return q.Jobs
}

// What has arrived once does not arrive again: not in the same request, not in a later one, not after it was worked
// off, and not after a restart. Another source has ids of its own.
func TestMigrateOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
	long := strings.Repeat("x", 300)
	text := "1 push q\n2 partly q\n1 push q\n3 refuse q\n4 invalid q\n" + long + " push q\nwhat\np pause q\n"
	dry := f.migrate("old?protocol=words&dry_run=true", text)
	if dry.Lines != "aarxaaxa" || dry.Arrived != 5 || f.jobs("q") != 0 {
		t.Errorf("%+v, %d jobs", dry, f.jobs("q"))
	}
	out := f.migrate("old?protocol=words", text)
	if out.Lines != "aarxxaxa" || out.Arrived != 4 || out.Repeated != 1 || len(out.Refused) != 3 ||
		len(out.Partly) != 1 || out.Namespace != "ns" {
		t.Fatalf("%+v", out)
	}
	for i, want := range []api.MigrationLine{
		{Line: 4, ID: "3", Problem: "nobody wants it"},
		{Line: 7, ID: "", Problem: "it has not three words"},
		{
			Line: 5, ID: "4",
			Problem: "no job can begin in this state",
		},
	} {
		if out.Refused[i] != want {
			t.Errorf("%+v, want %+v", out.Refused[i], want)
		}
	}
	if q, err := f.service.Queue("ns", "q"); err != nil || q.Jobs != 3 || !q.Paused {
		t.Fatalf("%+v, %v", q, err)
	}
	f.do(&job.Resume{Namespace: "ns", Queue: "q"}, &job.Purge{Namespace: "ns", Queue: "q", State: job.Ready})
	again := f.migrate("old?protocol=words", text)
	if again.Lines != "rrrxxrxr" || again.Arrived != 0 || len(again.Partly) != 0 {
		t.Fatalf("%+v", again)
	}
	if q, err := f.service.Queue("ns", "q"); err != nil || q.Jobs != 0 || q.Paused {
		t.Fatalf("%+v, %v", q, err)
	}
	if other := f.migrate("other?protocol=words", "1 push q\n"); other.Arrived != 1 {
		t.Fatalf("%+v", other)
	}
	known, err := f.service.Migrations()
	if err != nil || len(known) != 2 || known[0].Source != "old" || known[0].Arrived != 4 || known[1].Arrived != 1 {
		t.Errorf("%+v, %v", known, err)
	}
}

// Of jobs that have the same lock one takes it, unless somebody has it here: all arrive, and what the others lack is
// told. What has arrived before takes no lock again.
func TestMigrateLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
	locked := &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "other", Lock: "here", LockFor: time.Hour}}
	f.do(locked)
	without := func(ids ...string) (lines []api.MigrationLine) {
		for _, id := range ids {
			lines = append(lines, api.MigrationLine{
				Line: int(id[0] - '0'), ID: id,
				Problem: "its unique lock: another job has it",
			})
		}
		return lines
	}
	text := "1 lock q\n2 lock here\n3 lock q\n4 push q\n5 lock free\n"
	for _, query := range []string{"old?protocol=words&dry_run=true", "old?protocol=words"} {
		out := f.migrate(query, text)
		if out.Lines != "aaaaa" || !slices.Equal(out.Partly, without("2", "3")) {
			t.Errorf("%+v", out)
		}
	}
	if out := f.migrate("old?protocol=words", text); out.Lines != "rrrrr" || len(out.Partly) != 0 {
		t.Errorf("%+v", out)
	}
	takes := func(lock string) *job.Push {
		return &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "x", Lock: lock, LockFor: time.Hour}}
	}
	for _, lock := range []string{"q", "here", "free"} {
		if r := f.engine.NewCaller().Do(t.Context(), takes(lock))[0]; r.Err != job.ErrLocked {
			t.Errorf("%s: %v", lock, r.Err)
		}
	}
	// The job that has the lock comes first, and its end ends the lock.
	r := f.engine.NewCaller().Do(t.Context(), &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 3})[0]
	if r.Err != nil || len(r.Jobs) != 3 || r.Jobs[0].Key != "1" {
		t.Fatalf("%+v", r)
	}
	for _, i := range []int{1, 2, 0} {
		j := &r.Jobs[i]
		if r := f.engine.NewCaller().Do(t.Context(), takes("q"))[0]; r.Err != job.ErrLocked {
			t.Errorf("before the end of %s: %v", j.Key, r.Err)
		}
		f.do(&job.Ack{Ref: job.ByID("ns", "q", j.ID)})
	}
	if out := f.migrate("old?protocol=words", text); out.Lines != "rrrrr" || len(out.Partly) != 0 {
		t.Errorf("%+v", out)
	}
	f.do(takes("q"))
}

// A lock that somebody takes after it was looked for keeps no job from arriving.
func TestMigrateLockRace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	f.do(&job.Push{Spec: job.Spec{Namespace: "ns", Queue: "other", Lock: "b", LockFor: time.Hour}})
	adopt, err := adoptWords("words", "")
	if err != nil {
		t.Fatal(err)
	}
	im := &migration{s: f.service, o: api.MigrationOptions{Source: "old"}, known: &api.Migration{Source: "old"}}
	for i, text := range []string{"1 lock a", "2 lock b", "3 lock b", "4 lock c"} {
		a, err := adopt([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		im.taken = append(im.taken, takenLine{i, a.ID, a.Cmd, &job.SetValue{Space: "s", Name: a.ID}})
	}
	if err := im.push(t.Context()); err != nil || im.out.Arrived != 4 || len(im.out.Refused) != 0 ||
		len(im.out.Partly) != 2 ||
		im.out.Partly[0].Line != 2 || im.out.Partly[1].ID != "3" {
		t.Errorf("%+v, %v", im.out, err)
	}
	if n := f.jobs("b"); n != 2 {
		t.Errorf("%d jobs, want both", n)
	}
}

// An id that a source uses again names another job once the first is told to be gone.
func TestMigrateGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
	f.migrate("old?protocol=words", "1 push q\n2 push q\n")
	if dry := f.migrate("old?protocol=words&dry_run=true", "1 gone q\n"); dry.Lines != "g" {
		t.Errorf("%+v", dry)
	}
	if out := f.migrate("old?protocol=words", "1 gone q\n3 gone q\n"); out.Lines != "gg" || out.Arrived != 0 {
		t.Errorf("%+v", out)
	}
	if known, err := f.service.Migrations(); err != nil || known[0].Arrived != 1 {
		t.Errorf("%+v, %v", known, err)
	}
	if out := f.migrate("old?protocol=words", "1 push q\n2 push q\n"); out.Lines != "ar" || f.jobs("q") != 3 {
		t.Errorf("%+v, %d jobs", out, f.jobs("q"))
	}
}

// A queue that is to be made is made once, also if only the mark of it is missing, and one that is here stays as it is.
func TestMigrateQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
	f.do(&job.Configure{Namespace: "ns", Queue: "q", Settings: job.Settings{Attrs: []byte("b")}})
	if out := f.migrate("old?protocol=words", "q make q\nr make r\n1 push q\n"); out.Lines != "aaa" {
		t.Errorf("%+v", out)
	}
	if again := f.migrate("old?protocol=words", "q make q\nr make r\n"); again.Lines != "rr" {
		t.Errorf("%+v", again)
	}
	for queue, want := range map[string]string{"q": "b", "r": "a"} {
		if q, ok, err := f.engine.Queue("ns", queue); err != nil || !ok || string(q.Settings.Attrs) != want {
			t.Errorf("%s: %+v, %v", queue, q, err)
		}
	}
}

// Requests that say the same at the same time bring everything once.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
	const count = 3*migrationStep + 7
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "%d push q\n", i)
	}
	var all sync.WaitGroup
	for range importAtOnce {
		all.Go(func() { f.migrate("old?protocol=words", text.String()) })
	}
	all.Wait()
	if n := f.jobs("q"); n != count {
		t.Errorf("%d jobs, want %d", n, count)
	}
}

// A source is forgotten when it is asked for, in pieces, and some time after its last request.
func TestMigrateForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
		var text strings.Builder
		for i := range dropStep + 10 {
			fmt.Fprintf(&text, "%d push q\n", i)
		}
		f.migrate("old?protocol=words", text.String())
		for _, done := range []bool{false, true} {
			got, err := f.service.ForgetMigration(t.Context(), "old")
			if err != nil || got != done {
				t.Fatalf("%v, %v", got, err)
			}
		}
		if _, err := f.service.ForgetMigration(t.Context(), "old"); err == nil {
			t.Error("it is forgotten twice")
		}
		f.migrate("old?protocol=words", "1 push q\n")
		if n := f.jobs("q"); n != dropStep+11 {
			t.Errorf("%d jobs", n)
		}
		testkit.Advance(t, arrivedFor-time.Minute)
		f.migrate("new?protocol=words", "1 push q\n")
		if known, err := f.service.Migrations(); err != nil || len(known) != 2 {
			t.Errorf("%+v, %v", known, err)
		}
		testkit.Advance(t, 2*time.Minute)
		f.migrate("new?protocol=words", "2 push q\n")
		if known, err := f.service.Migrations(); err != nil || len(known) != 1 || known[0].Source != "new" {
			t.Errorf("%+v, %v", known, err)
		}
		if values, err := f.engine.Values(arrivedSpace+"old", "", 0); err != nil || len(values) != 0 {
			t.Errorf("%d marks, %v", len(values), err)
		}
		f.close()
	})
}

func TestMigrateRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Adopt: adoptWords}, HandlerOptions{})
	f.migrate("old?protocol=words", "1 push q\n")
	for target, want := range map[string]struct {
		text, detail string
	}{
		"old?protocol=none":             {"", "it is not served"},
		"o%20d?protocol=words":          {"", "source: write letters"},
		"old?protocol=words&dry_run=no": {"", "dry_run"},
		"old?protocol=words":            {strings.Repeat("\n", migrationLineMax+1), "at most 10000 lines"},
	} {
		r := request(t, "POST", "/api/v1/migrations/"+target, want.text)
		r.Header.Set("Content-Type", api.MediaLines)
		if p := mustProblem(t, f.send(r)); !strings.Contains(p.Detail, want.detail) {
			t.Errorf("%s: %+v", target, p)
		}
	}
	f.do(&job.SetValue{Space: migrationSpace, Name: "taken", Value: []byte(`{"source":"taken","protocol":"other"}`)})
	r := request(t, "POST", "/api/v1/migrations/taken?protocol=words", "1 push q\n")
	r.Header.Set("Content-Type", api.MediaLines)
	if p := mustProblem(t, f.send(r)); !strings.Contains(p.Detail, "choose another name") {
		t.Errorf("%+v", p)
	}
	f.do(&job.SetValue{
		Space: migrationSpace, Name: "taken",
		Value: fmt.Appendf(nil, `{"source":"taken","protocol":"words","arrived":%d}`, arrivedMax),
	})
	r = request(t, "POST", "/api/v1/migrations/old?protocol=words", "2 push q\n")
	r.Header.Set("Content-Type", api.MediaLines)
	if p := mustProblem(t, f.send(r)); p.Status != 429 || !strings.Contains(p.Detail, "forget a source") {
		t.Errorf("%+v", p)
	}
}
