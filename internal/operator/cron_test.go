package operator

import "millrace/internal/job"

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
