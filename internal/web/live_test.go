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
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
	"millrace/internal/testkit"
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
	var sample api.Sample
	data, ok := strings.CutPrefix(parts[3], "event: sample\ndata: ")
	if err := json.Unmarshal([]byte(data), &sample); !ok || err != nil || sample.Counts == nil {
		t.Errorf("%v in %q", err, parts[3])
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	at := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	point, err := json.Marshal(api.Point{
		At: at, Pushed: 7200, Acked: 3600, Failed: 36,
		Counts: map[string]uint64{"ready": 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.do(&job.SetValue{Space: "admin.history", Name: fmt.Sprintf("1h/%04d", at.Unix()/3600%720), Value: point})
	var got series
	if err := json.Unmarshal([]byte(s.page("/history?resolution=1h").text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.At) != 1 || got.P50[0] != nil || got.At[0] != at.Unix() || got.Pushed[0] != 2 || got.Acked[0] != 1 ||
		got.Failed[0] != 0.01 || got.Ready[0] != 5 || got.Seconds != 3600 {
		t.Errorf("%+v", got)
	}
	if a := s.page("/?period=month"); !strings.Contains(a.text, `<td class="n">7,200</td>`) {
		t.Error(a.text)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	past := api.History{Seconds: 10}
	for i := range 25 {
		past.Points = append(past.Points, api.Point{
			At: time.Unix(int64(i)*10, 0), Pushed: 1, Acked: 2,
			Counts: map[string]uint64{"ready": uint64(i)},
		})
	}
	rows := summary(&past)
	if len(rows) != 9 || rows[0].Pushed != 1 || rows[0].Ready != 24 || rows[8].Pushed != 3 || rows[8].Acked != 6 ||
		rows[8].Ready != 2 || rows[8].To.Unix() != 30 {
		t.Errorf("%d %+v", len(rows), rows)
	}
	if rows := summary(&api.History{}); rows != nil {
		t.Errorf("%+v", rows)
	}
}

var morePattern = regexp.MustCompile(`<tbody id="more" hx-get="([^"]*)"`)

// TestSearchGoesOn follows a search that is longer than one request may be, as htmx does and as a
// browser without scripts does.
func TestSearchGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	pushes := make([]job.Command, 0, 6000)
	for i := range cap(pushes) {
		pushes = append(pushes, &job.Push{Spec: job.Spec{
			Namespace: "ns", Queue: "q",
			Body: fmt.Appendf(nil, "body %d;", i), BodyKind: job.BodyBytes,
		}})
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
	if !regexp.MustCompile(`Looked at [1-5],000 of 6,000 jobs`).MatchString(a.text) ||
		!strings.Contains(a.text, "Go on from here") {
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

// TestOverviewByProtocol shows rates and waiting times by protocol and by queue, live and of the last hour.
func TestOverviewByProtocol(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, auth.LoginOptions{})
		testkit.Advance(t, 12*time.Millisecond)
		c := s.engine.NewCallerAt(3)
		c.Do(t.Context(), &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q"}})
		s.fetch("q")
		testkit.Advance(t, 5*time.Millisecond)
		a := s.page("/")
		checkPage(t, "/", "", a)
		for _, want := range []string{
			`<th scope="row">door3</th>`, `<th scope="row">door2</th>`, `<th scope="row">wire</th><td class="n">3</td>`,
			`<td class="n">200</td>`,
			`data-wait="p95_seconds">0 s<`,
		} {
			if !strings.Contains(a.text, want) {
				t.Errorf("no %s in %s", want, a.text)
			}
		}
		at := time.Now().UTC().Truncate(time.Minute).Add(-10 * time.Minute)
		slot := fmt.Sprintf(`{"at":%q,"parts":[{"d":"door3","p":7000,"f":6,"a":5,"x":4},{"n":"ns","q":"old","p":3,"f":2,"w":[80,2],"s":2000000000}]}`, at.Format(time.RFC3339))
		s.do(&job.SetValue{Space: "admin.parts", Name: fmt.Sprintf("hour/%04d", at.Unix()/60%60), Value: []byte(slot)})
		a = s.page("/?period=hour")
		checkPage(t, "/?period=hour", "", a)
		for _, want := range []string{
			`<th scope="row">door3</th><td class="n">7,000</td><td class="n">6</td><td class="n">5</td><td class="n">4</td>`,
			`>old</a><span class="sub">ns</span></th><td class="n">3</td><td class="n">2</td><td class="n">0</td><td class="n">0</td><td class="n">1 s<span class="sub">1 s</span>`,
		} {
			if !strings.Contains(a.text, want) {
				t.Errorf("no %s in %s", want, a.text)
			}
		}
		s.close()
	})
}

// Every page begins with how many jobs there are and what needs attention, and asks for it again by itself.
func TestStrip(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	const hostile = `<b>"q"</b>`
	s.do(
		&job.Push{Spec: job.Spec{Namespace: "ns", Queue: hostile}},
		&job.Push{Spec: job.Spec{Namespace: "ns", Queue: hostile, Delay: time.Hour}},
		&job.Pause{Namespace: "ns", Queue: hostile},
	)
	s.sampled(func(sample *api.Sample) bool { return len(sample.Concerns) > 0 })
	for target, states := range map[string]bool{"/queues": true, "/strip": true, "/": false, "/strip?overview": false} {
		text := s.page(target).text
		for part, want := range map[string]bool{
			`Queue &lt;b&gt;&#34;q&#34;&lt;/b&gt; is paused.`:                   true,
			`<span class="label">ready</span> <span class="value">1</span>`:     states,
			`<span class="label">scheduled</span> <span class="value">1</span>`: states,
			`id="nav-scheduled"`: true, `class="beside warn" id="nav-queues"`: true, hostile: false,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("%s has %q: %t\n%s", target, part, !want, text)
			}
		}
	}
}

// A theme that was chosen is set by the server; anything else in the cookie is not.
func TestTheme(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	for value, want := range map[string]string{
		"dark":  `<html lang="en" data-theme="dark">`,
		"light": `data-theme="light"`, `"><script>`: `<html lang="en">`,
	} {
		s.cookies["millrace_theme"] = value
		if text := s.page("/queues").text; !strings.Contains(text, want) {
			t.Errorf("%q: %.200s", value, text)
		}
	}
}
