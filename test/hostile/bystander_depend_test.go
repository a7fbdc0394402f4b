//go:build linux

package hostile

import (
	"fmt"
	"net/http"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// dependTrials end a job that many others wait for. Only Masenko can say that a job waits for others.
var dependTrials = []trial{
	{
		name: "depend ack", does: "ACK of a task that %d others wait for", size: 300_000, short: 60_000,
		run: func(f *field) {
			w, id := f.blocker("")
			f.measure(f.does, func() {
				f.command(func() { w.call("ACK {\"id\":%d}\n", id) })
				f.await("waiting", "ready", f.n)
			})
		},
	},
	{
		name: "depend delete", does: "an operator deletes a task that %d others wait for", size: 300_000,
		run: func(f *field) {
			_, id := f.blocker("")
			f.measure(f.does, func() {
				f.command(func() { f.act("delete", id) })
				f.await("waiting", "ready", f.n)
			})
		},
	},
	{
		name: "depend fail", does: "the last NACK of a task that %d others wait for, which are deleted", size: 300_000,
		run: func(f *field) {
			w, id := f.blocker("")
			f.measure(f.does, func() {
				f.command(func() { w.call("NACK {\"id\":%d}\n", id) })
				f.await("waiting", "blocked", 0)
			})
		},
	},
	{
		name: "depend dead queue", does: "the last NACK of a task that %d others wait for, which have a dead queue",
		size: 300_000,
		run: func(f *field) {
			w, id := f.blocker(`,"deadqueue":"fallen"`)
			f.measure(f.does, func() {
				f.command(func() { w.call("NACK {\"id\":%d}\n", id) })
				f.await("fallen", "ready", f.n)
			})
		},
	},
	{
		name: "depend kill", does: "an operator kills a task that %d others wait for", size: 300_000,
		run: func(f *field) {
			_, id := f.blocker("")
			f.measure(f.does, func() {
				f.command(func() { f.act("kill", id) })
				f.await("waiting", "blocked", 0)
			})
		},
	},
	{
		name: "depend expire", does: "the end of the time to live of a task that %d others wait for", size: 300_000,
		run: dependExpire,
	},
	{
		name: "depend chain", does: "the last NACK of the first of a chain of %d tasks, each of which waits for the " +
			"one before", size: 100_000, short: 30_000,
		run: dependChain,
	},
}

// blocker pushes a task that is fetched, and as many that wait for it as the trial is large.
func (f *field) blocker(extra string) (w *wire, id uint64) {
	f.t.Helper()
	w = f.wire("masenko")
	id = w.pushOne("first", `,"retry":0`)
	w.call("FETCH {\"queues\":[\"first\"]}\n")
	f.push("waiting", f.n, fmt.Sprintf(`,"blocked_by":[%d]%s`, id, extra))
	return w, id
}

// act has an operator do something to a job of the queue first.
func (f *field) act(action string, id uint64) {
	f.t.Helper()
	f.operate(http.MethodPost, fmt.Sprintf("/api/v1/namespaces/default/jobs/%d/actions", id),
		fmt.Sprintf(`{"action":%q,"state":"leased","queue":"first"}`, action))
}

// dependExpire gives a task a time to live, which Masenko cannot: a legacy worker of Tarantool releases it with one.
func dependExpire(f *field) {
	w := f.wire("masenko")
	id := w.pushOne("first", `,"retry":0`)
	f.push("waiting", f.n, fmt.Sprintf(`,"blocked_by":[%d]`, id))
	c, err := tarantooltest.Dial(f.server.Addrs["tarantool"])
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has done its work
	task, err := c.Call("queue.take", `0, "first", 1`)
	if err != nil {
		f.t.Fatal(err)
	}
	f.measure(f.does, func() {
		f.command(func() {
			if _, err = c.Call("queue.release", fmt.Sprintf(`0, %q, 0, 0.01`, task[3:35])); err != nil {
				f.t.Fatalf("release of %s: %v", task, err)
			}
		})
		f.await("waiting", "blocked", 0)
	})
}

func dependChain(f *field) {
	w := f.wire("masenko")
	first := w.pushOne("first", `,"retry":0`)
	w.call("FETCH {\"queues\":[\"first\"]}\n")
	last := first
	for left := f.n; left > 0; {
		n := min(left, bulk)
		b := fmt.Appendf(nil, "ATOMIC\nPUSH {\"name\":\"t\",\"queue\":\"waiting\",\"blocked_by\":[%d]}\n", last)
		for range n - 1 {
			b = append(b, "PUSH {\"name\":\"t\",\"queue\":\"waiting\",\"blocked_by\":[-1]}\n"...)
		}
		w.call("%sDONE\n", b)
		last += uint64(n) // nobody else pushes
		left -= n
	}
	f.measure(f.does, func() {
		f.command(func() { w.call("NACK {\"id\":%d}\n", first) })
		f.await("waiting", "blocked", 0)
	})
}
