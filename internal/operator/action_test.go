package operator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// outcomes says what each action makes of a job that is in a state; a pair that is not here is refused.
var outcomes = map[api.Action]map[string]string{
	api.ActionRetry: {"retrying": "ready", "failed": "ready", "dead": "ready"},
	api.ActionRun:   {"scheduled": "ready"},
	api.ActionKill: {
		"scheduled": "dead", "blocked": "dead", "ready": "dead", "running": "dead", "retrying": "dead",
		"buried": "dead",
	},
	api.ActionCancel: {
		"scheduled": "gone", "blocked": "gone", "ready": "gone", "running": "gone", "retrying": "gone",
		"buried": "gone",
	},
	api.ActionDelete: {
		"scheduled": "gone", "blocked": "gone", "ready": "gone", "running": "gone",
		"retrying": "gone", "buried": "gone",
		"done": "gone", "failed": "gone", "dead": "gone",
	},
	api.ActionMove: {
		"scheduled": "scheduled", "blocked": "blocked", "ready": "ready", "retrying": "retrying", "buried": "buried",
		"done": "done", "failed": "failed", "dead": "dead",
	},
	api.ActionBury: {
		"scheduled": "buried", "blocked": "buried", "ready": "buried", "running": "buried",
		"retrying": "buried",
	},
	api.ActionKick: {"buried": "ready"},

	api.ActionRespawn: {"failed": "ready", "dead": "ready"},
}

// TestActions tries every action on a job in every state: with the state that it is in, without one, and with
// another one, which must do nothing.
func TestActions(t *testing.T) {
	t.Parallel()
	if len(outcomes) != len(api.Actions()) {
		t.Fatalf("actions %v", api.Actions())
	}
	for _, a := range api.Actions() {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{}, HandlerOptions{})
			for s := job.Scheduled; int(s) < job.StateCount; s++ {
				state := s.Name()
				want, applies := outcomes[a][state]
				if a.Applies(state) != applies {
					t.Errorf("%s applies to a job that is %s: %v", a, state, !applies)
				}
				for _, told := range []bool{true, false} {
					queue := fmt.Sprint(state, told)
					id := f.allStates(queue)[state]
					act := func(saw string, named bool) *api.Problem {
						t.Helper()
						in := fmt.Sprintf(`{"action":%q,"state":%q`, a, saw)
						if named {
							in += fmt.Sprintf(`,"queue":%q`, queue)
						}
						if a == api.ActionMove {
							in += `,"to":"elsewhere"`
						}
						var p api.Problem
						w := f.call("POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", id), in+"}")
						if w.Code == http.StatusOK {
							return nil
						}
						p = mustProblem(t, w)
						return &p
					}
					for other := range outcomes[a] {
						if other == state {
							continue
						}
						p := act(other, true)
						if p == nil || p.Status != http.StatusConflict || p.State != state ||
							!strings.Contains(p.Detail, "nothing was done") || f.state(id) != state {
							t.Fatalf("%s seen as %s: %+v, and it is %s", state, other, p, f.state(id))
						}
					}
					saw := ""
					if told {
						saw = state
					}
					p := act(saw, told)
					switch {
					case applies && p != nil:
						t.Errorf("%s of a job that is %s: %v", a, state, p)
					case applies && f.state(id) != want:
						t.Errorf("%s of a job that is %s makes it %s, want %s", a, state, f.state(id), want)
					case !applies && (p == nil || f.state(id) != state):
						t.Errorf("%s of a job that is %s: %v, and it is %s", a, state, p, f.state(id))
					case !applies && told && p.Status != http.StatusBadRequest, !applies && !told &&
						p.Status != http.StatusConflict:
						t.Errorf("%s of a job that is %s: %v", a, state, p)
					}
				}
			}
		})
	}
}

func TestMoveGoesThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	id := f.push(job.Spec{})
	f.want(200, "POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", id),
		`{"action":"move","to":"there","state":"ready"}`, nil)
	var q api.Queue
	f.want(200, "GET", "/api/v1/namespaces/ns/queues/there", "", &q)
	if q.Counts["ready"] != 1 {
		t.Errorf("%+v", q)
	}
}

