package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// workAsks call what workers call, for the test of the document.
func workAsks(t *testing.T, f, full *fixture) []ask {
	t.Helper()
	var asks []ask
	for _, verb := range []string{"ack", "fail", "extend", "release"} {
		f.push(job.Spec{Queue: "work", Body: []byte(`{"a":1}`)})
		w := f.work(`{"queues":["work"],"lease_seconds":60}`)
		if len(w.Jobs) != 1 {
			t.Fatalf("%d jobs", len(w.Jobs))
		}
		path := fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/%s", w.Jobs[0].ID, verb)
		named := fmt.Sprintf(`{"queue":"work","holder":%q}`, w.Holder)
		asks = append(
			asks, ask{"POST", path, `{"queue":"work","holder":"1-1"}`, 409, ""}, ask{"POST", path, named, 200, ""},
			ask{"POST", "/api/v1/namespaces/ns/jobs/4711/" + verb, named, 404, ""}, ask{"POST", path, named, 503, "stopped"},
		)
	}
	f.do(&job.Configure{Namespace: "ns", Queue: "small", Settings: job.Settings{Capacity: 1}})
	f.push(job.Spec{Queue: "small"})
	for range importAtOnce {
		full.service.work.imports <- struct{}{}
	}
	dir := "copy"
	return append(asks, []ask{
		{"POST", "/api/v1/namespaces/ns/queues/pushed/jobs", `{"jobs":[{"body":{"x":1},"key":"k","unique":true},{"body_text":"x","key":"k","unique":true}]}`, 200, ""},
		{"POST", "/api/v1/namespaces/ns/queues/small/jobs", `{"jobs":[{}]}`, 409, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/jobs", `{"jobs":[{}]}`, 503, "stopped"},
		{"POST", "/api/v1/namespaces/ns/fetch", `{"queues":["pushed"],"max":3,"wait_seconds":1}`, 200, ""},
		{"POST", "/api/v1/namespaces/ns/fetch", `{"queues":["none"]}`, 200, ""},
		{"POST", "/api/v1/namespaces/ns/fetch", `{"queues":["q"]}`, 503, "stopped"},
		{"POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, dir), 200, ""},
		{"POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, dir), 409, ""},
		{"POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, dir+"2"), 503, "stopped"},
		{"GET", "/api/v1/export", "", 200, ""},
		{"GET", "/api/v1/export", "", 503, "stopped"},
		{"POST", "/api/v1/imports/token", "{}\n", 200, ""},
		{"POST", "/api/v1/imports/token?line=7", "{}\n", 409, ""},
		{"POST", "/api/v1/imports/token", "{}\n", 429, "full"},
		{"POST", "/api/v1/imports/token", "{}\n", 503, "stopped"},
		{"GET", "/api/v1/imports/token", "", 200, ""},
		{"GET", "/api/v1/imports/a.b", "", 404, ""},
		{"GET", "/api/v1/imports/token", "", 503, "stopped"},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n2 partly q\n3 refuse q\n", 200, ""},
		{"POST", "/api/v1/migrations/old?protocol=other", "1 push q\n", 409, ""},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n", 429, "full"},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n", 503, "stopped"},
		{"GET", "/api/v1/migrations", "", 200, ""},
		{"GET", "/api/v1/migrations", "", 503, "stopped"},
		{"DELETE", "/api/v1/migrations/old", "", 200, ""},
		{"DELETE", "/api/v1/migrations/old", "", 404, ""},
		{"DELETE", "/api/v1/migrations/old", "", 503, "stopped"},
	}...)
}

// work fetches jobs.
func (f *fixture) work(body string) api.Work {
	f.t.Helper()
	var w api.Work
	f.want(200, "POST", "/api/v1/namespaces/ns/fetch", body, &w)
	return w
}

func TestPush(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Door: 9}, HandlerOptions{})
	var out api.PushResult
	f.want(200, "POST", "/api/v1/namespaces/ns/queues/mails/jobs", `{"jobs":[
		{"type":"Mail","body":{"to":"ann"},"priority":5,"retry":3,"lease_seconds":90,"group":"g"},
		{"body_text":"hello","delay_seconds":60},
		{"body_base64":"AAE=","key":"once","unique":true},
		{"body":[1,2],"body_kind":"args","key":"once","unique":true},
		{"ttl_seconds":3600,"keep":true},
		{"run_at":"2999-01-01T00:00:00Z"}]}`, &out)
	if out.Pushed != 5 || out.Existed != 1 || out.Refused != 0 || len(out.Jobs) != 6 {
		t.Fatalf("%+v", out)
	}
	if dup := out.Jobs[3]; !dup.Exists || dup.ID != out.Jobs[2].ID || dup.State != "ready" {
		t.Errorf("the second with a key: %+v", dup)
	}
	states := ""
	for _, j := range out.Jobs {
		states += " " + j.State
	}
	if states != " ready scheduled ready ready ready scheduled" {
		t.Errorf("states:%s", states)
	}
	first, err := f.engine.Get(job.ByID("ns", "mails", out.Jobs[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	p := first.Policy
	if first.Type != "Mail" || string(first.Body) != `{"to":"ann"}` || first.BodyKind != job.BodyJSON || first.Origin != 9 || first.Group != "g" ||
		p.Priority != 5 || p.MaxFails != 4 || p.Lease != 90*time.Second || p.Exhaust != job.ExhaustDead {
		t.Errorf("%+v", first)
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	long := strings.Repeat("x", api.NameMax+1)
	for _, c := range []struct{ body, want string }{
		{``, "push 1 to 1000"},
		{`{"jobs":[]}`, "push 1 to 1000"},
		{`{"jobs":[` + strings.Repeat(`{},`, pushMax) + `{}]}`, "push 1 to 1000"},
		{`{"jobs":[{"colour":"red"}]}`, "colour"},
		{`{"jobs":[{},{"type":"` + long + `"}]}`, "number 2: type is longer"},
		{`{"jobs":[{"key":"` + long + `"}]}`, "key is longer"},
		{`{"jobs":[{"unique":true}]}`, "needs a key"},
		{`{"jobs":[{"body":1,"body_text":"x"}]}`, "name one of them"},
		{`{"jobs":[{"body":{},"body_kind":"args"}]}`, "JSON array"},
		{`{"jobs":[{"body_text":"x","body_kind":"json"}]}`, "one JSON value"},
		{`{"jobs":[{"body_text":"x","body_kind":"none"}]}`, "there is a body"},
		{`{"jobs":[{"body_kind":"xml"}]}`, "none of none, bytes"},
		{`{"jobs":[{"delay_seconds":-1}]}`, "delay_seconds"},
		{`{"jobs":[{"delay_seconds":1,"run_at":"2030-01-01T00:00:00Z"}]}`, "name one of them"},
		{`{"jobs":[{"ttl_seconds":1e99}]}`, "ttl_seconds"},
		{`{"jobs":[{"lease_seconds":-1}]}`, "lease_seconds"},
		{`{"jobs":[{"retry":-1}]}`, "retry"},
		{`{"jobs":[{"priority":9999999999}]}`, "priority"},
		{`{"jobs":[{"keep":true}]}`, "needs ttl_seconds"},
	} {
		w := f.call("POST", "/api/v1/namespaces/ns/queues/q/jobs", c.body)
		if p := mustProblem(t, w); w.Code != 400 || !strings.Contains(p.Detail, c.want) {
			t.Errorf("%.80s: %d %s, want %q", c.body, w.Code, p.Detail, c.want)
		}
	}
	if w := f.call("POST", "/api/v1/namespaces/ns/queues/"+long+"/jobs", `{"jobs":[{}]}`); w.Code != 400 {
		t.Errorf("a long name: %d %s", w.Code, w.Body)
	}
	if infos, err := f.engine.Queues("ns", "", 0); err != nil || len(infos) != 0 {
		t.Errorf("something was pushed: %v, %v", infos, err)
	}
}

// Some of several jobs may be refused: each is told.
func TestPushPartly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	f.do(&job.Configure{Namespace: "ns", Queue: "small", Settings: job.Settings{Capacity: 1}})
	var out api.PushResult
	f.want(200, "POST", "/api/v1/namespaces/ns/queues/small/jobs", `{"jobs":[{},{}]}`, &out)
	if out.Pushed != 1 || out.Refused != 1 || out.Jobs[1].Problem == nil || out.Jobs[1].Problem.Status != 409 {
		t.Errorf("%+v", out)
	}
}

// A worker's life: it waits, gets a job with its whole body, holds on to it and settles it. Nobody else can.
func TestWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		body := strings.Repeat("x", api.ContentMax+1)
		got := make(chan api.Work)
		go func() { got <- f.work(`{"queues":["a","b"],"wait_seconds":300,"worker":"me"}`) }()
		testkit.Advance(t, 4*time.Minute)
		id := f.push(job.Spec{Queue: "b", Body: []byte(body), Policy: job.Policy{MaxFails: 9, Lapse: job.LapseFail}})
		w := <-got
		if len(w.Jobs) != 1 || w.Jobs[0].ID != id || w.Jobs[0].Queue != "b" || string(w.Jobs[0].Body.Base64) != body || w.Jobs[0].Body.Truncated {
			t.Fatalf("%d jobs", len(w.Jobs))
		}
		if left := w.Jobs[0].Lease.LeftSeconds; left == nil || *left != api.LeaseDefault.Seconds() {
			t.Errorf("lease %+v", w.Jobs[0].Lease)
		}
		path := fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/", id)
		named := fmt.Sprintf(`{"queue":"b","holder":%q`, w.Holder)
		if d, err := f.service.Job("ns", "b", id); err != nil || d.Lease.Worker != "me" || d.Lease.Holder != w.Holder {
			t.Errorf("held by %+v, %v", d.Lease, err)
		}
		testkit.Advance(t, 50*time.Second)
		var s api.Settled
		f.want(200, "POST", path+"extend", named+`,"lease_seconds":120}`, &s)
		if want := time.Now().Add(2 * time.Minute); s.State != "running" || s.Until == nil || s.Until.Sub(want).Abs() > time.Millisecond {
			t.Errorf("extended: %+v, want until %s", s, want)
		}
		testkit.Advance(t, 110*time.Second)
		if f.state(id) != "running" {
			t.Errorf("it is %s", f.state(id))
		}
		f.want(409, "POST", path+"ack", `{"queue":"b","holder":"1-2"}`, nil)
		f.want(200, "POST", path+"fail", named+`,"type":"exit 1","message":"no","backtrace":["a","b"]}`, &s)
		j, err := f.engine.Get(job.ByID("ns", "b", id))
		if err != nil || s.State != "ready" || j.Fails != 1 || j.Failures[0].Message != "no" || len(j.Failures[0].Backtrace) != 2 {
			t.Errorf("failed: %+v, %+v, %v", s, j.Failures, err)
		}
		again := f.work(fmt.Sprintf(`{"queues":["b"],"holder":%q,"lease_seconds":5}`, w.Holder))
		if again.Holder != w.Holder || len(again.Jobs) != 1 || again.Jobs[0].Attempts != 2 {
			t.Errorf("again: %+v", again.Holder)
		}
		f.want(200, "POST", path+"release", named+`,"delay_seconds":30}`, &s)
		if s.State != "scheduled" || s.RunAt == nil {
			t.Errorf("released: %+v", s)
		}
		testkit.Advance(t, 31*time.Second)
		f.work(fmt.Sprintf(`{"queues":["b"],"holder":%q,"lease_seconds":5}`, w.Holder))
		testkit.Advance(t, 6*time.Second) // too long
		f.want(409, "POST", path+"ack", named+`}`, nil)
		f.work(fmt.Sprintf(`{"queues":["b"],"holder":%q}`, w.Holder))
		f.want(200, "POST", path+"ack", named+`,"result":{"ok":true}}`, &s)
		if s.State != "gone" {
			t.Errorf("acked: %+v", s)
		}
		f.want(404, "POST", path+"ack", named+`}`, nil)
		f.close()
	})
}

// The result of an ack is kept with a job that is.
func TestAckResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	for _, c := range []struct{ given, want string }{
		{`"result":[1]`, "[1]"}, {`"result_text":"done"`, "done"}, {`"result_base64":"AAE="`, "\x00\x01"},
	} {
		id := f.push(job.Spec{Policy: job.Policy{Keep: true}})
		w := f.work(`{"queues":["q"]}`)
		var s api.Settled
		f.want(200, "POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/ack", id), fmt.Sprintf(`{"queue":"q","holder":%q,%s}`, w.Holder, c.given), &s)
		j, err := f.engine.Get(job.ByID("ns", "q", id))
		if err != nil || s.State != "done" || string(j.Result) != c.want {
			t.Errorf("%s: %+v, %q, %v", c.given, s, j.Result, err)
		}
	}
	f.want(400, "POST", "/api/v1/namespaces/ns/jobs/1/ack", `{"queue":"q","holder":"1-1","result":1,"result_text":"x"}`, nil)
}

func TestWorkRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	f.push(job.Spec{})
	for _, c := range []struct{ path, body, want string }{
		{"/fetch", `{}`, "queues"},
		{"/fetch", `{"queues":[""]}`, "queue: it is missing"},
		{"/fetch", `{"queues":["q"],"max":101}`, "max"},
		{"/fetch", `{"queues":["q"],"wait_seconds":301}`, "wait_seconds"},
		{"/fetch", `{"queues":["q"],"wait_seconds":-1}`, "wait_seconds"},
		{"/fetch", `{"queues":["q"],"lease_seconds":0.5}`, "lease_seconds"},
		{"/fetch", `{"queues":["q"],"lease_seconds":-5}`, "lease_seconds"},
		{"/fetch", `{"queues":["q"],"holder":"me"}`, "holder"},
		{"/fetch", `{"queues":["q"],"worker":"` + strings.Repeat("x", api.NameMax+1) + `"}`, "worker"},
		{"/jobs/1/ack", `{"holder":"1-1"}`, "queue: it is missing"},
		{"/jobs/1/ack", `{"queue":"q"}`, "holder"},
		{"/jobs/1/fail", `{"queue":"q"}`, "holder"},
		{"/jobs/1/fail", `{"queue":"q","holder":"1-1","message":"` + strings.Repeat("x", failTextMax+1) + `"}`, "at most"},
		{"/jobs/1/extend", `{"queue":"q","holder":"1-1","lease_seconds":0}`, "lease_seconds"},
		{"/jobs/1/extend", `{"queue":"q","holder":"1-1","lease_seconds":-1}`, "lease_seconds"},
		{"/jobs/1/extend", `{"queue":"q"}`, "holder"},
		{"/jobs/1/release", `{"queue":"q","holder":"1-1","delay_seconds":-1}`, "delay_seconds"},
		{"/jobs/1/release", `{"queue":"q"}`, "holder"},
	} {
		w := f.call("POST", "/api/v1/namespaces/ns"+c.path, c.body)
		if p := mustProblem(t, w); w.Code != 400 || !strings.Contains(p.Detail, c.want) {
			t.Errorf("%s %.60s: %d %s, want %q", c.path, c.body, w.Code, p.Detail, c.want)
		}
	}
	for _, verb := range []string{"ack", "fail", "extend", "release"} {
		if w := f.call("POST", "/api/v1/namespaces/ns/jobs/x/"+verb, `{"queue":"q","holder":"1-1"}`); w.Code != 404 {
			t.Errorf("%s of no id: %d %s", verb, w.Code, w.Body)
		}
	}
	if f.state(1) != "ready" {
		t.Error("something was done")
	}
}

