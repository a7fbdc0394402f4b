package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

const cronPath = "/api/v1/namespaces/ns/cron/"

// cronAsks calls everything about cron entries with every answer.
func cronAsks(f *fixture) []ask {
	f.do(&job.SetSchedules{Source: job.SourceFile, Replace: true, Entries: []job.Schedule{
		{Namespace: "ns", Name: "filed", When: "@daily", Job: job.Spec{Queue: "q"}},
	}})
	f.do(&job.Configure{Namespace: "ns", Queue: "tight", Settings: job.Settings{Capacity: 1}})
	f.push(job.Spec{Queue: "tight"})
	entry := `{"schedule":"0 9 * * *","time_zone":"Asia/Kathmandu","queue":"q","missed":"all","overlap":"skip","job":{"type":"T","body":[1],"retry":3}}`
	asks := []ask{
		{"PUT", cronPath + "a", entry, 200, ""},
		{"PUT", cronPath + "full", `{"schedule":"@daily","queue":"tight"}`, 200, ""},
		{"PUT", cronPath + "filed", entry, 409, ""},
		{"GET", "/api/v1/cron", "", 200, ""},
		{"GET", cronPath + "a", "", 200, ""},
		{"GET", cronPath + "none", "", 404, ""},
		{"GET", cronPath + "a/next?count=3", "", 200, ""},
		{"GET", cronPath + "a/next?count=0", "", 400, ""},
		{"GET", cronPath + "none/next", "", 404, ""},
		{"POST", cronPath + "a/run", "", 200, ""},
		{"POST", cronPath + "full/run", "", 409, ""},
		{"POST", cronPath + "none/run", "", 404, ""},
		{"GET", cronPath + "a", "", 200, ""},
		{"POST", cronPath + "a/pause", "", 200, ""},
		{"POST", cronPath + "none/pause", "", 404, ""},
		{"POST", cronPath + "a/resume", "", 200, ""},
		{"POST", cronPath + "none/resume", "", 404, ""},
		{"DELETE", cronPath + "filed", "", 409, ""},
		{"DELETE", cronPath + "a", "", 204, ""},
		{"DELETE", cronPath + "a", "", 404, ""},
		{"GET", "/api/v1/cron?namespace=ns", "", 503, "stopped"},
		{"PUT", cronPath + "a", entry, 503, "stopped"},
		{"PUT", cronPath + "a", entry, 507, "noSpace"},
		{"POST", cronPath + "a/run", "", 507, "noSpace"},
	}
	for _, a := range []struct{ method, path string }{
		{"GET", "a"}, {"DELETE", "a"}, {"POST", "a/pause"}, {"POST", "a/resume"}, {"POST", "a/run"}, {"GET", "a/next"},
	} {
		asks = append(asks, ask{a.method, cronPath + a.path, "", 503, "stopped"})
	}
	return asks
}

func TestCronRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, HandlerOptions{})
		defer f.close()
		var c api.Cron
		f.want(200, "PUT", cronPath+"a", `{"schedule":"@every 10s","queue":"q","overlap":"skip","job":{"type":"T","body":{"n":1},"priority":3,"retry":0}}`, &c)
		if c.Next == nil || c.Origin != "api" || c.Missed != "once" || c.Overlap != "skip" || *c.Job.Retry != 0 ||
			string(c.Job.Body) != `{"n":1}` {
			t.Fatalf("%+v", c)
		}
		testkit.Advance(t, 25*time.Second)
		f.want(200, "GET", cronPath+"a", "", &c)
		if c.Fired != 1 || c.Skipped != 1 || c.LastResult != "unfinished" || len(c.Runs) != 2 ||
			c.Runs[0].Kind != "overlapped" || c.Running == 0 {
			t.Fatalf("%+v", c)
		}
		f.do(&job.Ack{Ref: job.ByID("ns", "q", c.Running), Need: job.NeedAny})
		c = api.Cron{}
		f.want(200, "GET", cronPath+"a", "", &c)
		if c.LastResult != "succeeded" || c.Running != 0 || c.Runs[1].Ended == nil {
			t.Fatalf("%+v", c)
		}
		// Of several runs the result is that of the newest.
		testkit.Advance(t, 5*time.Second)
		f.want(200, "GET", cronPath+"a", "", &c)
		if c.LastResult != "unfinished" || c.Runs[0].Kind != "fired" || c.Runs[2].Result != "succeeded" {
			t.Fatalf("%+v", c)
		}
		var next api.NextRuns
		f.want(200, "GET", cronPath+"a/next?count=3", "", &next)
		if len(next.Next) != 3 || next.Next[2].Sub(next.Next[0]) != 20*time.Second || !next.Next[0].Equal(*c.Next) {
			t.Fatalf("%+v", next)
		}
		var all api.Crons
		f.want(200, "GET", "/api/v1/cron", "", &all)
		if len(all.Cron) != 1 || all.Cron[0].Runs != nil || all.Cron[0].Job.Body != nil {
			t.Fatalf("%+v", all)
		}
		// What is shown can be set again, and changes nothing.
		again, err := json.Marshal(c.NewCron)
		if err != nil {
			t.Fatal(err)
		}
		var same api.Cron
		f.want(200, "PUT", cronPath+"a", string(again), &same)
		if !same.Next.Equal(*c.Next) || same.Fired != c.Fired {
			t.Fatalf("%+v", same)
		}
		for _, wrong := range []struct{ body, want string }{
			{`{"schedule":"@every 10s"}`, "queue"},
			{`{"schedule":"61 * * * *","queue":"q"}`, "61"},
			{`{"schedule":"@daily","queue":"q","missed":"never"}`, "missed"},
			{`{"schedule":"@daily","queue":"q","missed_limit":3}`, "missed_limit"},
			{`{"schedule":"@daily","queue":"q","job":{"run_at":"2030-01-01T00:00:00Z"}}`, "run_at"},
		} {
			var p api.Problem
			if f.want(400, "PUT", cronPath+"b", wrong.body, &p); !strings.Contains(p.Detail, wrong.want) {
				t.Errorf("%s: %s", wrong.body, p.Detail)
			}
		}
	})
}
