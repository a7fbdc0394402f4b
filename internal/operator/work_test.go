package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/job"
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
			ask{"POST", "/api/v1/namespaces/ns/jobs/4711/" + verb, named, 404, ""},
			ask{"POST", path, named, 503, "stopped"},
		)
	}
	f.do(&job.Configure{Namespace: "ns", Queue: "small", Settings: job.Settings{Capacity: 1}})
	f.push(job.Spec{Queue: "small"})
	for range importAtOnce {
		full.service.work.imports <- struct{}{}
	}
	dir := "copy"
	return append(asks, []ask{
		{
			"POST", "/api/v1/namespaces/ns/queues/pushed/jobs",
			`{"jobs":[{"body":{"x":1},"key":"k","unique":true},{"body_text":"x","key":"k","unique":true}]}`, 200, "",
		},
		{"POST", "/api/v1/namespaces/ns/queues/small/jobs", `{"jobs":[{}]}`, 409, ""},
		{"POST", "/api/v1/namespaces/ns/queues/q/jobs", `{"jobs":[{}]}`, 503, "stopped"},
		{"POST", "/api/v1/namespaces/ns/queues/q/jobs", `{"jobs":[{}]}`, 507, "noSpace"},
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
		{"POST", "/api/v1/imports/token", "{}\n", 507, "noSpace"},
		{"GET", "/api/v1/imports/token", "", 200, ""},
		{"GET", "/api/v1/imports/a.b", "", 404, ""},
		{"GET", "/api/v1/imports/token", "", 503, "stopped"},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n2 partly q\n3 refuse q\n", 200, ""},
		{"POST", "/api/v1/migrations/old?protocol=other", "1 push q\n", 409, ""},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n", 429, "full"},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n", 503, "stopped"},
		{"POST", "/api/v1/migrations/old?protocol=words", "1 push q\n", 507, "noSpace"},
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
	var b api.Backup
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
		`{"dir":"a/b"}`: place + "/a/b", `{"dir":"` + place + `/c"}`: place + "/c",
		`{"dir":"a/../d"}`: place + "/d", `{}`: "",
	} {
		var b api.Backup
		f.want(200, "POST", "/api/v1/backups", in, &b)
		if _, err := os.Stat(b.Dir); err != nil || want != "" && b.Dir != want ||
			filepath.Dir(b.Dir) != place && want == "" {
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
	var st api.Storage
	f.want(200, "GET", "/api/v1/storage", "", &st)
	if st.BackupDir != place {
		t.Errorf("%+v", st)
	}
	nowhere := newFixture(t, Options{}, HandlerOptions{})
	if w := nowhere.call("POST", "/api/v1/backups", fmt.Sprintf(`{"dir":%q}`, top+"/f")); w.Code != 409 ||
		!strings.Contains(w.Body.String(), "backup.dir") {
		t.Errorf("without a place: %d %s", w.Code, w.Body)
	}
}

// lines splits JSON lines.
func lines(t *testing.T, text string) (records []api.Record, marks []api.ExportMark) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `{"mark"`) {
			var m api.ExportMark
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			marks = append(marks, m)
			continue
		}
		var r api.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		records = append(records, r)
	}
	return records, marks
}
