package server

import (
	"net/http"
	"strings"
	"testing"

	"millrace/internal/job"
)

const testTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// What is pushed along with a job through the operator API, and its trace, reach a worker of Faktory. So does the
// custom of a cron entry.
func TestCustom(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{"web.addr": "127.0.0.1:0", "faktory.addr": "127.0.0.1:0"})
	r := start(t, cfg, Options{})
	addrs := map[string]string{}
	for _, g := range r.server.gates {
		addrs[g.config.Name()] = g.Addr().String()
	}
	call := func(method, path, body string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method,
			"http://"+addrs["web"]+"/api/v1/namespaces/default"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("traceparent", testTrace)
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close() // only its status counts
		if answer.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s", method, path, answer.Status)
		}
	}
	c := dial(t, addrs["faktory"])
	line := func() string {
		t.Helper()
		text, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	line() // its greeting
	c.expect(t, `HELLO {"v":2,"wid":"w","hostname":"h","pid":1,"labels":[]}`, "+OK")
	fetched := func() string {
		t.Helper()
		c.send(t, "FETCH q")
		line() // the length of what follows
		text := line()
		return text
	}
	call("POST", "/queues/q/jobs", `{"jobs":[{"type":"T","custom":{"tenant": "a"}}]}`)
	if got, want := fetched(), `"custom":{"tenant":"a","traceparent":"`+testTrace+`"}`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	call("PUT", "/cron/c", `{"schedule":"@daily","queue":"q","job":{"type":"T","custom":{"tenant":"b"}}}`)
	call("POST", "/cron/c/run", "")
	if got, want := fetched(), `"custom":{"tenant":"b"}`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	s, _, err := r.server.engine.Schedule("default", "c")
	if err != nil || string(s.Job.Extra) != `{"tenant":"b"}` || s.Job.BodyKind != job.BodyNone {
		t.Errorf("%q: %v", s.Job.Extra, err)
	}
}
