//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"strings"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// bulkTrials send one command that is as large as it may be.
var bulkTrials = []trial{
	{
		name: "bulk atomic push", does: "a transaction of %d pushes", size: atomicMax, most: atomicMax,
		run: func(f *field) {
			w := f.wire("masenko")
			f.measure(f.does, func() { f.command(func() { w.call("%s", appendAtomic(nil, "bulk", f.n, "")) }) })
		},
	},
	{
		name: "bulk atomic ack", does: "a transaction of %d acknowledgements", size: atomicMax, most: atomicMax,
		run: func(f *field) {
			f.push("bulk", f.n, "")
			w := f.wire("masenko")
			w.flood(f.n, func(b []byte, _ int) []byte { return append(b, "FETCH {\"queues\":[\"bulk\"]}\n"...) })
			b := []byte("ATOMIC\n")
			for i := range f.n {
				b = fmt.Appendf(b, "ACK {\"id\":%d}\n", i+1) // nobody else has pushed before
			}
			f.measure(f.does, func() { f.command(func() { w.call("%sDONE\n", b) }) })
		},
	},
	{
		// as many blockers as one may name
		name: "bulk atomic blockers", does: "a transaction of %d pushes, most of which wait for the 255 before",
		size: 318, short: 318, most: 318,
		run: func(f *field) {
			var before strings.Builder
			for i := range 255 {
				fmt.Fprintf(&before, ",%d", -i-1)
			}
			first := appendAtomic(nil, "bulk", 255, "")
			rest := appendAtomic(nil, "bulk", f.n-255, fmt.Sprintf(`,"blocked_by":[%s]`, before.String()[1:]))
			all := string(first[:len(first)-len("DONE\n")]) + string(rest[len("ATOMIC\n"):])
			w := f.wire("masenko")
			f.measure(f.does, func() { f.command(func() { w.call("%s", all) }) })
		},
	},
	{
		name: "bulk pushb", does: "a PUSHB of %d jobs", size: 500_000, most: 500_000,
		run: func(f *field) {
			line := repeat(f.n, func(b *bytes.Buffer, i int) {
				fmt.Fprintf(b, `{"jid":%q,"jobtype":"t","args":[],"queue":"bulk"}`, jid("bulk", i))
			})
			w := f.wire("faktory")
			f.measure(f.does, func() { f.command(func() { w.call("PUSHB [%s]\r\n", line) }) })
		},
	},
	{
		name: "bulk respawn", does: "an LMSTFY respawn of %d dead jobs", size: 1_000_000,
		run: func(f *field) {
			f.bury()
			f.measure(f.does, func() {
				f.command(func() {
					f.http("lmstfy", "PUT",
						fmt.Sprintf("/api/default/set/deadletter?limit=%d", f.n), "")
				})
				f.await("set", "ready", f.n)
			})
		},
	},
	{
		name: "bulk kick", does: "a kick of %d buried tasks", size: 200_000,
		run: func(f *field) {
			f.tubes("tube", 1)
			f.push("tube-0", f.n, "")
			w := f.wire("tarantool")
			w.read = readAnyTarantool
			w.flood(f.n, func(b []byte, i int) []byte { return append(b, callTube(i, "bury", fmt.Sprint(i))...) })
			f.await("tube-0", "buried", f.n)
			f.measure(f.does, func() {
				f.command(func() { w.send(callTube(0, "kick", fmt.Sprint(f.n))); w.answer() })
				f.await("tube-0", "ready", f.n)
			})
		},
	},
	{
		name: "bulk group", does: "the ack of a task of a sub-queue with %d others", size: 1_000_000,
		run: func(f *field) {
			c, err := tarantooltest.Dial(f.server.Addrs["tarantool"])
			if err != nil {
				f.t.Fatal(err)
			}
			defer c.Close() //nolint:errcheck // it has done its work
			if err := c.CreateTube("tube-0", "utube"); err != nil {
				f.t.Fatal(err)
			}
			w := f.wire("tarantool")
			w.read = readAnyTarantool
			put := tarantooltest.CallPacket(tarantooltest.TypeCall, 1, "queue.tube.tube-0:put", 2,
				tarantooltest.MustEncode(`1, {"utube": "one"}`))
			w.flood(f.n, func(b []byte, _ int) []byte { return append(b, put...) })
			task, ok, err := c.Take("tube-0", 0)
			if err != nil || !ok {
				f.t.Fatalf("take: %v, %v", ok, err)
			}
			f.measure(f.does, func() {
				f.command(func() {
					if err := c.Ack("tube-0", task.ID); err != nil {
						f.t.Fatal(err)
					}
				})
			})
		},
	},
}

// bury makes a set of dead jobs.
func (f *field) bury() {
	f.t.Helper()
	f.schedule()
	w := f.wire("faktory")
	w.call("MUTATE {\"cmd\":\"kill\",\"target\":\"scheduled\",\"filter\":{}}\r\n")
	f.await("set", "dead", f.n)
}
