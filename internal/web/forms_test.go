package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

func (s *site) counts(queue string) map[string]uint64 {
	s.t.Helper()
	q, err := s.service.Queue("ns", queue)
	if err != nil {
		return nil
	}
	return q.Counts
}

// TestQueueForms uses every form of a queue as a browser without scripts does.
func TestQueueForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	s.allStates("q")
	const self = "/queue?namespace=ns&queue=q"
	button := func(name string) form { return s.page(self).form(t, `value="`+name+`"`).with("action", name) }

	steps := []struct {
		form func() form
		says string
		ok   func() bool
	}{
		{
			func() form { return button("pause").with("for", "5m") }, "Queue q is paused for 5 min.",
			func() bool { return strings.Contains(s.page(self).text, "in 4 min 59 s") },
		},
		{
			func() form { return button("resume") }, "Queue q goes on.",
			func() bool { return !strings.Contains(s.page(self).text, "Paused until") },
		},
		{
			func() form { return s.page("/queues").form(t, `value="pause"`).with("action", "pause") },
			"Queue q is paused.", func() bool { return strings.Contains(s.page(self).text, "it is resumed") },
		},
		{
			func() form { return s.page("/queues").form(t, `value="resume"`).with("action", "resume") },
			"Queue q goes on.", func() bool { return !strings.Contains(s.page(self).text, "Paused until") },
		},
		{
			func() form { return button("limit").with("concurrency", "7").with("rate", "90/m") },
			"Queue q is limited.", func() bool {
				text := s.page(self).text
				return strings.Contains(text, "of 7") && strings.Contains(text, "90/m, 1 at once")
			},
		},
		{
			func() form { return button("limit").with("group-concurrency", "3").with("group-rate", "5/s") },
			"Queue q is limited.", func() bool {
				text := s.page(self).text
				return strings.Contains(text, "Rate of a group") && strings.Contains(text, "5/s, 1 at once") &&
					strings.Contains(text, "of 7")
			},
		},
		{
			func() form { return button("limit").with("group-concurrency", "0").with("group-rate", "") },
			"Queue q is limited.", func() bool { return !strings.Contains(s.page(self).text, "5/s") },
		},
		{
			func() form { return button("fair").with("fair", "on").with("weights", "gold=5\n") },
			"The groups of queue q take turns.", func() bool {
				return strings.Contains(s.page(self).text, "take turns, gold with weight 5")
			},
		},
		{
			func() form { return button("fair").with("fair", "off") }, "in their order",
			func() bool { return !strings.Contains(s.page(self).text, "take turns, gold") },
		},
		{
			func() form { return button("limit").with("concurrency", "0").with("rate", "") }, "Queue q has no limits.",
			func() bool { return !strings.Contains(s.page(self).text, "Slots used") },
		},
		{
			func() form { return button("hook").with("push", "graves") }, "Queue q has a hook.",
			func() bool { return strings.Contains(s.page(self).text, "push to graves") },
		},
		{
			func() form { return button("hook").with("push", "") }, "Queue q has no hook.",
			func() bool { return !strings.Contains(s.page(self).text, "When a job dies") },
		},
		{func() form { return button("hook") }, "Queue q has no hook.", func() bool { return true }},
		{
			func() form { return button("respawn").with("limit", "10").with("attempts", "3") },
			"1 dead job is ready again", func() bool { c := s.counts("q"); return c["dead"] == 0 && c["ready"] == 2 },
		},
		{
			func() form { return button("purge").with("state", "ready") }, "Deleted 2 jobs (ready) of queue q.",
			func() bool { c := s.counts("q"); return c["ready"] == 1 && c["blocked"] == 0 },
		},
		{
			func() form { return button("empty") }, "of queue q.",
			func() bool { c := s.counts("q"); return c != nil && c["running"] == 0 && c["done"] == 0 },
		},
		{
			func() form { return button("remove") }, "Removed queue q with 0 jobs.",
			func() bool { return s.counts("q") == nil },
		},
	}
	for _, step := range steps {
		a := s.submit(step.form())
		if a.Code != http.StatusOK || !strings.Contains(a.text, step.says) {
			t.Fatalf("%d, want %q: %s", a.Code, step.says, a.text)
		}
		checkPage(t, step.says, "", a)
		if !step.ok() {
			t.Fatalf("%s, but: %v", step.says, s.counts("q"))
		}
	}
	if a := s.page("/queues"); strings.Contains(a.text, `role="status">Removed`) {
		t.Error("a notice is shown twice")
	}
}

