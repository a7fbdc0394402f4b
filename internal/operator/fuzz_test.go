package operator

import (
	"net/url"
	"testing"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// FuzzCursor reads cursors: whatever is taken is one of ours, of the list that was asked
// for, and is written as one that is taken again.
func FuzzCursor(f *testing.F) {
	whole := position{
		List: "jobs", Filter: "x", Namespace: "n", Queue: "q", State: job.Dead, After: "a", ID: 7,
		Examined: 8, Total: 9,
	}
	f.Add(whole.cursor())
	f.Add(position{List: "jobs", Filter: "x"}.cursor())
	f.Add(position{List: "queues", Filter: "x"}.cursor())
	f.Add("")
	f.Add("e30")
	f.Add("!")
	f.Fuzz(func(t *testing.T, text string) {
		var p position
		var err error
		testkit.Bounded(t, len(text), func() { p, err = parseCursor(text, "jobs", "x") })
		if err != nil {
			return
		}
		if p.List != "jobs" || p.Filter != "x" || int(p.State) >= job.StateCount {
			t.Fatalf("%q is taken as %+v", text, p)
		}
		if again, err := parseCursor(p.cursor(), "jobs", "x"); err != nil || again != p {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
	})
}

// FuzzFilter reads the filter of a request for jobs: what is taken names states that there
// are, and has the same fingerprint when it is read again.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		"", "namespace=n&queue=q&state=ready,dead&type=t&ref=1&error=e&body=b&batch=3&" +
			"after=2026-01-01T00:00:00Z&before=2027-01-01T00:00:00Z&time=run_at",
		"state=what", "batch=-1", "after=x", "time=never", "state=ready&state=dead", "%zz=1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		filter, err := api.FilterOf(values)
		if err != nil {
			return
		}
		again, err := api.FilterOf(values)
		if err != nil || fingerprint(filter) != fingerprint(again) {
			t.Fatalf("%q is read as %+v, then as %+v, %v", text, filter, again, err)
		}
		read := len(filter.Namespace) + len(filter.Queue) + len(filter.Type) + len(filter.Ref)
		if read+len(filter.Error)+len(filter.Body) > len(text) {
			t.Fatalf("%q makes %+v", text, filter)
		}
	})
}

// FuzzImportLine reads lines of an export: each is a mark, a job or a refusal that tells
// what is wrong, and no job is larger than its line.
func FuzzImportLine(f *testing.F) {
	for _, s := range []string{
		"", " \r\n", `{"mark":"end","jobs":1}`, `{"mark":1}`, `{`, `[]`, `null`,
		`{"id":1,"namespace":"n","queue":"q","state":"ready","body_kind":"json","body":{"a":1}}`,
		`{"id":1,"namespace":"n","queue":"q","state":"dead","body_kind":"bytes","body_base64":"AAE=","policy":{"lease_seconds":1e300}}`,
		`{"id":18446744073709551615,"namespace":"n","queue":"q","state":"scheduled","run_at":"2026-01-01T00:00:00Z","body_kind":"none","like":"00"}`,
		`{"id":1,"namespace":"n","queue":"q","state":"failed","created":"0001-01-01T00:00:00Z","failures":[{"kind":"lapse"},{"kind":"what"}],"result_base64":"AA=="}`,
		`{"kind":"queue","namespace":"n","queue":"q","limits":{"rate":"1/s"}}`, `{"kind":"what"}`,
		`{"kind":"batch_end","id":1}`,
		`{"kind":"batch","id":1,"namespace":"n","complete":"acked","open_for":"1h","on_complete":{"queue":"q"}}`,
		`{"kind":"cron","namespace":"n","name":"x","runs":[{"kind":"fired","result":"died"}]}`,
		`{"namespace":"n","queue":"q","state":"what"}`, `{"namespace":"","queue":"q"}`, `{"what":1}`,
	} {
		f.Add(s)
	}
	s := &Service{opts: Options{DoorName: func(job.Door) string { return "door" }}}
	f.Fuzz(func(t *testing.T, line string) {
		im := &importer{s: s, o: api.ImportOptions{Duplicates: true}, out: api.ImportResult{Line: 1}}
		testkit.Bounded(t, len(line), func() {
			if err := im.line([]byte(line)); err != nil {
				t.Error(err)
			}
		})
		lines := 0
		for _, it := range im.items {
			if !it.end { // which is a mark
				lines++
			}
			push := it.push
			if push != nil && (push.Spec.Queue == "" ||
				len(push.Spec.Body)+len(push.Spec.Key)+len(push.Spec.Type)+len(push.Spec.Queue) > len(line)) {
				t.Fatalf("%q makes %+v", line, push)
			}
		}
		if lines+len(im.out.Refused)+im.out.Marks != 1 {
			t.Fatalf("%q makes %d lines, %d refusals and %d marks", line, lines, len(im.out.Refused), im.out.Marks)
		}
		for _, r := range im.out.Refused {
			if r.Problem == "" {
				t.Fatalf("%q is refused without a word", line)
			}
		}
	})
}
