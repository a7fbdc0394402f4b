package operator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// fill pushes n jobs into each of some queues, every fourth of them scheduled.
func (f *fixture) fill(n int, queues ...string) {
	f.t.Helper()
	var cmds []job.Command
	for _, q := range queues {
		for i := range n {
			s := job.Spec{Namespace: "ns", Queue: q, Body: []byte("even"), BodyKind: job.BodyBytes}
			if i%2 == 1 {
				s.Body = []byte("odd")
			}
			if i%4 == 0 {
				s.Delay = 100 * time.Hour
			}
			cmds = append(cmds, &job.Push{Spec: s})
		}
	}
	f.do(cmds...)
}

// counts returns how many jobs of a queue are ready, scheduled and dead.
func (f *fixture) counts(queue string) [3]uint64 {
	f.t.Helper()
	q, ok, err := f.engine.Queue("ns", queue)
	if err != nil {
		f.t.Fatal(err)
	}
	if !ok {
		return [3]uint64{}
	}
	return [3]uint64{q.Counts[job.Ready], q.Counts[job.Scheduled], q.Counts[job.Dead]}
}

// until lets time pass until a bulk action has ended, and returns it.
func (f *fixture) until(id string) api.Bulk {
	f.t.Helper()
	for range 100_000 {
		b, err := f.service.Bulk(id)
		if err != nil {
			f.t.Fatal(err)
		}
		if bulkEnded(&b) {
			return b
		}
		testkit.Advance(f.t, paceRestMin)
	}
	f.t.Fatal("the bulk action does not end")
	return api.Bulk{}
}

func TestBulk(t *testing.T) {
	const n = 5000
	tests := []struct {
		name   string
		action api.Action
		with   api.With
		filter api.Filter
		done   uint64
		total  uint64
		a, b   [3]uint64 // ready, scheduled and dead afterwards
	}{
		{
			"kill everything of a queue", api.ActionKill,
			api.With{},
			api.Filter{Namespace: "ns", Queue: "a"},
			n, n,
			[3]uint64{0, 0, n},
			[3]uint64{n * 3 / 4, n / 4, 0},
		},
		{
			"delete what is ready, everywhere", api.ActionDelete,
			api.With{},
			api.Filter{States: []string{"ready"}},
			n * 3 / 2, n * 3 / 2,
			[3]uint64{0, n / 4, 0},
			[3]uint64{0, n / 4, 0},
		},
		{
			"run what is scheduled", api.ActionRun,
			api.With{},
			api.Filter{Queue: "b"},
			n / 4, n / 4,
			[3]uint64{n * 3 / 4, n / 4, 0},
			[3]uint64{n, 0, 0},
		},
		{
			"move by body", api.ActionMove,
			api.With{To: "b"},
			api.Filter{Body: "odd"},
			n / 2, n,
			[3]uint64{n / 4, n / 4, 0},
			[3]uint64{n * 5 / 4, n / 4, 0},
		},
		{
			"nothing fits", api.ActionKick,
			api.With{},
			api.Filter{},
			0, 0,
			[3]uint64{n * 3 / 4, n / 4, 0},
			[3]uint64{n * 3 / 4, n / 4, 0},
		},
	}
	t.Parallel()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Options{}, HandlerOptions{})
				f.fill(n, "a", "b")
				started, err := f.service.StartBulk(t.Context(), tt.action, tt.filter, tt.with)
				if err != nil || bulkEnded(&started) || started.Total != tt.total {
					t.Fatalf("%+v, %v", started, err)
				}
				b := f.until(started.ID)
				if b.State != api.BulkDone || b.Done != tt.done || b.Refused != 0 ||
					b.Examined != b.Total || b.Ended == nil {
					t.Errorf("%+v", b)
				}
				if f.counts("a") != tt.a || f.counts("b") != tt.b {
					t.Errorf("a %v, want %v; b %v, want %v", f.counts("a"), tt.a, f.counts("b"), tt.b)
				}
				f.close()
			})
		})
	}
}

// What is pushed after the beginning is not concerned, even if it comes before the action is done.
func TestBulkLeavesWhatComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		f.fill(1000, "a")
		b, err := f.service.StartBulk(t.Context(), api.ActionDelete, api.Filter{}, api.With{})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Advance(t, 2*paceRestMin)
		late := f.push(job.Spec{Queue: "a"})
		f.push(job.Spec{Queue: "b"})
		if end := f.until(b.ID); end.Done != 1000 {
			t.Errorf("%+v", end)
		}
		if f.counts("a") != [3]uint64{1, 0, 0} || f.counts("b") != [3]uint64{1, 0, 0} || f.state(late) != "ready" {
			t.Errorf("left: %v %v", f.counts("a"), f.counts("b"))
		}
		f.close()
	})
}