// TestNothingWithoutConfirmation sends what destroys something, and does not answer the question.
func TestNothingWithoutConfirmation(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	ids := s.allStates("q")
	for _, form := range []url.Values{
		{"action": {"purge"}, "state": {"dead"}}, {"action": {"empty"}}, {"action": {"remove"}},
	} {
		form.Set("namespace", "ns")
		form.Set("queue", "q")
		a := s.post("/queues/act", form)
		checkPage(t, form.Encode(), "", a)
		if a.Code != http.StatusOK || !strings.Contains(a.text, "cannot be undone") {
			t.Errorf("%v: %d %s", form, a.Code, a.text)
		}
	}
	target := "n=ns&q=q&s=ready&i=" + fmt.Sprint(uint64(ids["ready"]))
	for _, action := range []string{"kill", "cancel", "delete"} {
		a := s.post("/jobs/act", url.Values{"action": {action}, "job": {target}})
		if a.Code != http.StatusOK || !strings.Contains(a.text, "1 job?") {
			t.Errorf("%s: %d %s", action, a.Code, a.text)
		}
	}
	a := s.post("/jobs/act", url.Values{"action": {"bury"}, "scope": {"all"}, "queue": {"q"}})
	if a.Code != http.StatusOK || !strings.Contains(a.text, "queue &#34;q&#34;") {
		t.Errorf("%d %s", a.Code, a.text)
	}
	for _, signal := range []string{"quiet", "stop"} {
		if a := s.post("/workers/act", url.Values{"signal": {signal}, "all": {"yes"}}); a.Code != http.StatusOK {
			t.Errorf("%d %s", a.Code, a.text)
		}
	}
	for state, id := range ids {
		if got := s.state(id); got != state {
			t.Errorf("the job that was %s is %s", state, got)
		}
	}
	if len(s.workers.told) > 0 {
		t.Errorf("told %v", s.workers.told)
	}
}

// TestJobForms presses every button of a job in every state, on its page and in the list.
func TestJobForms(t *testing.T) {
	t.Parallel()
	after := map[api.Action]string{
		api.ActionRetry: "ready", api.ActionRun: "ready", api.ActionKick: "ready", api.ActionBury: "buried",
		api.ActionKill:   "dead",
		api.ActionCancel: "gone", api.ActionDelete: "gone", api.ActionMove: "as it was", api.ActionRespawn: "ready",
	}
	s := newSite(t, auth.LoginOptions{})
	pressed := 0
	for _, action := range api.Actions() {
		for _, state := range api.ShownStates() {
			if !action.Applies(state) {
				continue
			}
			want := after[action]
			if action == api.ActionMove {
				want = state
			}
			queue := fmt.Sprint(action, state)
			ids := s.allStates(queue)
			f := s.page(jobLink("ns", queue, ids[state]))
			if action == api.ActionDelete && api.ActionCancel.Applies(state) {
				if strings.Contains(f.text, `value="delete"`) {
					t.Errorf("a job that is %s can be cancelled, and deleted", state)
				}
				list := s.page(link("/jobs", "queue", queue, "state", state))
				f := list.form(t, `name="scope"`).with("action", string(action)).with("job",
					targetText(&api.JobRow{Namespace: "ns", Queue: queue, ID: ids[state], State: state}))
				s.wantDone(s.submit(f))
			} else {
				b := f.form(t, `name="action" value="`+string(action)+`"`)
				if action == api.ActionMove {
					b = b.with("to", "elsewhere")
				}
				s.wantDone(s.submit(b))
			}
			pressed++
			if got := s.state(ids[state]); got != want {
				t.Errorf("%s makes a job that is %s %s, want %s", action, state, got, want)
			}
		}
	}
	if pressed < 20 {
		t.Errorf("%d buttons", pressed)
	}
}

