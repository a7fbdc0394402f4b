package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/internal/api"
)

// A transfer whose answer is cut off with the leadership succeeds if another node leads then. Others tell why not.
func TestTransferCutOff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		ok     bool
		says   string
	}{
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, "leader b"},
		{"the leader has gone", func(w http.ResponseWriter, _ *http.Request) {
			api.WriteProblem(w, api.ProblemNoLeader.New("the leader went away"))
		}, true, "leader b"},
		{"refused", func(w http.ResponseWriter, _ *http.Request) {
			api.WriteProblem(w, api.ProblemInvalid.New("no other node can be reached"))
		}, false, "no other node"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					asked.Store(true)
					test.answer(w, r)
					return
				}
				st := api.ClusterStatus{Node: "a", Leader: "a", Term: 1}
				if asked.Load() {
					st.Leader, st.Term = "b", 2
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(st); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			got := run(nil, "cluster", "transfer", "--api", server.URL)
			if (got.status == 0) != test.ok || !strings.Contains(got.stdout+got.stderr, test.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}