// Jobs that go by themselves after the action has found them are told as refused.
func TestBulkTellsWhatWasRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		f.fill(2000, "a")
		b, err := f.service.StartBulk(t.Context(), api.ActionKill, api.Filter{Queue: "a"}, api.With{})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Advance(t, 2*paceRestMin)
		for _, s := range []job.State{job.Ready, job.Scheduled} {
			f.do(&job.Purge{Namespace: "ns", Queue: "a", State: s})
		}
		end := f.until(b.ID)
		if dead := f.counts("a")[2]; end.State != api.BulkDone || dead == 0 || end.Done != dead || end.Refused == 0 {
			t.Errorf("%d are dead: %+v", dead, end)
		}
		f.close()
	})
}

// A cancelled action does nothing more once the cancel is answered, and keeps what it has done.
func TestBulkCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		f.fill(10_000, "a")
		var b, second api.Bulk
		f.want(202, "POST", "/api/v1/bulk", `{"action":"kill","filter":{"queue":"a"}}`, &b)
		f.want(202, "POST", "/api/v1/bulk", `{"action":"delete","filter":{"queue":"a"}}`, &second)
		testkit.Advance(t, 30*paceRestMin)
		var running api.Bulk
		f.want(200, "GET", "/api/v1/bulk/"+b.ID, "", &running)
		if running.State != api.BulkRunning || running.Done == 0 || running.Done >= 10_000 || running.Total != 10_000 {
			t.Fatalf("%+v", running)
		}
		f.want(409, "DELETE", "/api/v1/bulk/"+b.ID, "", nil)
		f.want(200, "GET", "/api/v1/bulk/"+second.ID, "", &second)
		if second.State != api.BulkWaiting {
			t.Errorf("two run at a time: %+v", second)
		}
		f.want(200, "POST", "/api/v1/bulk/"+second.ID+"/cancel", "", &second)
		var end api.Bulk
		f.want(200, "POST", "/api/v1/bulk/"+b.ID+"/cancel", "", &end)
		if end.State != api.BulkCancelled || end.Done < running.Done || second.State != api.BulkCancelled ||
			second.Done != 0 {
			t.Errorf("%+v, %+v", end, second)
		}
		dead := f.counts("a")[2]
		testkit.Advance(t, time.Minute)
		if got := f.counts("a")[2]; got != dead || got != end.Done {
			t.Errorf("%d dead, %d when it was cancelled, %d by its own account", got, dead, end.Done)
		}
		f.want(200, "POST", "/api/v1/bulk/"+b.ID+"/cancel", "", &end)
		if end.State != api.BulkCancelled {
			t.Errorf("%+v", end)
		}
		f.want(204, "DELETE", "/api/v1/bulk/"+b.ID, "", nil)
		f.want(404, "GET", "/api/v1/bulk/"+b.ID, "", nil)
		f.close()
	})
}

// An action that a stop has interrupted goes on with the next start, and does nothing twice.
func TestBulkRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		f := openFixture(t, st, Options{}, HandlerOptions{})
		f.fill(10_000, "a")
		b, err := f.service.StartBulk(t.Context(), api.ActionMove,
			api.Filter{Namespace: "ns", States: []string{"ready", "scheduled"}}, api.With{To: "z"})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := f.service.StartBulk(t.Context(), api.ActionKick, api.Filter{}, api.With{})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Advance(t, 55*paceRestMin)
		f.close()
		e, err := engine.Open(engine.Options{Store: st, Durability: engine.DurabilityNone})
		if err != nil {
			t.Fatal(err)
		}
		before, _, err := e.Queue("ns", "z")
		if err != nil || before.Total() == 0 || before.Total() >= 10_000 {
			t.Fatalf("%d were moved before the stop, %v", before.Total(), err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		again := openFixture(t, st, Options{}, HandlerOptions{})
		end := again.until(b.ID)
		if end.State != api.BulkDone || end.Total != 10_000 || end.Done > 10_000 ||
			end.Done < 10_000-bulkFind*paceIdle || end.Examined < end.Total {
			t.Errorf("%+v", end)
		}
		if again.counts("a") != [3]uint64{} || again.counts("z") != [3]uint64{7500, 2500, 0} {
			t.Errorf("a %v, z %v", again.counts("a"), again.counts("z"))
		}
		if z, _, err := again.engine.Queue("ns", "a"); err != nil || z.Totals[job.CountMoved] != 10_000 {
			t.Errorf("moved %d times, %v", z.Totals[job.CountMoved], err)
		}
		again.until(ended.ID)
		next, err := again.service.StartBulk(t.Context(), api.ActionKick, api.Filter{}, api.With{})
		if err != nil || compareIDs(next.ID, ended.ID) <= 0 {
			t.Errorf("the next id is %s after %s, %v", next.ID, ended.ID, err)
		}
		again.until(next.ID)
		again.close()
		// Those that have ended are still there.
		third := openFixture(t, st, Options{}, HandlerOptions{})
		list, err := third.service.Bulks(api.PageOf{})
		if err != nil || len(list.Bulk) != 3 || list.Bulk[0].ID != next.ID || list.Bulk[2].State != api.BulkDone {
			t.Errorf("%+v, %v", list, err)
		}
		third.close()
	})
}