func (s *site) wantDone(a answer) {
	s.t.Helper()
	if a.Code != http.StatusOK || !strings.Contains(a.text, `role="status">`) {
		s.t.Fatalf("%d %s", a.Code, a.text)
	}
}

// TestStaleActions acts on jobs that have moved on meanwhile: nothing is done to them, and it is said.
func TestStaleActions(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	moved, gone, stays := s.push(job.Spec{}), s.push(job.Spec{}), s.push(job.Spec{})
	list := s.page("/jobs?state=ready").form(t, `name="scope"`).with("action", "bury")
	for _, id := range []job.ID{moved, gone, stays} {
		list.values.Add("job", targetText(&api.JobRow{Namespace: "ns", Queue: "q", ID: id, State: "ready"}))
	}
	s.do(&job.Kill{Ref: job.ByID("ns", "q", moved)}, &job.Delete{Ref: job.ByID("ns", "q", gone), Need: job.NeedAny})
	a := s.post(list.action, list.values)
	if a.Code != http.StatusConflict || !strings.Contains(a.text, "done to 1, refused for 2") ||
		!strings.Contains(a.text, "the job is dead now, not ready: nothing was done") ||
		!strings.Contains(a.text, "is not there") {
		t.Errorf("%d %s", a.Code, a.text)
	}
	checkPage(t, "outcome", "", a)
	if s.state(moved) != "dead" || s.state(stays) != "buried" {
		t.Errorf("%s %s", s.state(moved), s.state(stays))
	}
}

