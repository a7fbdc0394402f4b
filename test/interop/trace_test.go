package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
)

// span is what a collector is sent of one.
type span struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Links        []struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	} `json:"links"`
}

// collector returns the address of a collector, and the spans that it is sent.
func collector(t *testing.T) (url string, spans chan span) {
	t.Helper()
	spans = make(chan span, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var in struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []span `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Errorf("spans: %v", err)
		}
		for _, resource := range in.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					spans <- s
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, spans
}

// TestTraces pushes jobs with a trace through every protocol that can carry one, and works them off through each: the
// spans are of that trace, and running is linked to the push.
func TestTraces(t *testing.T) {
	t.Parallel()
	url, spans := collector(t)
	w := start(t, "--otlp-endpoint="+url)
	const pusher = "b7ad6b7169203331"
	traces := map[string]string{} // the queues of the jobs
	for i, in := range w.drivers {
		if !in.Abilities.Trace {
			continue
		}
		for j, out := range w.drivers {
			queue := "trace-" + in.Name + "-" + out.Name
			trace := fmt.Sprintf("%032x", 1000*(i+1)+j)
			traces[trace] = queue
			w.must(in.Name+" pushes", w.clients[in.Name].PushWith(queue, "1",
				dialecttest.Wishes{Trace: "00-" + trace + "-" + pusher + "-01"}))
			task, err := w.clients[out.Name].Fetch(queue, patience)
			w.must(out.Name+" fetches", err)
			w.must(out.Name+" settles", w.clients[out.Name].Ack(task.Handle))
		}
	}
	waits, runs := map[string]span{}, map[string]span{}
	for limit := time.After(2 * patience); len(waits) < len(traces) || len(runs) < len(traces); {
		select {
		case s := <-spans:
			switch s.Name {
			case traces[s.TraceID] + " wait":
				waits[s.TraceID] = s
			case traces[s.TraceID] + " run":
				runs[s.TraceID] = s
			default:
				t.Fatalf("a strange span: %+v", s)
			}
		case <-limit:
			t.Fatalf("of %d jobs %d have waited and %d have run", len(traces), len(waits), len(runs))
		}
	}
	for trace, queue := range traces {
		wait, run := waits[trace], runs[trace]
		if wait.ParentSpanID != pusher || run.ParentSpanID != wait.SpanID || len(run.Links) != 1 ||
			run.Links[0].TraceID != trace || run.Links[0].SpanID != pusher {
			t.Errorf("%s: %+v, %+v", queue, wait, run)
		}
	}
}
