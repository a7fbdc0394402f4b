package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

func contextWithLocal(r *http.Request, a net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, a)
}

// stream reads server-sent events.
type stream struct {
	t *testing.T
	r *bufio.Reader
}

// next returns the next event.
func (s *stream) next() (name string, data []byte, ok bool) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return "", nil, false
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			data = []byte(value)
		case "":
			if name != "" {
				return name, data, true
			}
		}
	}
}

// TestEvents serves a stream over an in-memory connection whose listener has the times of a real one: samples come each
// second, longer than any of them, and the stream ends when the server drains.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{SampleEvery: time.Second}, HandlerOptions{})
		l := testkit.Listen(0)
		server := &http.Server{Handler: f.handler, ReadTimeout: 2 * time.Second, WriteTimeout: 3 * time.Second}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		client := &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial() },
		}}
		testkit.Advance(t, 1500*time.Millisecond)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://memory/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s %v", resp.Status, resp.Header)
		}
		events := &stream{t, bufio.NewReader(resp.Body)}
		for i := range 30 {
			for range i {
				f.push(job.Spec{})
			}
			name, data, ok := events.next()
			var s api.Sample
			if err := json.Unmarshal(data, &s); !ok || name != "sample" || err != nil {
				t.Fatalf("event %d: %v %q %s %v", i, ok, name, data, err)
			}
			// The first tells what was there; what was pushed since the last event is in each of the others.
			if want := float64(i); i > 0 && (s.Rates.Pushed != want || s.Seconds != 1) {
				t.Fatalf("event %d: %+v, want %v pushes", i, s, want)
			}
			if i > 0 && (len(s.Busiest) != 1 || s.Busiest[0].Name != "q" ||
				s.Busiest[0].Rates.Pushed != s.Rates.Pushed || s.Queues != 1) {
				t.Fatalf("event %d: %+v", i, s)
			}
		}
		q, err := f.service.Queue("ns", "q")
		if err != nil || q.Rates.Pushed != 29 {
			t.Errorf("%+v, %v", q.Rates, err)
		}
		f.service.Drain()
		if name, data, ok := events.next(); ok {
			t.Errorf("after the drain: %s %s", name, data)
		}
		client.CloseIdleConnections()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-served
		f.close()
	})
}

// Streams are limited, and one that ends makes room.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, streamMax)
		for range streamMax {
			go func() { ended <- f.service.Watch(ctx, func([]byte) error { return nil }) }()
		}
		synctest.Wait()
		if p := mustProblem(t, f.call("GET", "/api/v1/events", "")); p.Status != 429 {
			t.Errorf("%+v", p)
		}
		cancel()
		for range streamMax {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		f.service.Drain()
		f.want(200, "GET", "/api/v1/events", "", nil)
		f.close()
	})
}

// TestHistory lets hours pass, with a restart in between: each slot tells what happened in it, and no ring
// has more slots than it may.
func TestHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		f := openFixture(t, st, Options{SampleEvery: time.Second}, HandlerOptions{})
		testkit.Advance(t, 5500*time.Millisecond) // in the middle of a slot: a bubble begins at midnight
		for range 3 {
			f.push(job.Spec{})
		}
		f.fetch("q")
		testkit.Advance(t, 2*time.Second)
		f.close()
		f = openFixture(t, st, Options{SampleEvery: time.Second}, HandlerOptions{})
		testkit.Advance(t, time.Second)
		f.push(job.Spec{})
		testkit.Advance(t, 30*time.Second)
		h, err := f.service.History("10s")
		if err != nil || len(h.Points) != 3 {
			t.Fatalf("%+v, %v", h, err)
		}
		p := h.Points[0]
		if p.Pushed != 4 || p.Fetched != 1 || p.Counts["ready"] != 3 || p.Counts["running"] != 1 ||
			!p.At.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v", p)
		}
		if p := h.Points[1]; p.Pushed != 0 || p.Counts["ready"] != 3 {
			t.Errorf("%+v", p)
		}
		testkit.Advance(t, 3*time.Hour)
		for name, want := range map[string]int{"10s": 360, "1m": 180, "1h": 3} {
			var h api.History
			f.want(200, "GET", "/api/v1/history?resolution="+name, "", &h)
			if len(h.Points) < want-1 || len(h.Points) > want+1 {
				t.Errorf("%s: %d points, want %d", name, len(h.Points), want)
			}
			for i := 1; i < len(h.Points); i++ {
				if step := h.Points[i].At.Sub(h.Points[i-1].At).Seconds(); step != h.Seconds {
					t.Fatalf("%s: %v seconds between points", name, step)
				}
			}
		}
		h, err = f.service.History("1h")
		if err != nil || h.Points[0].Pushed != 4 {
			t.Errorf("%+v, %v", h.Points, err)
		}
		values, err := f.engine.Values("admin.history", "", 0)
		if err != nil || len(values) > 360+1440+720 {
			t.Errorf("%d slots, %v", len(values), err)
		}
		f.want(400, "GET", "/api/v1/history?resolution=1y", "", nil)
		f.close()
	})
}

// The counters of a queue that is removed begin at zero, and are not counted twice.
func TestRatesOfNewQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{SampleEvery: time.Second}, HandlerOptions{})
		for range 10 {
			f.push(job.Spec{})
		}
		testkit.Advance(t, 1500*time.Millisecond)
		f.do(&job.Remove{Namespace: "ns", Queue: "q"})
		for range 4 {
			f.push(job.Spec{})
		}
		testkit.Advance(t, time.Second)
		if s := f.service.Live(); s.Rates.Pushed != 4 {
			t.Errorf("%+v", s)
		}
		if fmt.Sprint(f.service.Live().Counts["ready"]) != "4" {
			t.Error("the jobs are not counted")
		}
		f.close()
	})
}

// A clock that lags behind and catches up makes history as one that has run all the time.
func TestSampleByOtherClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := time.Hour
		f := newFixture(t, Options{Now: func() time.Time { return time.Now().Add(-behind) }}, HandlerOptions{})
		defer f.close()
		synctest.Wait() // the first sample only tells where the counters stand
		for range 3600 {
			f.push(job.Spec{Queue: "q"})
			behind -= time.Second
			if err := f.service.Sample(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		past, err := f.service.History("10s")
		if err != nil || len(past.Points) < 355 {
			t.Fatalf("%d points, %v", len(past.Points), err)
		}
		for _, p := range past.Points[1:] {
			if p.Pushed != 10 {
				t.Errorf("%d pushed at %v", p.Pushed, p.At)
			}
		}
		f.close()
		if err := f.service.Sample(t.Context()); err == nil {
			t.Error("a sample of a server that stops")
		}
	})
}