// TestWrongForms sends forms that no page has.
func TestWrongForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	id := s.push(job.Spec{})
	target := "n=ns&q=q&s=ready&i=" + fmt.Sprint(uint64(id))
	tests := []struct {
		path string
		form url.Values
		code int
		says string
	}{
		{"/jobs/act", url.Values{"action": {"explode"}, "job": {target}}, 400, "no such action"},
		{"/jobs/act", url.Values{"action": {"bury"}}, 400, "No job was chosen"},
		{"/jobs/act", url.Values{"action": {"bury"}, "job": {"i=x"}}, 400, "cannot be read"},
		{"/jobs/act", url.Values{"action": {"bury"}, "job": {"%zz"}}, 400, "cannot be read"},
		{"/jobs/act", url.Values{"action": {"move"}, "job": {target}}, 400, "needs the name of a queue"},
		{"/jobs/act", url.Values{"action": {"kick"}, "job": {target}}, 400, "does not apply to a job that is ready"},
		{
			"/jobs/act",
			url.Values{"action": {"bury"}, "scope": {"all"}, "state": {"asleep"}, "confirm": {"yes"}},
			400, "is none of",
		},
		{
			"/jobs/act",
			url.Values{"action": {"kick"}, "scope": {"all"}, "state": {"ready"}, "confirm": {"yes"}},
			400,
			"applies to no job",
		},
		{"/queues/act", url.Values{"action": {"explode"}, "namespace": {"ns"}, "queue": {"q"}}, 400, "no such action"},
		{
			"/queues/act",
			url.Values{"action": {"pause"}, "namespace": {"ns"}, "queue": {"none"}},
			404,
			"there is no queue",
		},
		{
			"/queues/act",
			url.Values{"action": {"pause"}, "namespace": {"ns"}, "queue": {"q"}, "for": {"long"}},
			400,
			"no length of time",
		},
		{
			"/queues/act",
			url.Values{"action": {"remove"}, "namespace": {"ns"}, "queue": {"none"}},
			404,
			"there is no queue",
		},
		{"/queues/act", url.Values{
			"action": {"purge"}, "namespace": {"ns"}, "queue": {"q"}, "state": {"asleep"},
			"confirm": {"yes"},
		}, 400, "is none of"},
		{
			"/queues/act",
			url.Values{"action": {"limit"}, "namespace": {"ns"}, "queue": {"q"}, "worker": {"many"}},
			400,
			"no number of jobs",
		},
		{"/queues/act", url.Values{
			"action": {"limit"}, "namespace": {"ns"}, "queue": {"q"}, "concurrency": {"1"},
			"worker": {"1"}, "burst": {"1"}, "slot": {"long"},
		}, 400, "no number of seconds"},
		{"/queues/act", url.Values{
			"action": {"limit"}, "namespace": {"ns"}, "queue": {"q"}, "concurrency": {"1"},
			"worker": {"1"}, "burst": {"1"}, "slot": {"1"}, "rate": {"fast"},
		}, 400, "is no rate"},
		{"/queues/act", url.Values{
			"action": {"limit"}, "namespace": {"ns"}, "queue": {"q"}, "slot": {"1"},
			"group-rate": {"fast"},
		}, 400, "is no rate"},
		{"/queues/act", url.Values{
			"action": {"fair"}, "namespace": {"ns"}, "queue": {"q"}, "fair": {"on"},
			"weights": {"gold"},
		}, 400, "no weight"},
		{
			"/queues/act",
			url.Values{"action": {"fair"}, "namespace": {"ns"}, "queue": {"none"}, "fair": {"off"}},
			404,
			"there is no queue",
		},
		{
			"/queues/act",
			url.Values{"action": {"respawn"}, "namespace": {"ns"}, "queue": {"q"}, "limit": {"x"}},
			400,
			"no number of jobs",
		},
		{"/queues/act", url.Values{
			"action": {"respawn"}, "namespace": {"ns"}, "queue": {"q"}, "limit": {"9999999"},
			"attempts": {"1"},
		}, 400, "choose 1 to"},
		{"/queues/act", url.Values{
			"action": {"respawn"}, "namespace": {"ns"}, "queue": {"q"}, "limit": {"1"},
			"attempts": {"-1"},
		}, 400, "no number of attempts"},
		{"/workers/act", url.Values{"signal": {"quiet"}}, 400, "No worker was chosen"},
		{"/workers/act", url.Values{"signal": {"quiet"}, "id": {"nobody"}}, 404, "there is no worker"},
		{"/workers/act", url.Values{"signal": {"dance"}, "id": {"worker-1"}}, 400, "neither quiet nor stop"},
		{"/tokens/act", url.Values{"action": {"explode"}}, 400, "no such action"},
		{"/tokens/act", url.Values{"action": {"add"}, "namespace": {"ns"}}, 400, "invalid description"},
		{"/tokens/act", url.Values{"action": {"remove"}, "token": {"none"}}, 404, "there is no token"},
		{
			"/tokens/act",
			url.Values{"action": {"limit"}, "token": {"none"}, "reads": {"many"}},
			400,
			"no number of calls",
		},
		{
			"/tokens/act",
			url.Values{"action": {"limit"}, "token": {"none"}, "reads": {"1"}, "interval": {"1"}},
			404,
			"there is no token",
		},
		{"/tokens/act", url.Values{"action": {"unlimit"}, "token": {"none"}}, 404, "there is no token"},
		{
			"/jobs/act",
			url.Values{"action": {"respawn"}, "job": {target}, "attempts": {"some"}},
			400,
			"no number of attempts",
		},
		{"/bulk/none/stop", nil, 404, "there is no bulk action"},
		{"/jobs/act", url.Values{"action": {strings.Repeat("x", formSizeMax)}}, 413, "too large"},
		{"/queues", nil, 404, "no such page"},
	}
	for _, test := range tests {
		a := s.post(test.path, test.form)
		if a.Code != test.code || !strings.Contains(a.text, test.says) {
			t.Errorf("%s %.100v: %d, want %d %q: %s", test.path, test.form, a.Code, test.code, test.says, a.text)
		}
		checkPage(t, test.path, "", a)
	}
	if s.state(id) != "ready" {
		t.Errorf("the job is %s", s.state(id))
	}
}

func TestWorkerForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	row := s.page("/workers").form(t, `value="worker-1"`)
	all := s.page("/workers").form(t, "Quiet all")
	s.wantDone(s.submit(row.with("signal", "quiet")))
	s.wantDone(s.submit(row.with("signal", "stop")))
	s.wantDone(s.submit(all.with("signal", "quiet")))
	if got := fmt.Sprint(s.workers.told); got != "[worker-1 quiet worker-1 stop worker-1 quiet]" {
		t.Error(got)
	}
}

// TestBulkForms acts on all jobs that match, from the list to the end.
func TestBulkForms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in which nothing goes on but while the test waits
		s := newSite(t, auth.LoginOptions{})
		var ids []job.ID
		for range 300 {
			ids = append(ids, s.push(job.Spec{}))
		}
		other := s.push(job.Spec{Queue: "other"})
		list := s.page("/jobs?namespace=ns&queue=q&state=ready")
		if !strings.Contains(list.text, "all 300 that match") {
			t.Error(list.text)
		}
		a := s.submit(list.form(t, `name="scope"`).with("scope", "all").with("action", "bury"))
		checkPage(t, "bulk", "", a)
		id := a.form(t, `id="stop"`).action
		path := strings.TrimSuffix(id, "/stop")
		testkit.Advance(t, time.Second)
		a = s.page(path)
		if !strings.Contains(a.text, `value="100"`) || !strings.Contains(a.text, "done</span>") ||
			!strings.Contains(a.text, `<dd class="n">300</dd>`) {
			t.Error(a.text)
		}
		if s.counts("q")["buried"] != 300 || s.state(other) != "ready" || s.state(ids[0]) != "buried" {
			t.Errorf("%v %s", s.counts("q"), s.state(other))
		}
		if a := s.submit(form{action: id}); !strings.Contains(a.text, "It had ended already.") {
			t.Error(a.text)
		}
		if a := s.page("/bulk"); !strings.Contains(a.text, "state &#34;ready&#34;") {
			t.Error(a.text)
		}
		s.close()
	})
}

// TestBulkStop stops a bulk action that runs: what was done stays, and nothing more is done.
func TestBulkStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, auth.LoginOptions{})
		for range 1000 {
			s.push(job.Spec{})
		}
		a := s.submit(s.page("/jobs?queue=q").form(t, `name="scope"`).with("scope", "all").with("action", "bury"))
		stop := a.form(t, `id="stop"`)
		path := strings.TrimSuffix(stop.action, "/stop")
		testkit.Advance(t, 5*time.Millisecond)
		if a := s.page(path); !strings.Contains(a.text, `id="stop"`) || !strings.Contains(a.text, "of 1,000") {
			t.Fatalf("it does not run: %s", a.text)
		}
		if a := s.submit(stop); !strings.Contains(a.text, "Stopped. What was done before stays.") ||
			strings.Contains(a.text, `id="stop"`) {
			t.Error(a.text)
		}
		done := s.counts("q")["buried"]
		if done == 0 || done == 1000 {
			t.Errorf("stopped after %d", done)
		}
		testkit.Advance(t, time.Second)
		if now := s.counts("q")["buried"]; now != done {
			t.Errorf("%d were done before, %d are now", done, now)
		}
		if a := s.page("/bulk"); !strings.Contains(a.text, "<td>stopped</td>") {
			t.Error(a.text)
		}
		s.close()
	})
}

