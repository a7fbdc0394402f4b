//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// removeTrials remove much at once.
var removeTrials = []trial{
	{
		name: "flush batches", does: "FLUSH with %d batches", size: 150_000, without: []string{"faktory"},
		run: func(f *field) {
			w := f.wire("faktory")
			w.flood(f.n, func(b []byte, _ int) []byte {
				return append(b, `BATCH NEW {"success":{"jobtype":"t","args":[],"queue":"called"}}`+"\r\n"...)
			})
			f.flush()
		},
	},
	{
		name: "flush queues", does: "FLUSH with %d queues", size: 200_000, short: 15_000, without: []string{"faktory"},
		run: func(f *field) {
			f.queues(f.n)
			f.flush()
		},
	},
	{
		name: "flush locks", does: "FLUSH with %d locks", size: 1_000_000, without: []string{"faktory"},
		run: func(f *field) {
			f.pushNamed("locked", f.n, func(i int) string {
				return fmt.Sprintf(`,"args":[%d],"custom":{"unique_for":3600}`, i)
			})
			f.flush()
		},
	},
	{
		// Faktory has a namespace of its own, because it means the queues of all protocols.
		name: "queue all", does: "with %d queues", size: 200_000,
		args: []string{"--faktory-namespace=aside"}, without: []string{"faktory"},
		run: func(f *field) {
			f.queues(f.n)
			w := f.wire("faktory")
			for _, verb := range []string{"PAUSE", "RESUME", "REMOVE"} {
				f.measure(fmt.Sprintf("QUEUE %s * %s", verb, f.does), func() {
					f.command(func() { w.call("QUEUE %s *\r\n", verb) })
					f.linger()
				})
			}
		},
	},
	{
		name: "remove keyed", does: "removing a queue of %d jobs with keys, for the last of which others wait",
		size: 2_000_000,
		run: func(f *field) {
			f.keyed()
			f.measure(f.does, func() {
				f.command(func() { f.operate(http.MethodDelete, "/api/v1/namespaces/default/queues/many", "") })
				f.await("waiting", "ready", bulk)
			})
		},
	},
	{
		name: "remove purge", does: "purging a queue of %d jobs with keys, for the last of which others wait",
		size: 2_000_000,
		run: func(f *field) {
			f.keyed()
			f.measure(f.does, func() {
				f.command(func() {
					f.operate(http.MethodPost, "/api/v1/namespaces/default/queues/many/purge", `{"state":"ready"}`)
				})
				f.await("waiting", "ready", bulk)
			})
		},
	},
	{
		name: "remove leased", does: "purging the %d leased jobs of a queue", size: 200_000, short: 50_000,
		run: func(f *field) {
			f.takeAll()
			f.measure(f.does, func() {
				f.command(func() {
					f.operate(http.MethodPost, "/api/v1/namespaces/default/queues/tube-0/purge", `{"state":"running"}`)
				})
				f.await("tube-0", "running", 0)
			})
		},
	},
	{
		name: "remove dependants", does: "removing a queue of %d jobs, for each of which another waits", size: 200_000,
		run: func(f *field) {
			f.pairs()
			f.measure(f.does, func() {
				f.command(func() { f.operate(http.MethodDelete, "/api/v1/namespaces/default/queues/first", "") })
				f.await("second", "ready", f.n)
			})
		},
	},
}

// flush measures a FLUSH, which is done when it is answered. What it leaves to be done later is watched for a while.
func (f *field) flush() {
	f.t.Helper()
	w := f.wire("faktory")
	f.measure(f.does, func() {
		f.command(func() { w.call("FLUSH\r\n") })
		f.linger()
	})
}

// queues makes n queues with a job each.
func (f *field) queues(n int) {
	f.t.Helper()
	w := f.wire("faktory")
	w.flood((n+bulk-1)/bulk, func(b []byte, k int) []byte {
		b = append(b, "PUSHB ["...)
		for i := k * bulk; i < min(n, (k+1)*bulk); i++ {
			b = fmt.Appendf(b, `{"jid":%q,"jobtype":"t","args":[],"queue":"q%d"},`, jid("q", i), i)
		}
		b[len(b)-1] = ']'
		return append(b, "\r\n"...)
	})
	w.close()
}

