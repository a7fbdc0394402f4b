package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/internal/admin"
	"millrace/internal/auth"
	"millrace/internal/job"
)

// stream is a browser that reads a stream and goes after some events.
type stream struct {
	*httptest.ResponseRecorder
	cancel context.CancelFunc
	events int
}

func (s *stream) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "event: sample") {
		if s.events--; s.events == 0 {
			s.cancel()
		}
	}
	return s.ResponseRecorder.Write(p)
}

func TestLiveStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := &stream{httptest.NewRecorder(), cancel, 3}
	s.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/live", http.NoBody))
	parts := strings.Split(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n")
	if len(parts) != 4 || parts[0] != "retry: 2000" || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v %q", w.Header(), parts)
	}
	var sample admin.Sample
	data, ok := strings.CutPrefix(parts[3], "event: sample\ndata: ")
	if err := json.Unmarshal([]byte(data), &sample); !ok || err != nil || sample.Counts == nil {
		t.Errorf("%v in %q", err, parts[3])
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	at := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	point, err := json.Marshal(admin.Point{At: at, Pushed: 7200, Acked: 3600, Failed: 36, Counts: map[string]uint64{"ready": 5}})
	if err != nil {
		t.Fatal(err)
	}
	s.do(&job.SetValue{Space: "admin.history", Name: fmt.Sprintf("1h/%04d", at.Unix()/3600%720), Value: point})
	var got series
	if err := json.Unmarshal([]byte(s.page("/history?resolution=1h").text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.At) != 1 || got.At[0] != at.Unix() || got.Pushed[0] != 2 || got.Acked[0] != 1 || got.Failed[0] != 0.01 || got.Ready[0] != 5 || got.Seconds != 3600 {
		t.Errorf("%+v", got)
	}
	if a := s.page("/?period=month"); !strings.Contains(a.text, `<td class="n">7,200</td>`) {
		t.Error(a.text)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	past := admin.History{Seconds: 10}
	for i := range 25 {
		past.Points = append(past.Points, admin.Point{At: time.Unix(int64(i)*10, 0), Pushed: 1, Acked: 2, Counts: map[string]uint64{"ready": uint64(i)}})
	}
	rows := summary(&past)
	if len(rows) != 9 || rows[0].Pushed != 1 || rows[0].Ready != 24 || rows[8].Pushed != 3 || rows[8].Acked != 6 || rows[8].Ready != 2 || rows[8].To.Unix() != 30 {
		t.Errorf("%d %+v", len(rows), rows)
	}
	if rows := summary(&admin.History{}); rows != nil {
		t.Errorf("%+v", rows)
	}
}

var morePattern = regexp.MustCompile(`hx-get="([^"]*)"`)

// TestSearchGoesOn follows a search that is longer than one request may be, as htmx does and as a
// browser without scripts does.
func TestSearchGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	pushes := make([]job.Command, 0, 6000)
	for i := range cap(pushes) {
		pushes = append(pushes, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q", Body: fmt.Appendf(nil, "body %d;", i), BodyKind: job.BodyBytes}})
	}
	s.do(pushes...)
	a := s.page("/jobs?body=599%3B")
	rows, parts := 0, 0
	for {
		rows += strings.Count(a.text, "<tr data-row>")
		more := morePattern.FindStringSubmatch(a.text)
		if more == nil {
			break
		}
		parts++
		a = s.page(strings.ReplaceAll(more[1], "&amp;", "&"))
		if strings.Contains(a.text, "<html") || !strings.Contains(a.text, `<tbody id="more"`) {
			t.Fatal(a.text)
		}
	}
	if rows != 6 || parts == 0 {
		t.Errorf("%d rows in %d parts", rows, parts)
	}
	a = s.page("/jobs?body=599%3B")
	if !regexp.MustCompile(`Looked at [1-5],000 of 6,000 jobs`).MatchString(a.text) || !strings.Contains(a.text, "Go on from here") {
		t.Error(a.text)
	}
	found := 0
	next := regexp.MustCompile(`<a class="button" href="([^"]*)">Go on`)
	parts = 0
	for {
		found += strings.Count(a.text, "<tr data-row>")
		m := next.FindStringSubmatch(a.text)
		if m == nil {
			break
		}
		parts++
		a = s.page(strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	if found != 6 || parts == 0 {
		t.Errorf("%d found in %d parts", found, parts)
	}
}
