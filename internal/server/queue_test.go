package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/job"
)

// Faktory's throttles are limits of queues: they come with the files and go with them. What an operator has set beside
// them stays.
func TestThrottles(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "faktory.addr")
	f.write("", "[throttles]\nmails = { concurrency = 4, timeout = 60 }\nslow = { worker = 5 }\n")
	first, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, first, Options{Reloads: f.reloads, Reload: f.load})
	shows := func(when string, want ...string) {
		t.Helper()
		infos, err := r.server.engine.Queues("default", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range infos {
			l := infos[i].Limits
			got = append(got, fmt.Sprintf("%s %d %d %s %d", infos[i].Name, l.Concurrency, l.Worker, l.SlotFor, l.Rate))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	shows("at the start", "mails 4 0 1m0s 0", "slow 0 5 0s 0")
	reload := func(original, says string) {
		t.Helper()
		before := strings.Count(r.log.String(), says)
		f.write("", original)
		f.reloads <- syscall.SIGHUP
		until(t, says, func() bool { return strings.Count(r.log.String(), says) > before })
	}
	for text, says := range map[string]string{
		"[throttles]\nslow = { worker = 7 }\nmails = { concurrency = -1 }\n": "cron.toml:3: throttles: mails: ",
		"[throttles]\n\nmails = { speed = 4 }\n": "cron.toml:3: throttles: " +
			"mails: unknown field",
		"[throttles.mails]\ntimeout = 4\n": "cron.toml:1: throttles: mails: " +
			"write for example",
	} {
		reload(text, says)
	}
	shows("after wrong ones", "mails 4 0 1m0s 0", "slow 0 5 0s 0")
	limits := job.Limits{Worker: 5, Rate: 10, Per: time.Second}
	r.server.engine.NewCaller().Do(t.Context(), &job.SetLimits{Namespace: "default", Queue: "slow", Limits: limits})
	reload("[throttles]\nmails = { concurrency = 9 }\n", "configuration reloaded")
	shows("after a change", "mails 9 0 0s 0", "slow 0 0 0s 10")
	reload("", "configuration reloaded")
	shows("without throttles", "mails 0 0 0s 0", "slow 0 0 0s 10")
}

// What the file says of a queue comes and goes with the file. Operators change it there only; what it does not say is
// theirs.
func TestQueuesOfFile(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "web.addr")
	f.write(`
[[queue]]
name = "mails"
concurrency = 4
slot_seconds = 1.5
group_rate = "5/m"
fair = true
weights = { gold = 5, "" = 2 }
[[queue]]
name = "other"
namespace = "ns"
rate = "100/s"
burst = 7
`, "")
	first, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, first, Options{Reloads: f.reloads, Reload: f.load})
	shows := func(when, want string) {
		t.Helper()
		infos, err := r.server.engine.Queues("", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range infos {
			l := infos[i].Limits
			got = append(got, fmt.Sprintf("%s %d %d %s %d/%s:%d %d %d/%s:%d %v", infos[i].Name, l.Concurrency,
				l.Worker, l.SlotFor,
				l.Rate, l.Per, l.Burst, l.GroupConcurrency, l.GroupRate, l.GroupPer, l.GroupBurst, infos[i].Fairness))
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s:\n%s\nwant\n%s", when, strings.Join(got, "\n"), want)
		}
	}
	both := "mails 4 0 1.5s 0/0s:0 0 5/1m0s:1 {true map[:2 gold:5]}\nother 0 0 0s 100/1s:7 0 0/0s:0 {false map[]}"
	shows("at the start", both)
	reload := func(own, says string) {
		t.Helper()
		before := strings.Count(r.log.String(), says)
		f.write(own, "")
		f.reloads <- syscall.SIGHUP
		until(t, says, func() bool { return strings.Count(r.log.String(), says) > before })
	}
	for own, says := range map[string]string{
		"[[queue]]\nname = \"a\"\nworker = 1\n\n[[queue]]\nname = \"b\"\nrate = " +
			"\"fast\"\n": "own.toml:5: queue: b: rate: ",
		"[[queue]]\nname = \"a\"\nworker = 1\n[[queue]]\nname = \"a\"\nfair = true\n": "own.toml:4: queue: a: " +
			"it is there twice",
		"\n[[queue]]\nname = \"a\"\nspeed = 1\n": "own.toml:2: " +
			"queue: a: unknown field",
		"[[queue]]\nconcurrency = 1\n": "own.toml:1: " +
			"queue: name is missing",
		"[[queue]]\nname = \"a\"\n": "own.toml:1: queue: a: " +
			"write what is limited",
		"[[queue]]\nname = \"a\"\nconcurrency = -1\n": "own.toml:1: queue: a: " +
			"cannot unmarshal number -1",
		"[[queue]]\nname = \"a\"\nburst = 1\n": "own.toml:1: queue: a: " +
			"burst: it needs a rate",
		"[[queue]]\nname = \"a\"\nslot_seconds = 1\n": "own.toml:1: queue: a: " +
			"slot_seconds: it needs concurrency or worker",
		"[[queue]]\nname = \"a\"\nweights = { x = 2 }\n": "own.toml:1: queue: a: " +
			"weights: they need fair = true",
		"[[queue]]\nname = \"a\"\nfair = true\nweights = { x = 0 }\n": "own.toml:1: queue: a: " +
			"a weight is 1 to 1000",
		"[[queue]]\nname = \"a\"\nconcurrency = 1\n[[cron]]\nname = \"c\"\nqueue = \"q\"\n": "own.toml:4: cron: ",
	} {
		reload(own, says)
	}
	shows("after wrong ones", both)

	put := func(path, body, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
			"http://"+r.addr(0)+"/api/v1/namespaces/default/queues/mails/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if got, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v; want %q", body, got, err, want)
		}
	}
	put("limits", `{"concurrency": 5, "slot_seconds": 1.5, "group_rate": "5/m"}`,
		"a file of the configuration has set limits of queue")
	put("limits", `{}`, "a file of the configuration has set limits of queue")
	put("fairness", `{"on": true}`, "a file of the configuration has set whether queue")
	put("fairness", `{"on": true, "weights": {"gold": 5, "": 2}}`, `"gold":5`)
	shows("after refusals", both)
	put("limits", `{"concurrency": 4, "slot_seconds": 1.5, "group_rate": "5/m", "worker": 3}`, `"worker":3`)
	reload("[[queue]]\nname = \"mails\"\ngroup_concurrency = 2\n", "configuration reloaded")
	shows("after a change", "mails 0 3 0s 0/0s:0 2 0/0s:0 {false map[]}\nother 0 0 0s 0/0s:0 0 0/0s:0 {false map[]}")
	put("fairness", `{"on": true}`, `"on":true`)
	reload("", "configuration reloaded")
	shows("without entries", "mails 0 3 0s 0/0s:0 0 0/0s:0 {true map[]}\nother 0 0 0s 0/0s:0 0 0/0s:0 {false map[]}")
	if left, err := r.server.ruled(); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
