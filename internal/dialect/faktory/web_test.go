package faktory_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory"
)

// TestWeb compares /stats with INFO, and /health with what the original answers (protocol section 12).
func TestWeb(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		must(t, c.Push(newJob("q")))
		d := faktory.New(faktory.Options{Options: dialect.Options{Engine: b.Engine}, Version: "1.2.3"})
		get := func(h http.Handler) (got map[string]any) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			must(t, json.Unmarshal(w.Body.Bytes(), &got))
			same(t, "code", w.Code, http.StatusOK)
			same(t, "type", w.Header().Get("Content-Type"), "application/json")
			same(t, "caching", w.Header().Get("Cache-Control"), "no-cache")
			return got
		}
		stats := get(d.StatsHandler())
		text, err := c.Call("INFO")
		must(t, err)
		var info map[string]any
		must(t, json.Unmarshal([]byte(text), &info))
		same(t, "counts", stats["faktory"], info["faktory"])
		server, _ := stats["server"].(map[string]any)
		same(t, "description", server["description"], any("Faktory (Millrace 1.2.3)"))

		health := get(d.HealthHandler())
		same(t, "health", health, map[string]any{
			"now": "2000-01-01T00:00:00Z",
			"server": map[string]any{
				"description": "Faktory (Millrace 1.2.3)", "faktory_version": "1.10.0", "connections": 0.0,
				"command_count": 0.0,
			},
		})
		must(t, b.Engine.Close())
		w := httptest.NewRecorder()
		faktory.New(faktory.Options{Options: dialect.Options{Engine: b.Engine}}).StatsHandler().
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/stats", nil))
		same(t, "code without an engine", w.Code, http.StatusInternalServerError)
	})
}
