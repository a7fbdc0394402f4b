package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/store/storetest"
)

// bondedServer is a server that has one of everything that ties jobs to others.
func bondedServer(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, Options{}, HandlerOptions{})
	spec := func(queue, body string) job.Spec {
		return job.Spec{Namespace: "ns", Queue: queue, Body: []byte(body), BodyKind: job.BodyBytes, Policy: job.Policy{
			MaxFails: 2, Exhaust: job.ExhaustDead, Backoff: job.Backoff{Unit: time.Hour},
		}}
	}
	push := func(s job.Spec) job.ID {
		return f.do(&job.Push{Spec: s})[0].ID
	}
	after := func(s job.Spec, ids ...job.ID) job.Spec {
		for _, id := range ids {
			j, err := f.engine.Get(job.ByID("ns", "", id))
			if err != nil {
				t.Fatal(err)
			}
			s.BlockedBy = append(s.BlockedBy, job.Blocker{QueueNum: j.QueueNum, ID: id})
		}
		return s
	}
	// Queues: the names put those that wait before those that they wait for.
	f.do(
		&job.Configure{
			Namespace: "ns", Queue: "z",
			Settings: job.Settings{Capacity: 1000, Attrs: []byte{1}, OnePerGroup: true},
		},
		&job.SetLimits{
			Namespace: "ns", Queue: "z",
			Limits: job.Limits{Concurrency: 3, Rate: 5, Per: time.Minute, Burst: 2},
		},
		&job.SetFair{Namespace: "ns", Queue: "z", Fairness: job.Fairness{On: true, Weights: map[string]uint32{"g": 2}}},
		&job.Pause{Namespace: "ns", Queue: "paused", Make: true},
		&job.SetHooks{Hooks: []job.Hook{{
			Namespace: "ns", Queue: "nobody",
			Job: job.Spec{Namespace: "ns", Queue: "graves", Type: hookType},
		}}},
	)
	first, second := push(spec("z", "first")), push(spec("z", "second"))
	third := push(after(spec("m", "third"), first, second))
	push(after(spec("a", "fourth"), third))
	push(after(spec("b", "fifth"), second, third))
	locked := spec("z", "locked")
	locked.Lock, locked.LockFor, locked.LockUntil = "lock", time.Hour, job.LockUntilFetch
	push(locked)

	// A batch with a child. Of its jobs one has succeeded, one has failed, one is gone, one waits.
	keep := 30 * 24 * time.Hour
	batch := func(parent job.BatchID, text string) job.BatchID {
		done, good := spec("callbacks", text+" complete"), spec("callbacks", text+" success")
		return f.do(&job.NewBatch{
			Namespace: "ns", Parent: parent, Text: text, Complete: &done, Success: &good, OpenFor: keep,
			KeepFor: keep, KeepDone: keep,
		})[0].Batch
	}
	join := func(id job.BatchID, body string) job.ID {
		s := spec("batch", body)
		s.Batch = id
		return push(s)
	}
	parent := batch(0, "parent")
	child := batch(parent, "child")
	f.do(&job.Ack{Ref: job.ByID("ns", "batch", join(parent, "acked")), Need: job.NeedAny})
	f.do(&job.Fail{Ref: job.ByID("ns", "batch", join(parent, "failed")), Need: job.NeedAny})
	f.do(&job.Delete{Ref: job.ByID("ns", "batch", join(parent, "gone")), Need: job.NeedAny})
	join(parent, "waits")
	f.do(&job.Ack{Ref: job.ByID("ns", "batch", join(child, "of child")), Need: job.NeedAny})
	// The child has called back.
	f.do(&job.CommitBatch{Namespace: "ns", Batch: child}, &job.CommitBatch{Namespace: "ns", Batch: parent})
	batch(0, "open")

	// Cron entries: one whose job is there, one that is paused.
	tick := job.Schedule{
		Namespace: "ns", Name: "nightly", When: "0 3 * * *", Zone: "Europe/Berlin",
		Overlap: job.OverlapSkip, Job: spec("z", "tick"),
	}
	idle := tick
	idle.Name, idle.Paused = "idle", true
	f.do(&job.SetSchedules{Entries: []job.Schedule{tick, idle}})
	f.do(&job.RunSchedule{Namespace: "ns", Name: "nightly"})
	return f
}