// A respawned job has no tries counted, and as many of them as are given, or as it had.
func TestRespawnGivesTries(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	for _, tt := range []struct {
		with string
		max  uint32
	}{{"", 3}, {`,"attempts":0`, 3}, {`,"attempts":7`, 7}} {
		id := f.push(job.Spec{Policy: job.Policy{MaxAttempts: 3, MaxFails: 1, Exhaust: job.ExhaustDead}})
		f.fetch("q")
		f.do(&job.Fail{Ref: job.ByID("ns", "q", id), Need: job.NeedLeased})
		target := fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d", id)
		f.want(200, "POST", target+"/actions", `{"action":"respawn","state":"dead"`+tt.with+`}`, nil)
		var d api.JobDetail
		f.want(200, "GET", target+"?queue=q", "", &d)
		if d.State != "ready" || d.Attempts != 0 || d.Fails != 0 || d.Policy.MaxAttempts != tt.max {
			t.Errorf("%s: %s, %d tries of %d, %d failures", tt.with, d.State, d.Attempts, d.Policy.MaxAttempts, d.Fails)
		}
		f.do(&job.Delete{Ref: job.ByID("ns", "q", id), Need: job.NeedAny})
	}
	// Its time to live stays.
	id := f.push(job.Spec{TTL: time.Hour, Policy: job.Policy{MaxFails: 1, Exhaust: job.ExhaustKeep}})
	f.do(&job.Fail{Ref: job.ByID("ns", "q", id), Need: job.NeedAny})
	f.want(200, "POST", fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", id), `{"action":"respawn"}`, nil)
	if d, err := f.service.Job("ns", "q", id); err != nil || d.State != "ready" || d.ExpireAt == nil {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestRefusedActions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	id := f.push(job.Spec{})
	one := fmt.Sprintf("/api/v1/namespaces/ns/jobs/%d/actions", id)
	ref := fmt.Sprintf(`{"namespace":"ns","id":%d,"state":"ready"}`, id)
	many := strings.Repeat(ref+",", targetMax) + ref
	tests := []struct {
		name, target, body string
		code               int
		says               string
	}{
		{"no action", one, `{}`, 400, "action"},
		{"unknown action", one, `{"action":"tickle"}`, 400, "tickle"},
		{"unknown state", one, `{"action":"kill","state":"tired"}`, 400, "tired"},
		{"move nowhere", one, `{"action":"move"}`, 400, "to:"},
		{"kill to somewhere", one, `{"action":"kill","to":"x"}`, 400, "to:"},
		{"kill with tries", one, `{"action":"kill","attempts":2}`, 400, "attempts:"},
		{"respawn with fewer than no tries", one, `{"action":"respawn","attempts":-1}`, 400, "attempts: it is the number -1"},
		{"respawn what is ready", one, `{"action":"respawn"}`, 409, "nothing was done"},
		{"move to a long name", one, `{"action":"move","to":"` + strings.Repeat("x", 256) + `"}`, 400, "longer"},
		{"unknown field", one, `{"action":"kill","colour":1}`, 400, "colour"},
		{"not JSON", one, `kill`, 400, "cannot be read"},
		{"more JSON", one, `{"action":"kill"} {}`, 400, "followed"},
		{"wrong type", one, `{"action":1}`, 400, "action: it is a number: send a string"},
		{"deep JSON", one, strings.Repeat("[", 100_000), 400, "cannot be read"},
		{"unknown job", "/api/v1/namespaces/ns/jobs/4711/actions", `{"action":"kill"}`, 404, "4711"},
		{
			"other namespace", fmt.Sprintf("/api/v1/namespaces/x/jobs/%d/actions", id), `{"action":"kill"}`,
			404, "not there",
		},
		{"other queue", one, `{"action":"kill","queue":"x"}`, 404, "not there"},
		{"no id", "/api/v1/namespaces/ns/jobs/abc/actions", `{"action":"kill"}`, 404, "abc"},
		{"id zero", "/api/v1/namespaces/ns/jobs/0/actions", `{"action":"kill"}`, 404, "no id"},
		{"no jobs", "/api/v1/actions", `{"action":"kill"}`, 400, "jobs"},
		{"too many jobs", "/api/v1/actions", `{"action":"kill","jobs":[` + many + `]}`, 400, "1000"},
		{
			"one of several is wrong", "/api/v1/actions",
			`{"action":"kill","jobs":[` + ref + `,{"namespace":"ns","id":1,"state":"x"}]}`, 400, "number 2",
		},
		{
			"one of several has no id", "/api/v1/actions",
			`{"action":"kill","jobs":[` + ref + `,{"namespace":"ns"}]}`, 400, "number 2",
		},
		{"too large", "/api/v1/actions", `{"action":"` + strings.Repeat("x", bodyMax) + `"}`, 413, "bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := f.call("POST", tt.target, tt.body)
			if p := mustProblem(t, w); p.Status != tt.code || !strings.Contains(p.Detail, tt.says) {
				t.Errorf("%d %s, want %d and %q", w.Code, w.Body, tt.code, tt.says)
			}
			if f.state(id) != "ready" {
				t.Error("it was done all the same")
			}
		})
	}
	r := request(t, "POST", one, `{"action":"kill"}`)
	r.Header.Set("Content-Type", "text/plain")
	if p := mustProblem(t, f.send(r)); p.Status != http.StatusUnsupportedMediaType {
		t.Errorf("plain text: %+v", p)
	}
}

func TestActOnSeveral(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	ids := f.allStates("q")
	var got struct {
		Jobs []api.Outcome `json:"jobs"`
	}
	body := fmt.Sprintf(`{"action":"kill","jobs":[{"namespace":"ns","queue":"q","id":%d,"state":"retrying"},`+
		`{"namespace":"ns","id":%d,"state":"ready"},{"namespace":"ns","id":999,"state":"ready"},{"namespace":"ns","id":%d}]}`,
		ids["retrying"], ids["buried"], ids["scheduled"])
	f.want(200, "POST", "/api/v1/actions", body, &got)
	var codes []int
	for _, o := range got.Jobs {
		code := 200
		if o.Problem != nil {
			code = o.Problem.Status
		}
		if o.Done != (code == 200) {
			t.Errorf("%+v", o)
		}
		codes = append(codes, code)
	}
	if fmt.Sprint(codes) != "[200 409 404 200]" {
		t.Errorf("outcomes %v", codes)
	}
	if f.state(ids["retrying"]) != "dead" || f.state(ids["buried"]) != "buried" || f.state(ids["scheduled"]) != "dead" {
		t.Error("the wrong jobs were killed")
	}
}
