package otlp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/job"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func newExporter(url string) *Exporter {
	e := New(Options{
		URL: url, Headers: map[string]string{"Api-Key": "k"}, Service: "s", Logger: slog.New(slog.DiscardHandler),
		DoorName: func(job.Door) string { return "p" },
	})
	e.farewell = time.Minute // a busy machine takes long to send the last spans
	return e
}

// What is still to be sent when the server stops is sent then. Jobs whose trace is not sampled have no spans.
func TestExport(t *testing.T) {
	t.Parallel()
	got := make(chan request, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Api-Key") != "k" {
			t.Errorf("%v %v", err, r.Header)
		}
		got <- in
	}))
	defer collector.Close()
	e := newExporter(collector.URL)
	j := job.Job{ID: 7, Queue: "q", Trace: trace, Created: 1, Since: 3, Attempts: 1}
	e.Fetched(&j, 1, 3)
	e.Ended(&j, job.CountLapsed, 5)
	for _, flags := range []string{"00", "02"} { // only the last bit asks for it
		j.Trace = trace[:53] + flags
		e.Fetched(&j, 1, 3)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Run(ctx)
	spans := (<-got).ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 2 || spans[1].ParentID != spans[0].SpanID || spans[0].ParentID != "b7ad6b7169203331" ||
		spans[1].Status.Code != statusError {
		t.Errorf("%+v", spans)
	}
	if spans[0].Start != "1000" || spans[0].End != "3000" || spans[1].Start != "3000" || spans[1].End != "5000" {
		t.Errorf("%+v", spans)
	}
	if sent, dropped := e.Spans(); sent != 2 || dropped != 0 {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
}

// What does not fit, and what a collector refuses, is dropped and counted. Nobody waits for it.
func TestDropped(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err == nil { // else it was cut off
			if n := len(in.ResourceSpans[0].ScopeSpans[0].Spans); n > batchMax {
				t.Errorf("%d spans are sent at a time", n)
			}
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer collector.Close()
	e := newExporter(collector.URL)
	j := job.Job{ID: 7, Queue: "q", Trace: trace}
	for range queueMax + 5 {
		e.Fetched(&j, 1, 2)
	}
	if _, dropped := e.Spans(); dropped != 5 {
		t.Errorf("%d were dropped", dropped)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Run(ctx)
	if sent, dropped := e.Spans(); sent != 0 || dropped != queueMax+5 {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
}

// answering is a collector that gives some answers, one after the other.
type answering []int

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	code := (*a)[0]
	*a = (*a)[1:]
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

// A collector that is busy is asked three times. One that refuses is asked once.
func TestRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers answering
		sent    uint64
	}{
		{answering{429, 503, 200}, 1},
		{answering{502, 504, 429}, 0},
		{answering{400}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newExporter("http://collector")
			e.client.Transport = &c.answers
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				e.Run(ctx)
			}()
			e.Fetched(&job.Job{ID: 7, Queue: "q", Trace: trace}, 1, 2)
			<-time.After(time.Minute)
			cancel()
			<-ended
			if sent, dropped := e.Spans(); sent != c.sent || dropped != 1-c.sent || len(c.answers) > 0 {
				t.Errorf("%d sent, %d dropped, left are the answers %v", sent, dropped, c.answers)
			}
		})
	}
}

// What clients have chosen is cut off, and is valid UTF-8.
func TestLongName(t *testing.T) {
	t.Parallel()
	got := *text("k", "x"+strings.Repeat("ü", nameMax)).Value.String
	if want := "x" + strings.Repeat("ü", nameMax/2-1) + "\uFFFD"; got != want {
		t.Errorf("%q", got)
	}
}