func (f *fixture) export() string {
	f.t.Helper()
	return f.call("GET", "/api/v1/export", "").Body.String()
}

var numbers = regexp.MustCompile(`"(id|batch|parent|job)":\d+|"blocked_by":\[[\d,]+\]|"(cursor|crc32c)":"[^"]*"|"(examined|jobs|total)":\d+`)

// An empty server imports exactly what was exported, except for ids: the export of the copy has the same lines. A copy
// of the copy has the same ids, too.
func TestTransferWhole(t *testing.T) {
	t.Parallel()
	from, to, third := bondedServer(t), newFixture(t, Options{}, HandlerOptions{}), newFixture(t,
		Options{}, HandlerOptions{})
	text := from.export()
	checkLines(t, text)
	out := to.importLines("/api/v1/imports/x", text)
	if len(out.Refused)+len(out.Partly) != 0 || out.Queues != 2 || out.Hooks != 1 || out.Batches != 3 || out.Cron != 2 {
		t.Fatalf("%+v", out)
	}
	copied := to.export()
	sameLines(t, copied, text)
	third.importLines("/api/v1/imports/x", copied)
	sameLines(t, third.export(), copied)
	if values, err := to.engine.Values(madeSpace+"x", "", 0); err != nil || len(values) != 0 {
		t.Errorf("%d values are left, %v", len(values), err)
	}
	// Importing it once more changes nothing that has a name: batches and cron entries are there.
	again := to.importLines("/api/v1/imports/again", text)
	if again.Batches != 0 || again.Cron != 0 || len(again.Refused) != 1 ||
		!strings.Contains(again.Refused[0].Problem, "holds the lock") {
		t.Errorf("%+v", again)
	}
	worksOff(t, third)
}

// worksOff has a worker do everything that is there, and looks at the order and at the callbacks.
func worksOff(t *testing.T, f *fixture) {
	t.Helper()
	f.do(&job.SetLimits{Namespace: "ns", Queue: "z"})
	place := map[string]int{}
	for {
		queues := []string{"z", "m", "a", "b", "batch", "callbacks"}
		r := f.engine.NewCaller().Do(t.Context(),
			&job.Fetch{Namespace: "ns", Queues: queues, Max: 1, DefaultLease: time.Hour})[0]
		if len(r.Jobs) == 0 {
			break
		}
		place[string(r.Jobs[0].Body)] = len(place) + 1
		f.do(&job.Ack{Ref: r.Jobs[0].Ref(), Need: job.NeedAny})
	}
	for _, p := range [][2]string{
		{"first", "third"},
		{"second", "third"},
		{"third", "fourth"},
		{"third", "fifth"},
		{"child complete", "child success"},
		{"waits", "parent complete"},
	} {
		if a, b := place[p[0]], place[p[1]]; a == 0 || b == 0 || a > b {
			t.Errorf("%q comes at %d, %q at %d", p[0], a, p[1], b)
		}
	}
	if place["parent success"] != 0 {
		t.Error("a batch of which a job is gone has succeeded")
	}
	info, ok, err := f.engine.Schedule("ns", "nightly")
	if err != nil || !ok || info.Running != 0 || info.Stopped || info.Next == 0 || len(info.Runs) != 1 ||
		info.Runs[0].Outcome != job.Succeeded {
		t.Errorf("%+v, %v", info, err)
	}
}

// sameLines compares exports without ids.
func sameLines(t *testing.T, got, want string) {
	t.Helper()
	a, b := strings.Split(numbers.ReplaceAllString(got, `"$1":0`),
		"\n"), strings.Split(numbers.ReplaceAllString(want, `"$1":0`), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("line %d differs:\n%s\nwant\n%s", i+1, got, want)
		}
	}
}