// TestTokenForms makes a token, limits it, takes the limits away and removes it.
func TestTokenForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	f := s.page("/tokens").form(t, `value="add"`).with("action", "add").with("namespace", "ns").with("pool",
		"fast").with("description", "<b>reports</b>")
	a := s.post(f.action, f.values)
	checkPage(t, "made", "", a)
	if a.Code != http.StatusOK || !strings.Contains(a.text, `id="made">a-token-that-is-long-0000<`) ||
		!strings.Contains(a.text, "&lt;b&gt;reports") {
		t.Fatalf("%d %s", a.Code, a.text)
	}
	again := s.page("/tokens")
	if strings.Contains(again.text, "that-is-long") || !strings.Contains(again.text, "<code>…0000</code>") ||
		strings.Contains(s.cookies[noticeCookie], "that") {
		t.Error("the token is told twice")
	}
	s.wantDone(s.submit(again.form(t, `value="limit"`).with("action", "limit").with("reads",
		"10").with("interval", "60")))
	if l := s.tokens.tokens[0].Limits; l == nil || *l != (api.TokenLimits{Reads: 10, Interval: 60}) {
		t.Errorf("%+v", l)
	}
	if a = s.page("/tokens?namespace=ns"); !strings.Contains(a.text, "10 reads, any writes") {
		t.Error(a.text)
	}
	s.wantDone(s.submit(a.form(t, `value="unlimit"`).with("action", "unlimit")))
	if s.tokens.tokens[0].Limits != nil {
		t.Error("it still has limits")
	}
	s.wantDone(s.submit(a.form(t, `value="remove"`).with("action", "remove")))
	if len(s.tokens.tokens) != 0 {
		t.Errorf("%+v", s.tokens.tokens)
	}
	if a = s.page("/tokens"); !strings.Contains(a.text, "There are no tokens. Make one below.") {
		t.Error(a.text)
	}
}

// The buttons of a group of failures begin an action on all its jobs, after a question.
func TestFailureForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	const hostile = `<img src=x onerror="alert(1)">`
	fail := func(kind, message string) job.ID {
		id := s.push(job.Spec{Queue: "q", Type: kind, Policy: job.Policy{MaxFails: 1, Exhaust: job.ExhaustDead}})
		s.fetch("q")
		s.do(&job.Fail{
			Ref: job.ByID("ns", "q", id), Need: job.NeedLeased,
			Failure: job.Failure{Type: "E", Message: message},
		})
		return id
	}
	first, second, other := fail("Mail", hostile), fail("Mail", hostile), fail("Report", "no paper")
	text := s.page("/failures").text
	for part, want := range map[string]bool{
		"Retry all 2": true, "Delete all 1": true, "All 3 were looked at": true,
		hostile: false, `<rect x="`: true,
	} {
		if strings.Contains(text, part) != want {
			t.Errorf("the page has %q: %t\n%s", part, !want, text)
		}
	}
	form := url.Values{
		"scope": {"all"}, "action": {"retry"}, "state": {"dead,retrying"}, "type": {"Mail"},
		"error": {"<img src=x onerror="}, "back": {"/failures"},
	}
	if a := s.post("/jobs/act", form); a.Code != http.StatusOK || s.state(first) != "dead" {
		t.Errorf("it did not ask: %d", a.Code)
	}
	form.Set("confirm", "yes")
	bulk := s.post("/jobs/act", form).Header().Get("Location")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.page(bulk).text, ">done<"); {
		if time.Now().After(deadline) {
			t.Fatal(s.page(bulk).text)
		}
	}
	if s.state(first) != "ready" || s.state(second) != "ready" || s.state(other) != "dead" {
		t.Errorf("%s, %s, %s", s.state(first), s.state(second), s.state(other))
	}
}
