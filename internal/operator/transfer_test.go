package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// importLines imports lines and returns what became of them.
func (f *fixture) importLines(target, text string) api.ImportResult {
	f.t.Helper()
	r := request(f.t, "POST", target, text)
	r.Header.Set("Content-Type", api.MediaLines)
	w := f.send(r)
	var out api.ImportResult
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
		f.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return out
}

// What is exported and imported is the same, line by line, except for the id of a job; what was leased is ready.
func TestTransfer(t *testing.T) {
	t.Parallel()
	from, to := newFixture(t, Options{}, HandlerOptions{}), newFixture(t, Options{}, HandlerOptions{})
	from.allStates("q")
	from.manyPasts()
	text := from.call("GET", "/api/v1/export", "").Body.String()
	before, marks := lines(t, text)
	if len(before) != 37 || len(marks) != 1 || marks[0].Mark != api.MarkEnd || marks[0].Jobs != 37 ||
		marks[0].Total != 37 {
		t.Fatalf("%d jobs, marks %+v", len(before), marks)
	}
	doc := testkit.LoadOpenAPI(t, Document)
	for line := range strings.Lines(text) {
		var value any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			t.Fatal(err)
		}
		if problem := doc.Check(testkit.Schema{"oneOf": []any{
			map[string]any{"$ref": "#/components/schemas/Record"},
			map[string]any{"$ref": "#/components/schemas/QueueRecord"},
			map[string]any{"$ref": "#/components/schemas/ExportMark"},
		}}, value); problem != "" {
			t.Errorf("%s: %s", line, problem)
		}
	}

	began := time.Now()
	out := to.importLines("/api/v1/imports/one", text)
	if out.Line != 38 || out.Imported != 37 || out.Marks != 1 || len(out.Refused) != 0 {
		t.Fatalf("%+v", out)
	}
	after, _ := lines(t, to.call("GET", "/api/v1/export", "").Body.String())
	if len(after) != len(before) {
		t.Fatalf("%d jobs, of %d", len(after), len(before))
	}
	for i := range after {
		if before[i].State == "running" {
			if after[i].Since.Before(began.Truncate(time.Microsecond)) {
				t.Errorf("ready since %s", after[i].Since)
			}
			before[i].State, before[i].Since, after[i].Since = "ready", nil, nil
		}
		if got, want := fresh(t, after[i]), fresh(t, before[i]); got != want {
			t.Errorf("imported as\n%s\nwant\n%s", got, want)
		}
	}
	// A copy of the copy has the same ids, too.
	third := newFixture(t, Options{}, HandlerOptions{})
	text = to.call("GET", "/api/v1/export", "").Body.String()
	third.importLines("/api/v1/imports/one", text)
	if got := third.call("GET", "/api/v1/export", "").Body.String(); got != text {
		t.Errorf("imported once more:\n%s\nwant\n%s", got, text)
	}
}

