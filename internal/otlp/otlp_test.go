package otlp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"millrace/internal/job"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func newExporter(url string) *Exporter {
	return New(Options{
		URL: url, Headers: map[string]string{"Api-Key": "k"}, Service: "s", Logger: slog.New(slog.DiscardHandler),
		DoorName: func(job.Door) string { return "p" },
	})
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
	j.Trace = trace[:53] + "00"
	e.Fetched(&j, 1, 3)
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
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
