package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// call sends a request to the handler and returns its answer.
func (f *fixture) call(b *testing.B, path, body string) string {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/api/v1/namespaces/ns/"+path,
		strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

const benchPush = `{"jobs":[{"body_text":"0123456789"}]}`

// BenchmarkPush is one push, with its job in the engine and without a network.
func BenchmarkPush(b *testing.B) {
	f := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		f.call(b, "queues/q/jobs", benchPush)
	}
}

// BenchmarkRoundTrip is a push, a fetch and an ack.
func BenchmarkRoundTrip(b *testing.B) {
	f := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		f.call(b, "queues/q/jobs", benchPush)
		var holder string
		var id int
		work := f.call(b, "fetch", `{"queues":["q"]}`)
		if _, err := fmt.Sscanf(work, `{"holder":%q,"jobs":[{"id":%d,`, &holder, &id); err != nil {
			b.Fatalf("%s: %v", work, err)
		}
		f.call(b, fmt.Sprintf("jobs/%d/ack", id), fmt.Sprintf(`{"queue":"q","holder":%q}`, holder))
	}
}