// manyPasts pushes jobs that have all that a job can have, and all kinds of bodies.
func (f *fixture) manyPasts() {
	f.t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	at := func(d time.Duration) job.Time { return job.TimeOf(now.Add(d)) }
	rich := job.Spec{
		Namespace: "ns", Queue: "rich", Type: "T", Group: "g", Body: []byte(`{"a":"<b>"}`), BodyKind: job.BodyJSON,
		Extra: []byte{0, 1}, Origin: 3,
		Numbered: true, Tracked: true, Fingerprint: job.Digest{1, 2}, RunAt: at(time.Hour), Policy: job.Policy{
			Priority: -3, Lease: 90 * time.Second, ExpireAt: at(2 * time.Hour), Expiry: job.ExpireWaiting,
			MaxAttempts: 4, MaxFails: 7,
			Backoff: job.Backoff{
				Unit: 100 * time.Millisecond, Power: 2, Skip: 1, Base: time.Second,
				Jitter: 5, Floor: true,
			},
			Lapse: job.LapseFail, Requeue: job.PlaceOld, Due: job.PlaceSched, Exhaust: job.ExhaustMove,
			DeadQueue: "dead", DeadFor: time.Hour,
			DeadMax: 2, DeadSlots: true, Keep: true,
		},
	}
	past := job.Past{
		Created: at(-time.Hour), Since: at(-time.Minute), Attempts: 3, Fails: 2, Buries: 1, Lapses: 4, Releases: 5,
		Kicks: 6, Delay: 90 * time.Second,
		Failures: []job.Failure{
			{At: at(-time.Hour), Kind: job.FailedByEnd},
			{At: at(-time.Minute), Type: "T", Message: "m", Backtrace: []string{"a", "b"}},
		},
	}
	var cmds []job.Command
	for _, state := range []job.State{
		job.Scheduled, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed,
		job.Dead, job.Dead,
	} {
		s, p := rich, past
		s.Key, p.State = fmt.Sprintf("k%d", len(cmds)), state
		if state.Finished() {
			p.Result = []byte{0, 1}
		}
		cmds = append(cmds, &job.Push{Spec: s, Past: &p})
	}
	// The order of ready jobs, and where one goes that was released for a while.
	for _, p := range []job.Past{
		{State: job.Ready, Rank: -1, At: at(-time.Hour)},
		{State: job.Ready, Rank: -2},
		{State: job.Ready, Rank: 3},
		{State: job.Buried, Rank: 2},
		{State: job.Buried, BuriedLast: true},
		{State: job.Scheduled, Rank: -1, OldPlace: true},
	} {
		s := job.Spec{Namespace: "ns", Queue: "order", RunAt: at(2 * time.Hour)}
		cmds = append(cmds, &job.Push{Spec: s}, &job.Push{Spec: s, Past: &p})
	}
	never := rich
	never.RunAt = job.Never
	cmds = append(cmds, &job.Push{Spec: never})
	for _, body := range []job.Spec{
		{Body: []byte(" [1, 2]"), BodyKind: job.BodyArgs},
		{Body: []byte{0xff, 0}},
		{Body: []byte("text\n")},
		{Body: []byte{}},
		{},
		{Body: []byte{0x91, 1}, BodyKind: job.BodyMsgpack},
		{Body: []byte("[1]"), BodyKind: job.BodyArgs},
	} {
		body.Namespace, body.Queue = "ns", "bodies"
		if body.Body != nil && body.BodyKind == job.BodyNone {
			body.BodyKind = job.BodyBytes
		}
		cmds = append(cmds, &job.Push{Spec: body})
	}
	f.do(cmds...)
}