// Only the latest names of workers are remembered.
func TestSessions(t *testing.T) {
	t.Parallel()
	var s sessions
	holder := func(i int) job.Holder { return job.Holder{Node: 1, Num: uint64(i) + 1} }
	s.note(holder(0), "")
	for i := range sessionMax + 2 {
		s.note(holder(i), fmt.Sprint(i))
		s.note(holder(i), fmt.Sprint(i))
	}
	names := make(map[job.Holder]string)
	s.add(names)
	if len(names) != sessionMax || names[holder(0)] != "" || names[holder(1)] != "" || names[holder(2)] != "2" || names[holder(sessionMax+1)] == "" {
		t.Errorf("%d names", len(names))
	}
}

// brokenWriter is a client that has gone.
type brokenWriter struct{ header http.Header }

func (w *brokenWriter) Header() http.Header       { return w.header }
func (w *brokenWriter) WriteHeader(int)           {}
func (w *brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// Jobs that do not reach their worker are ready as if they had not been fetched.
func TestDeliveryGivenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	id := f.push(job.Spec{})
	fetch := request(t, "POST", "/api/v1/namespaces/ns/fetch", `{"queues":["q"]}`)
	f.handler.ServeHTTP(&brokenWriter{http.Header{}}, fetch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.send(request(t, "POST", "/api/v1/namespaces/ns/fetch", `{"queues":["q"]}`).WithContext(ctx))
	j, err := f.engine.Get(job.ByID("ns", "q", id))
	if err != nil || j.State != job.Ready || j.Attempts != 0 {
		t.Errorf("%s with %d attempts, %v", j.State, j.Attempts, err)
	}
}

// Daily work leaves no line in the log, a backup does.
func TestWorkIsQuiet(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	f := newFixture(t, Options{BackupDir: place}, HandlerOptions{})
	f.want(200, "POST", "/api/v1/namespaces/ns/queues/q/jobs", `{"jobs":[{}]}`, nil)
	f.work(`{"queues":["q"]}`)
	if text := f.log.String(); text != "" {
		t.Errorf("log:\n%s", text)
	}
	dir := filepath.Join(place, "a", "b")
	var b Backup
	f.want(200, "POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, dir), &b)
	if b.Dir != dir || b.Files == 0 || b.Bytes == 0 || !strings.Contains(f.log.String(), "backup made") {
		t.Errorf("%+v\n%s", b, f.log)
	}
	for _, name := range []string{"../relative", dir} {
		if w := f.call("POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, name)); w.Code != 400 && w.Code != 409 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// Where there is a place for backups none goes elsewhere, by whatever path.
func TestBackupPlace(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	place := filepath.Join(top, "place")
	f := newFixture(t, Options{BackupDir: place}, HandlerOptions{})
	for in, want := range map[string]string{
		`{"dir":"a/b"}`: place + "/a/b", `{"dir":"` + place + `/c"}`: place + "/c", `{"dir":"a/../d"}`: place + "/d", `{}`: "",
	} {
		var b Backup
		f.want(200, "POST", "/api/v1/backups", in, &b)
		if _, err := os.Stat(b.Dir); err != nil || want != "" && b.Dir != want || filepath.Dir(b.Dir) != place && want == "" {
			t.Errorf("%s: %+v, %v", in, b, err)
		}
	}
	if err := os.Symlink(top, filepath.Join(place, "out")); err != nil {
		t.Fatal(err)
	}
	for in, code := range map[string]int{
		"a/b": 409, "..": 400, "../e": 400, "a/../../e": 400, ".": 400, top + "/e": 400, place: 400, place + "2/e": 400,
		"out/e": 409, "out/e/f": 409, "out": 409, "c/e\x00": 400,
	} {
		if w := f.call("POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, in)); w.Code != code {
			t.Errorf("%s: %d %s", in, w.Code, w.Body)
		}
	}
	if found, err := os.ReadDir(top); err != nil || len(found) != 1 {
		t.Errorf("beside the place: %v, %v", found, err)
	}
	var st Storage
	f.want(200, "GET", "/api/v1/storage", "", &st)
	if st.BackupDir != place {
		t.Errorf("%+v", st)
	}
	nowhere := newFixture(t, Options{}, HandlerOptions{})
	if w := nowhere.call("POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, top+"/f")); w.Code != 409 || !strings.Contains(w.Body.String(), "backup.dir") {
		t.Errorf("without a place: %d %s", w.Code, w.Body)
	}
}

// lines splits JSON lines.
func lines(t *testing.T, text string) (records []Record, marks []ExportMark) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `{"mark"`) {
			var m ExportMark
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			marks = append(marks, m)
			continue
		}
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		records = append(records, r)
	}
	return records, marks
}
