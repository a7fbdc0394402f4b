package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/job"
)

// FuzzCalls sends anything as the body of each call: nothing panics and nothing is the server's fault. A push that is
// answered tells what became of every job.
func FuzzCalls(f *testing.F) {
	calls := []string{"queues/q/jobs", "fetch", "jobs/1/ack", "jobs/1/fail", "jobs/1/extend", "jobs/1/release"}
	for i, body := range []string{
		`{"jobs":[{"body":{"a":1},"key":"k","unique":true},{"body_text":"x"},{"body_base64":"eA==","delay_seconds":1.5}]}`,
		`{"queues":["q"],"max":3,"wait_seconds":0.001,"lease_seconds":2,"holder":"1-a","worker":"w"}`,
		`{"queue":"q","holder":"1-a","result":{"a":[1]}}`, `{"queue":"q","holder":"1-a","error":"E","message":"m"}`,
		`{"queue":"q","holder":"1-a","lease_seconds":60}`, `{"queue":"q","holder":"1-a"}`,
	} {
		f.Add(uint8(i), body)
	}
	for _, body := range []string{
		"", "{", "null", `{"jobs":null}`, `{"jobs":[null]}`,
		`{"jobs":[{"retry":-1}]}`, "\xff",
	} {
		f.Add(uint8(0), body)
	}
	x := newFixture(f)
	f.Fuzz(func(t *testing.T, call uint8, body string) {
		path := calls[int(call)%len(calls)]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if path == "fetch" {
			cancel() // or it would wait
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/ns/"+path,
			strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		x.handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Fatalf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
		if path == calls[0] && w.Code == http.StatusOK {
			var out api.PushResult
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil ||
				len(out.Jobs) != out.Pushed+out.Existed+out.Refused {
				t.Fatalf("%q: %s, %v", body, w.Body, err)
			}
		}
		x.engine.NewCaller().Do(t.Context(), &job.Remove{Namespace: "ns", Queue: "q"})
	})
}