// fresh leaves out what an imported job has another of.
func fresh(t *testing.T, r api.Record) string {
	t.Helper()
	r.ID = 0
	for i := range r.BlockedBy {
		r.BlockedBy[i] = 1
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A request that is repeated imports nothing twice, and one that leaves lines out is refused.
func TestImportRepeated(t *testing.T) {
	t.Parallel()
	from, f := newFixture(t, Options{}, HandlerOptions{}), newFixture(t, Options{}, HandlerOptions{})
	for range 5 {
		from.push(job.Spec{})
	}
	all := strings.SplitAfter(from.call("GET", "/api/v1/export", "").Body.String(), "\n")
	first := strings.Join(all[:3], "")
	if out := f.importLines("/api/v1/imports/x", first); out.Imported != 3 || out.Line != 3 {
		t.Errorf("%+v", out)
	}
	if out := f.importLines("/api/v1/imports/x", first); out.Imported != 0 || out.Repeated != 3 || out.Line != 3 {
		t.Errorf("%+v", out)
	}
	var mark api.ImportMark
	f.want(200, "GET", "/api/v1/imports/x", "", &mark)
	if mark.Line != 3 {
		t.Errorf("%+v", mark)
	}
	gap := request(t, "POST", "/api/v1/imports/x?line=5", all[4])
	gap.Header.Set("Content-Type", api.MediaLines)
	if w := f.send(gap); w.Code != 409 || !strings.Contains(w.Body.String(), "go on with line 4") {
		t.Errorf("a gap: %d %s", w.Code, w.Body)
	}
	if out := f.importLines("/api/v1/imports/x?line=3", strings.Join(all[2:], "")); out.Imported != 2 ||
		out.Repeated != 1 || out.Line != 6 {
		t.Errorf("%+v", out)
	}
	if q, err := f.service.Queue("ns", "q"); err != nil || q.Jobs != 5 {
		t.Errorf("%d jobs, %v", q.Jobs, err)
	}
	// Another import of the same is another.
	if out := f.importLines("/api/v1/imports/y", first); out.Imported != 3 {
		t.Errorf("%+v", out)
	}
}

// Jobs with a key that is taken are not imported, unless that is asked for.
func TestImportKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	f.push(job.Spec{Key: "k"})
	text := f.call("GET", "/api/v1/export", "").Body.String()
	if out := f.importLines("/api/v1/imports/x", text); out.Imported != 0 || out.Existed != 1 {
		t.Errorf("%+v", out)
	}
	if out := f.importLines("/api/v1/imports/y?duplicates", text); out.Imported != 1 {
		t.Errorf("%+v", out)
	}
}

func TestImportRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	good := `{"id":1,"namespace":"ns","queue":"q","state":"ready","pushed_by":"x","policy":{"expiry":"always","lapse":"fail","exhaust":"drop","requeue":"tail","due":"tail"}`
	swap := func(old, with string) string { return strings.Replace(good, old, with, 1) + "}" }
	bad := []struct{ line, want string }{
		{`nonsense`, "cannot be read"},
		{`{"colour":1}`, "there is no field"},
		{`[]`, "cannot be read"},
		{swap(`"q"`, `""`), "queue: it is missing"},
		{swap(`"ready"`, `"red"`), "none of scheduled"},
		{swap(`"drop"`, `"x"`), `policy: exhaust: "x"`},
		{good + `,"like":"zz"}`, "like"},
		{swap(`"drop"`, `"drop","lease_seconds":-1`), "must not be negative"},
		{good + `,"body":1,"body_text":"x"}`, "name one"},
		{good + `,"key":"` + strings.Repeat("x", textMax+1) + `"}`, "key is longer"},
		{good + `,"failures":[{"kind":"what"}]}`, `failures: kind: "what"`},
		{swap(`"ready"`, `"blocked"`), "it waits for other jobs"},
		{good + `,"result_base64":"AA=="}`, "only a finished job has a result"}, // the engine says so
	}
	var text strings.Builder
	for _, b := range bad {
		text.WriteString(b.line + "\n")
	}
	text.WriteString(good + "}\n")
	out := f.importLines("/api/v1/imports/x", text.String())
	if out.Imported != 1 || len(out.Refused) != len(bad) {
		t.Fatalf("%+v", out)
	}
	for i, r := range out.Refused {
		if r.Line != uint64(i)+1 || !strings.Contains(r.Problem, bad[i].want) {
			t.Errorf("%d: %+v, want %q", i, r, bad[i].want)
		}
	}
	for _, target := range []string{
		"/api/v1/imports/a.b", "/api/v1/imports/x?line=0", "/api/v1/imports/x?line=x",
		"/api/v1/imports/x?duplicates=maybe",
	} {
		r := request(t, "POST", target, good)
		r.Header.Set("Content-Type", api.MediaLines)
		if w := f.send(r); w.Code != 400 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	r := request(t, "POST", "/api/v1/imports/z", strings.Repeat("\n", importLineMax+1))
	r.Header.Set("Content-Type", api.MediaLines)
	if w := f.send(r); w.Code != 400 {
		t.Errorf("too many lines: %d %s", w.Code, w.Body)
	}
}

// Old imports are forgotten.
func TestImportForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	old, err := json.Marshal(api.ImportMark{Line: 7, At: time.Now().Add(-importKeptFor - time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	f.do(&job.SetValue{Space: importSpace, Name: "old", Value: old},
		&job.SetValue{Space: importSpace, Name: "broken", Value: []byte("x")})
	f.want(409, "GET", "/api/v1/imports/broken", "", nil)
	f.importLines("/api/v1/imports/new", "\n")
	for _, token := range []string{"old", "broken"} {
		if m, err := f.service.Import(token); err != nil || m.Line != 0 {
			t.Errorf("%s: %+v, %v", token, m, err)
		}
	}
}

// An export that was cut off goes on behind its last mark.
func TestExportResumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	const jobs = exportChunk + 100
	for i := range jobs {
		f.push(job.Spec{Queue: fmt.Sprintf("q%d", i%3)})
	}
	whole, marks := lines(t, f.call("GET", "/api/v1/export", "").Body.String())
	if len(whole) != jobs || len(marks) != 2 || marks[0].Mark != api.MarkCursor || marks[0].Jobs != exportChunk {
		t.Fatalf("%d jobs, %+v", len(whole), marks)
	}
	rest, more := lines(t, f.call("GET", "/api/v1/export?cursor="+marks[0].Cursor, "").Body.String())
	if len(rest) != 100 || len(more) != 1 || more[0].Mark != api.MarkEnd ||
		!reflect.DeepEqual(rest, whole[exportChunk:]) {
		t.Errorf("%d jobs, %+v", len(rest), more)
	}
	some, _ := lines(t, f.call("GET", "/api/v1/export?queue=q1&state=ready", "").Body.String())
	if len(some) != jobs/3 {
		t.Errorf("%d jobs of one queue", len(some))
	}
	for _, bad := range []string{"?cursor=x", "?queue=q1&cursor=" + marks[0].Cursor, "?state=red", "?batch=x"} {
		if w := f.call("GET", "/api/v1/export"+bad, ""); w.Code != 400 {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	stop := errors.New("enough")
	err := f.service.Export(t.Context(), api.Filter{}, "", func([]byte) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	if err := f.service.Export(t.Context(), api.Filter{Ref: "1"}, "", nil); err == nil {
		t.Error("an export by reference")
	}
}

// FuzzImport imports into an engine: no line does harm, and what is imported can be exported.
func FuzzImport(f *testing.F) {
	for _, line := range []string{
		`{"id":1,"namespace":"ns","queue":"q","state":"dead","pushed_by":"x","policy":{"expiry":"always","lapse":"fail","exhaust":"dead","requeue":"tail","due":"tail","max_fails":1},"failures":[{"kind":"worker"}]}`,
		`{"namespace":"ns","queue":"q","state":"scheduled","run_at":"9999-12-31T23:59:59Z","body":[1],"body_kind":"args","like":"00"}`,
		`{"kind":"queue","namespace":"ns","queue":"q","configured":true,"capacity":1,"paused":true,"limits":{"rate":"1/s"}}`,
		`{"kind":"batch","id":1,"namespace":"ns","acked":1,"complete":"waiting","success":"waiting","open_for":"1h","keep_for":"1h","keep_done":"1h"}
{"id":2,"namespace":"ns","queue":"q","state":"ready","batch":1,"blocks":true,"policy":{"expiry":"always","lapse":"fail","exhaust":"dead","requeue":"tail","due":"tail"}}
{"id":3,"namespace":"ns","queue":"q","state":"blocked","blocked_by":[2],"policy":{"expiry":"always","lapse":"fail","exhaust":"dead","requeue":"tail","due":"tail"}}
{"kind":"batch_end","id":1,"namespace":"ns","total":3}`,
		`{"mark":"end"}`, `null`, ``, `{"policy":{"lease_seconds":1e308,"backoff":{"unit_seconds":-1e308}}}`,
	} {
		f.Add([]byte(line))
	}
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(Options{Engine: e, SampleEvery: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		s.Close()
		_ = e.Close() // nothing is to be kept
	})
	var token atomic.Uint64
	f.Fuzz(func(t *testing.T, line []byte) {
		o := api.ImportOptions{Token: fmt.Sprint(token.Add(1)), Line: 2, Duplicates: true}
		e.NewCaller().Do(t.Context(), &job.SetValue{Space: importSpace, Name: o.Token, Value: []byte(`{"line":1}`)})
		out, err := s.ImportLines(t.Context(), o, line)
		if err != nil {
			if _, refused := errors.AsType[*api.Problem](err); !refused {
				t.Fatal(err)
			}
			return
		}
		if n := uint64(bytes.Count(line, []byte("\n"))) + 2; out.Line > n {
			t.Errorf("line %d of %d", out.Line, n)
		}
		if err := s.Export(t.Context(), api.Filter{}, "", func([]byte) error { return nil }); err != nil {
			t.Error(err)
		}
		for _, q := range mustQueues(t, e) {
			e.NewCaller().Do(t.Context(), &job.Remove{Namespace: q.Namespace, Queue: q.Name})
		}
		e.NewCaller().Do(t.Context(), &job.DropValue{Space: importSpace, Name: o.Token})
	})
}

func mustQueues(t *testing.T, e *engine.Engine) []job.QueueInfo {
	t.Helper()
	infos, err := e.Queues("", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return infos
}
