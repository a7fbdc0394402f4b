package server

import (
	"fmt"
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
		"[throttles]\n\nmails = { speed = 4 }\n":                             "cron.toml:3: throttles: mails: unknown field",
		"[throttles.mails]\ntimeout = 4\n":                                   "cron.toml:1: throttles: mails: write for example",
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