// keyed fills a queue with jobs that have keys, and a last one that others wait for.
func (f *field) keyed() {
	f.t.Helper()
	f.pushNamed("many", f.n, plain)
	w := f.wire("masenko")
	last := w.pushOne("many", "")
	f.push("waiting", bulk, fmt.Sprintf(`,"blocked_by":[%d]`, last))
}

// pairs fills two queues: each job of the second waits for one of the first.
func (f *field) pairs() {
	f.t.Helper()
	w := f.wire("masenko")
	w.flood((f.n+bulk-1)/bulk, func(b []byte, k int) []byte {
		b = append(b, "ATOMIC\n"...)
		for range min(bulk, f.n-k*bulk) {
			b = append(b, "PUSH {\"name\":\"t\",\"queue\":\"first\"}\nPUSH "+
				"{\"name\":\"t\",\"queue\":\"second\",\"blocked_by\":[-1]}\n"...)
		}
		return append(b, "DONE\n"...)
	})
	w.close()
}

// setTrials change many jobs of a set with one command of Faktory, or one bulk action of an operator.
var setTrials = []trial{
	{
		name: "mutate unknown ids", does: "MUTATE kill with %d jids that nobody has", size: 1_000_000, most: 3_000_000,
		run: func(f *field) {
			f.mutate(f.does, "kill", "scheduled", `{"jids":[`+f.jids("no")+`]}`, func() {})
		},
	},
	{
		name: "mutate ids", does: "MUTATE kill with the jids of %d scheduled jobs", size: 1_000_000, most: 3_000_000,
		run: func(f *field) {
			f.schedule()
			f.mutate(f.does, "kill", "scheduled", `{"jids":[`+f.jids("set")+`]}`,
				func() { f.await("set", "dead", f.n) })
		},
	},
	{
		name: "mutate kill", does: "MUTATE kill with a filter that %d scheduled jobs fit", size: 1_000_000,
		run: func(f *field) {
			f.schedule()
			f.mutate(f.does, "kill", "scheduled", `{"jobtype":"t"}`, func() { f.await("set", "dead", f.n) })
			f.mutate(fmt.Sprintf("MUTATE discard with a filter that %d dead jobs fit", f.n), "discard", "dead",
				`{"regexp":"*set*"}`, func() { f.await("set", "dead", 0) })
		},
	},
	{
		name: "mutate requeue", does: "MUTATE requeue with a filter that %d scheduled jobs fit", size: 1_000_000,
		run: func(f *field) {
			f.schedule()
			f.mutate(f.does, "requeue", "scheduled", `{"regexp":"*set*"}`, func() { f.await("set", "ready", f.n) })
		},
	},
	{
		name: "mutate clear", does: "MUTATE clear of %d scheduled jobs", size: 1_000_000,
		run: func(f *field) {
			f.schedule()
			f.mutate(f.does, "clear", "scheduled", `{}`, func() { f.await("set", "scheduled", 0) })
		},
	},
}

// schedule pushes jobs that are due much later.
func (f *field) schedule() {
	f.t.Helper()
	at := fmt.Sprintf(`,"at":%q`, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	f.pushNamed("set", f.n, func(int) string { return at })
}

func (f *field) jids(queue string) string {
	return repeat(f.n, func(b *bytes.Buffer, i int) { fmt.Fprintf(b, "%q", jid(queue, i)) })
}

// mutate measures a MUTATE.
func (f *field) mutate(what, cmd, target, filter string, done func()) {
	f.t.Helper()
	w := f.wire("faktory")
	f.measure(what, func() {
		f.command(func() { w.call("MUTATE {\"cmd\":%q,\"target\":%q,\"filter\":%s}\r\n", cmd, target, filter) })
		done()
	})
}
