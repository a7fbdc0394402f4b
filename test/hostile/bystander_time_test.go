//go:build linux

package hostile

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/pebblestore"
)

// timeTrials have the time of many jobs come at once.
var timeTrials = []trial{
	{
		name: "time due", does: "%d jobs that are due in the same second", size: 1_000_000,
		run: func(f *field) {
			at := f.soon(f.n, func(few int) { f.pushNamed("other", few, plain) })
			f.pushNamed("set", f.n, func(int) string { return fmt.Sprintf(`,"at":%q`, at.UTC().Format(time.RFC3339)) })
			f.atTime(at, func() { f.await("set", "ready", f.n) })
		},
	},
	{
		name: "time expire", does: "%d jobs that expire in the same second", size: 1_000_000, short: 50_000,
		run: func(f *field) {
			at := f.soon(f.n, func(few int) { f.pushNamed("other", few, plain) })
			f.pushNamed("set", f.n, func(int) string {
				return fmt.Sprintf(`,"custom":{"expires_at":%q}`, at.UTC().Format(time.RFC3339))
			})
			f.atTime(at, func() { f.await("set", "ready", 0) })
		},
	},
	{
		name: "time lapse", does: "%d reservations that end in the same second", size: 1_000_000,
		run: timeLapse,
	},
	{
		name: "time forget", does: "%d batches that are forgotten in the same second", size: 1_000_000,
		run: timeForget,
	},
	{
		name: "time dead max", does: "deaths in a queue that has %d dead jobs too many", size: 1_000_000,
		run: func(f *field) {
			f.bury()
			f.restart("--faktory-dead-max=1")
			deaths := f.n/250 + 1 // each drops up to 256
			f.pushNamed("set", deaths, func(int) string { return `,"retry":-1` })
			w := f.wire("faktory")
			f.measure(f.does, func() {
				for i := range deaths {
					w.call("FETCH set\r\n")
					f.command(func() {
						w.call("FAIL {\"jid\":%q,\"errtype\":\"e\",\"message\":\"m\"}\r\n",
							jid("set", i))
					})
				}
				f.await("set", "dead", 1)
			})
		},
	},
}

// atTime measures what happens at a time that has not come.
func (f *field) atTime(at time.Time, done func()) {
	f.t.Helper()
	f.watch()
	if left := time.Until(at) - 2*f.calm(); left > 0 {
		f.pass(left)
	} else {
		f.t.Logf("%v late: the trial has been built up too slowly", -left)
	}
	f.measure(f.does, func() {
		f.pass(max(0, time.Until(at)))
		f.command(done)
	})
}

// timeLapse leases all jobs until the same second, which LMSTFY can, because the length of a lease is said when it
// begins.
func timeLapse(f *field) {
	f.push("set", f.n, "")
	f.push("other", 20*bulk, "")
	take := func(queue string, n int, at time.Time) {
		for left := n; left > 0; left -= min(left, 100) {
			ttr := max(0, int(time.Until(at).Seconds())) + 1 // not before that time
			path := fmt.Sprintf("/api/default/%s?count=%d&ttr=%d", queue, min(left, 100), ttr)
			if code, text := f.http("lmstfy", http.MethodGet, path, ""); code != http.StatusOK {
				f.t.Fatalf("consume: status %d: %.200s", code, text)
			}
		}
	}
	at := f.soon(f.n, func(few int) { take("other", few, time.Now().Add(time.Hour)) })
	take("set", f.n, at)
	f.atTime(at, func() { f.await("set", "running", 0) })
}

// timeForget makes the batches in an engine of its own: a client cannot say how long they are kept.
func timeForget(f *field) {
	var last job.BatchID
	made := func(at time.Time) func(e *engine.Engine, n int) {
		return func(e *engine.Engine, n int) {
			cmds := []job.Command{}
			for range n {
				cmds = append(cmds, &job.NewBatch{Namespace: "default", OpenFor: time.Until(at)})
			}
			results := e.NewCaller().Do(f.t.Context(), cmds...)
			last = results[n-1].Batch
		}
	}
	at := f.soon(f.n, func(few int) { f.offline(few, made(time.Now().Add(time.Hour))) })
	f.offline(f.n, made(at))
	w := f.wire("faktory")
	f.watch()
	known := func() bool {
		w.send(fmt.Appendf(nil, "BATCH STATUS b-%d\r\n", last))
		ok, err := w.read(w.r)
		if err != nil {
			f.t.Fatal(err)
		}
		return ok
	}
	if !known() {
		f.t.Fatalf("there is no batch %d", last)
	}
	f.atTime(at, func() { f.until("the last is forgotten", func() bool { return !known() }) })
}

// offline stops the server, has an engine in this process do n things in pieces, and starts the server again.
func (f *field) offline(n int, do func(e *engine.Engine, n int)) {
	f.t.Helper()
	f.server.Kill()
	s, err := pebblestore.Open(pebblestore.Options{Dir: f.dir})
	if err != nil {
		f.t.Fatal(err)
	}
	e, err := engine.Open(engine.Options{Store: s, Seed: 1})
	if err != nil {
		f.t.Fatal(errors.Join(err, s.Close()))
	}
	for left := n; left > 0; left -= min(left, bulk) {
		do(e, min(left, bulk))
	}
	if err := errors.Join(e.Close(), s.Close()); err != nil {
		f.t.Fatal(err)
	}
	f.start()
}
