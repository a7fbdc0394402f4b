package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/store/storetest"
)

// bodies returns the bodies of all jobs of a server, sorted.
func (f *fixture) bodies() []string {
	f.t.Helper()
	records, _ := lines(f.t, f.call("GET", "/api/v1/export", "").Body.String())
	var out []string
	for i := range records {
		if records[i].BodyText != nil {
			out = append(out, *records[i].BodyText)
		}
	}
	slices.Sort(out)
	return out
}

// repeatedKeys returns the export of a server on which a key repeats: of jobs that were pushed one by one, and of jobs
// that were pushed at the same moment.
func repeatedKeys(t *testing.T) (text string, bodies []string) {
	t.Helper()
	from := newFixture(t, Options{}, HandlerOptions{})
	for i := range 4 {
		from.push(job.Spec{Queue: fmt.Sprintf("q%d", i%2), Key: "one by one", Body: fmt.Appendf(nil, "one %d", i)})
	}
	var twins []job.Command
	for i := range 3 {
		twins = append(twins, &job.Push{Spec: job.Spec{
			Namespace: "ns", Queue: "q0", Key: "twins",
			Body: fmt.Appendf(nil, "twin %d", i), BodyKind: job.BodyBytes,
		}})
	}
	from.do(twins...)
	from.push(job.Spec{Key: "unique", Unique: true, Body: []byte("unique")})
	return from.call("GET", "/api/v1/export", "").Body.String(), from.bodies()
}

// Jobs whose keys repeat are all imported, in one request or in many, and once: importing them again changes nothing.
func TestImportRepeatedKeys(t *testing.T) {
	t.Parallel()
	text, want := repeatedKeys(t)
	all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for _, step := range []int{1, 3, len(all)} {
		to := newFixture(t, Options{}, HandlerOptions{})
		for _, round := range []struct {
			token             string
			imported, existed int
		}{{"first", len(want), 0}, {"again", 0, len(want)}} {
			imported, existed := 0, 0
			for at := 0; at < len(all); at += step {
				target := fmt.Sprintf("/api/v1/imports/%s?line=%d", round.token, at+1)
				out := to.importLines(target, strings.Join(all[at:min(at+step, len(all))], ""))
				imported, existed = imported+out.Imported, existed+out.Existed
				if len(out.Refused) > 0 {
					t.Errorf("%d lines at a time, %s: %+v", step, round.token, out.Refused)
				}
			}
			if got := to.bodies(); imported != round.imported || existed != round.existed || !slices.Equal(got, want) {
				t.Errorf("%d lines at a time, %s: %d imported and %d there before: %v", step, round.token,
					imported, existed, got)
			}
		}
	}
}

// An import that was given up and is begun once more, not resumed, imports nothing twice. What is missing is imported,
// or refused by name if only the key tells that another job of the file is there.
func TestImportBegunOnceMore(t *testing.T) {
	t.Parallel()
	text, want := repeatedKeys(t)
	all := strings.SplitAfter(text, "\n")
	for cut := range len(want) + 1 {
		to := newFixture(t, Options{}, HandlerOptions{})
		to.importLines("/api/v1/imports/first", strings.Join(all[:cut], ""))
		out := to.importLines("/api/v1/imports/second", text)
		got := to.bodies()
		for _, r := range out.Refused {
			record, _ := lines(t, all[r.Line-1])
			got = append(got, *record[0].BodyText)
		}
		slices.Sort(got)
		if out.Existed != cut || !slices.Equal(got, want) {
			t.Errorf("after %d lines: %+v: %v", cut, out, got)
		}
	}
}

// A line whose key another job has is refused by name, not left out without a word. Whoever wants both says so.
func TestImportKeyOfAnotherJob(t *testing.T) {
	t.Parallel()
	from, to := newFixture(t, Options{}, HandlerOptions{}), newFixture(t, Options{}, HandlerOptions{})
	from.push(job.Spec{Body: []byte("other")})
	theirs := from.push(job.Spec{Key: "k", Body: []byte("theirs")})
	text := from.call("GET", "/api/v1/export", "").Body.String()
	ours := to.push(job.Spec{Key: "k", Body: []byte("ours")})
	out := to.importLines("/api/v1/imports/x", text)
	if out.Imported != 1 || out.Existed != 0 || len(out.Refused) != 1 {
		t.Fatalf("%+v", out)
	}
	for _, part := range []string{
		fmt.Sprintf("job %d:", theirs), `"k"`, fmt.Sprintf("job %d:", ours),
		"allow duplicates",
	} {
		if !strings.Contains(out.Refused[0].Problem, part) {
			t.Errorf("%q does not say %q", out.Refused[0].Problem, part)
		}
	}
	if out := to.importLines("/api/v1/imports/y?duplicates", text); out.Imported != 2 ||
		!slices.Contains(to.bodies(), "theirs") {
		t.Errorf("%+v", out)
	}
}

// An import that ends with the server, at whichever commit, goes on: every line was imported once, or was refused and
// that is told.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	const count = 3*importStep + 20
	var text strings.Builder
	var refused []uint64
	for i := range uint64(count) {
		result := ""
		switch i % 50 {
		case 7: // the engine refuses it
			result = `,"result_base64":"AA=="`
			refused = append(refused, i+1)
		case 9:
			text.WriteString("nonsense\n")
			refused = append(refused, i+1)
			continue
		}
		fmt.Fprintf(&text, `{"id":1,"namespace":"ns","queue":"q","state":"ready","pushed_by":"x","body_text":"%03d"%s,`+
			`"policy":{"expiry":"always","lapse":"fail","exhaust":"drop","requeue":"tail","due":"tail"}}`+"\n", i,
			result)
	}
	failed := errors.New("power cut")
	for n := 1; n <= 5; n++ {
		mem := memstore.New()
		st := storetest.NewFaulty(mem)
		e, err := engine.Open(engine.Options{Store: st})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Engine: e, DoorName: func(job.Door) string { return "x" }, SampleEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		st.Fail(storetest.CallCommit, n, failed)
		_, err = s.ImportLines(t.Context(), api.ImportOptions{Token: "x", Line: 1}, []byte(text.String()))
		s.Close()
		_ = e.Close() // which tells of it once more
		if n <= 4 && err == nil {
			t.Fatalf("commit %d has failed, and the import says nothing of it", n)
		}
		f := openFixture(t, mem, Options{}, HandlerOptions{})
		before := len(f.bodies())
		out := f.importLines("/api/v1/imports/x", text.String())
		if want := count - len(refused); before+out.Imported != want || len(slices.Compact(f.bodies())) != want ||
			out.Line != count {
			t.Errorf("commit %d: %d jobs, then %d imported of %d: %+v", n, before, out.Imported, want, out)
		}
		var told []uint64
		for _, r := range out.Refused {
			told = append(told, r.Line)
		}
		if !slices.Equal(told, refused) {
			t.Errorf("commit %d: lines %v were refused, and told %v", n, refused, told)
		}
		// Also to whoever asks how far it is, because the answer may have been lost.
		if mark, err := f.service.Import("x"); err != nil || mark.Line != count || len(mark.Refused) != len(refused) {
			t.Errorf("commit %d: %+v, %v", n, mark, err)
		}
	}
}