// Jobs that move on by themselves while the action comes to them are left alone.
func TestBulkKeepsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		for i := range bulkKeptMax + 20 {
			b, err := f.service.StartBulk(t.Context(), api.ActionKick, api.Filter{Queue: fmt.Sprint(i)}, api.With{})
			if err != nil {
				t.Fatal(err)
			}
			f.until(b.ID)
		}
		var all []string
		cursor := ""
		for {
			p, err := f.service.Bulks(api.PageOf{Limit: 30, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range p.Bulk {
				all = append(all, b.Filter.Queue)
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if len(all) != bulkKeptMax || all[0] != fmt.Sprint(bulkKeptMax+19) || all[bulkKeptMax-1] != "20" {
			t.Errorf("%d are kept: %v", len(all), all)
		}
		testkit.Advance(t, bulkKeptFor+time.Hour)
		b, err := f.service.StartBulk(t.Context(), api.ActionKick, api.Filter{}, api.With{})
		if err != nil {
			t.Fatal(err)
		}
		f.until(b.ID)
		if p, err := f.service.Bulks(api.PageOf{}); err != nil || len(p.Bulk) != 1 {
			t.Errorf("%d are kept for days, %v", len(p.Bulk), err)
		}
		values, err := f.engine.Values(bulkSpace, "", 0)
		if err != nil || len(values) != 1 {
			t.Errorf("%d are stored, %v", len(values), err)
		}
		f.close()
	})
}

func TestRefusedBulk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		f.fill(1000, "a")
		for body, says := range map[string]string{
			`{}`:                "action",
			`{"action":"move"}`: "to:",
			`{"action":"kill","filter":{"states":["dead"]}}`: "no job in these states",
			`{"action":"kill","filter":{"states":["x"]}}`:    `"x"`,
			`{"action":"kill","filter":{"after":"x"}}`:       "is no time",
			`{"action":"kill","filter":{"colour":"x"}}`:      "colour",
			`{"action":"kill"`:                               "cannot be read",
		} {
			w := f.call("POST", "/api/v1/bulk", body)
			if p := mustProblem(t, w); p.Status != 400 || !strings.Contains(p.Detail, says) {
				t.Errorf("%s: %+v", body, p)
			}
		}
		f.want(404, "GET", "/api/v1/bulk/none", "", nil)
		f.want(404, "POST", "/api/v1/bulk/none/cancel", "", nil)
		f.want(404, "DELETE", "/api/v1/bulk/none", "", nil)
		for range bulkOpenMax {
			f.want(202, "POST", "/api/v1/bulk", `{"action":"kill"}`, nil)
		}
		f.want(429, "POST", "/api/v1/bulk", `{"action":"kill"}`, nil)
		f.close()
	})
}

// Dead jobs come back as if they were new.
func TestBulkRespawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		f.fill(100, "a")
		for _, step := range []struct {
			action api.Action
			with   api.With
		}{{api.ActionKill, api.With{}}, {api.ActionRespawn, api.With{Attempts: 4}}} {
			b, err := f.service.StartBulk(t.Context(), step.action, api.Filter{Queue: "a"}, step.with)
			if err != nil {
				t.Fatal(err)
			}
			if b = f.until(b.ID); b.State != api.BulkDone || b.Done != 100 || b.With != step.with {
				t.Errorf("%+v", b)
			}
		}
		page, err := f.service.Jobs(api.Filter{Queue: "a", States: []string{"ready"}}, api.PageOf{Limit: api.PageMax})
		if err != nil || len(page.Jobs) != 100 {
			t.Fatalf("%d jobs, %v", len(page.Jobs), err)
		}
		d, err := f.service.Job("ns", "a", page.Jobs[0].ID)
		if err != nil || d.Policy.MaxAttempts != 4 {
			t.Errorf("%+v, %v", d.Policy, err)
		}
		f.close()
	})
}
