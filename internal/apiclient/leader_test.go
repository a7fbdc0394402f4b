package apiclient

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/httpapi"
)

// While no node leads a request is sent again, unless it may have been done and is not safe to repeat. In the end that
// is told.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	// Nodes of earlier releases answer what may have been done, too.
	lost := func(w http.ResponseWriter, about string) {
		api.WriteProblem(w, api.ProblemNoLeader.New("%s", about))
	}
	for _, c := range []struct {
		what    string
		answer  func(http.ResponseWriter, string)
		push    bool
		refuses int64 // before there is a leader
		asked   int64
		ok      bool
	}{
		{"a read", httpapi.NoLeader, false, 3, 4, true},
		{"a read that was passed on", lost, false, 3, 4, true},
		{"a push", httpapi.NoLeader, true, 3, 4, true},
		{"a push that may have been done", lost, true, 3, 1, false},
		{"for long", httpapi.NoLeader, false, 1 << 40, 42, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) <= c.refuses {
					c.answer(w, "nobody leads")
					return
				}
				_, _ = w.Write([]byte(`{}`)) // who asks finds out
			})
			client, err := New(Options{URL: "http://server"})
			if err != nil {
				t.Fatal(err)
			}
			client.http.Transport = roundTrip(func(r *http.Request) *http.Response {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Result()
			})
			began := time.Now()
			if c.push {
				_, err = client.Push(t.Context(), "ns", "q", []*api.NewJob{{}})
			} else {
				_, err = client.Server(t.Context())
			}
			if (err == nil) != c.ok || asked.Load() != c.asked {
				t.Errorf("%s: asked %d times: %v", c.what, asked.Load(), err)
			}
			if took := time.Since(began); took > leaderPatience &&
				(took > 2*leaderPatience || !strings.Contains(err.Error(), "asked again for 10s")) {
				t.Errorf("%s: after %s: %v", c.what, took, err)
			}
		})
	}
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