// checkLines asserts that a line comes behind what it names, and that the marks tell what is there.
func checkLines(t *testing.T, text string) {
	t.Helper()
	seen := map[job.ID]bool{}
	var sum uint32
	var count uint64
	for line := range strings.Lines(text) {
		var r api.Record
		var m api.ExportMark
		if strings.HasPrefix(line, `{"mark"`) {
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Lines != count ||
				m.Checksum != api.ShowChecksum(sum) {
				t.Errorf("%s: %d lines with checksum %s, %v", line, count, api.ShowChecksum(sum), err)
			}
			continue
		}
		sum, count = api.Checksum(sum, []byte(line)), count+1
		if strings.HasPrefix(line, `{"kind"`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		for _, id := range r.BlockedBy {
			if !seen[id] {
				t.Errorf("job %d comes before job %d, for which it waits", r.ID, id)
			}
		}
		seen[r.ID] = true
	}
}

// An import that ends with the server, at whichever commit, goes on with the same request, and what is there in the end
// is the same.
func TestTransferWholeInterrupted(t *testing.T) {
	t.Parallel()
	text := bondedServer(t).export()
	failed := errors.New("power cut")
	for n, finished := 1, false; !finished; n++ {
		mem := memstore.New()
		st := storetest.NewFaulty(mem)
		e, err := engine.Open(engine.Options{Store: st})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Engine: e, SampleEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		st.Fail(storetest.CallCommit, n, failed)
		_, err = s.ImportLines(t.Context(), api.ImportOptions{Token: "x", Line: 1}, []byte(text))
		finished = err == nil
		s.Close()
		_ = e.Close() // which tells of it once more
		f := openFixture(t, mem, Options{}, HandlerOptions{})
		if out := f.importLines("/api/v1/imports/x", text); len(out.Refused)+len(out.Partly) != 0 {
			t.Errorf("commit %d: %+v", n, out)
		}
		sameLines(t, f.export(), text)
	}
}

// Lines in requests of their own mean the same as all in one.
func TestTransferWholeByLine(t *testing.T) {
	t.Parallel()
	text := bondedServer(t).export()
	to := newFixture(t, Options{}, HandlerOptions{})
	for i, line := range strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n") {
		if out := to.importLines(fmt.Sprintf("/api/v1/imports/x?line=%d", i+1),
			line); len(out.Refused)+len(out.Partly) != 0 {
			t.Fatalf("%s: %+v", line, out)
		}
	}
	sameLines(t, to.export(), text)
}

// What names something that an import has not brought is told: a job that waits is refused, one of a batch comes
// without it.
func TestTransferWithoutOthers(t *testing.T) {
	t.Parallel()
	from, to := bondedServer(t), newFixture(t, Options{}, HandlerOptions{})
	out := to.importLines("/api/v1/imports/x", from.call("GET", "/api/v1/export?queue=a", "").Body.String())
	if out.Imported != 0 || len(out.Refused) != 1 ||
		!strings.Contains(out.Refused[0].Problem, "waits for job 3, which this import has not brought") {
		t.Errorf("%+v", out)
	}
	out = to.importLines("/api/v1/imports/y", from.call("GET", "/api/v1/export?queue=batch", "").Body.String())
	if out.Imported != 2 || len(out.Partly) != 2 || !strings.Contains(out.Partly[0].Problem, "its batch") {
		t.Errorf("%+v", out)
	}
	if mark, err := to.service.Import("y"); err != nil || len(mark.Partly) != 2 {
		t.Errorf("%+v, %v", mark, err)
	}
	// A cron entry, a hook, and settings of a queue, that are others here.
	to.do(&job.SetHooks{Hooks: []job.Hook{{
		Namespace: "ns", Queue: "nobody",
		Job: job.Spec{Namespace: "ns", Queue: "other"},
	}}})
	to.do(&job.SetSchedules{Entries: []job.Schedule{{
		Namespace: "ns", Name: "idle", When: "@daily",
		Job: job.Spec{Queue: "q"},
	}}})
	to.do(&job.SetLimits{Namespace: "ns", Queue: "z", Limits: job.Limits{Worker: 1}})
	out = to.importLines("/api/v1/imports/z", from.export())
	if len(out.Refused) != 3 || !strings.Contains(out.Refused[0].Problem, "other limits") ||
		!strings.Contains(out.Refused[1].Problem, "another hook") ||
		!strings.Contains(out.Refused[2].Problem, "another cron entry") {
		t.Errorf("%+v", out)
	}
}
