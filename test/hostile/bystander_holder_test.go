//go:build linux

package hostile

import (
	"bufio"
	"fmt"
	"net/http"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// holderTrials end somebody who holds many jobs, or give jobs to many who wait.
var holderTrials = []trial{
	{
		name: "holder tarantool", does: "the end of a Tarantool connection that has taken %d tasks",
		size: 200_000, short: 50_000,
		run: holderTarantool,
	},
	{
		name: "holder legacy", does: "the end of a legacy Tarantool connection that has taken %d tasks", size: 200_000,
		run: holderLegacy,
	},
	{
		name: "holder masenko", does: "the end of a Masenko connection that has fetched %d tasks", size: 200_000,
		run: func(f *field) {
			f.push("held", f.n, "")
			w := f.wire("masenko")
			w.flood(f.n, func(b []byte, _ int) []byte { return append(b, "FETCH {\"queues\":[\"held\"]}\n"...) })
			f.measure(f.does, func() {
				w.close()
				f.await("held", "running", 0)
			})
		},
	},
	{
		name: "holder release all", does: "release_all of a tube of which %d tasks are taken", size: 200_000,
		run: func(f *field) {
			w := f.takeAll()
			f.measure(f.does, func() {
				f.command(func() { w.send(callTube(0, "release_all", "")); w.answer() })
				f.await("tube-0", "ready", f.n)
			})
		},
	},
	{
		name: "waiting resume", does: "resuming a queue with %d jobs for which as many calls wait", size: 95_000,
		short: 30_000, most: 100_000,
		run: waitingResume,
	},
	{
		name: "waiting push", does: "a transaction of 65535 pushes onto a queue for which %d calls wait",
		size: 95_000, most: 100_000,
		run: func(f *field) {
			w := f.takers()
			p := f.wire("masenko")
			f.measure(f.does, func() {
				f.command(func() { p.call("%s", appendAtomic(nil, "tube-0", atomicMax, "")) })
				w.read = readAnyTarantool
				for range min(f.n, atomicMax) {
					w.answer()
				}
			})
		},
	},
	{
		name: "waiting cancel", does: "the end of a connection of which %d calls wait", size: 95_000, most: 100_000,
		run: func(f *field) {
			w := f.takers()
			f.measure(f.does, func() {
				w.close()
				f.until("none of them waits", func() bool { return f.waiting() <= len(f.bystanders) })
			})
		},
	},
}

// atomicMax is how many lines a transaction of Masenko may have.
const atomicMax = 65_535

// readAnyTarantool reads an answer that tells no error, whatever else it tells.
func readAnyTarantool(r *bufio.Reader) (bool, error) {
	p, err := tarantooltest.ReadReply(r)
	if err == nil {
		err = p.Err()
	}
	return err == nil, err
}

// callTube is a call of a method of the first tube with one argument, or none.
func callTube(sync int, method, arg string) []byte {
	count := 0
	if arg != "" {
		count = 1
	}
	return tarantooltest.CallPacket(tarantooltest.TypeCall, uint64(sync), "queue.tube.tube-0:"+method, count,
		tarantooltest.MustEncode(arg))
}

// takeAll fills a tube and takes all of it over one connection.
func (f *field) takeAll() *wire {
	f.t.Helper()
	f.tubes("tube", 1)
	f.push("tube-0", f.n, "")
	w := f.wire("tarantool")
	w.read = readAnyTarantool
	take := callTube(1, "take", "0")
	w.flood(f.n, func(b []byte, _ int) []byte { return append(b, take...) })
	f.await("tube-0", "running", f.n)
	return w
}

func holderTarantool(f *field) {
	w := f.takeAll()
	f.measure(f.does, func() {
		w.close()
		f.await("tube-0", "ready", f.n)
	})
	f.takeAllAgain()
	ready := f.restart()
	f.note(row{
		what: fmt.Sprintf("the start after a kill with %d tasks taken: until it serves", f.n),
		own:  ready, took: ready,
	})
	f.await("tube-0", "ready", f.n)
}

// takeAllAgain takes all that there is in the tube.
func (f *field) takeAllAgain() {
	f.t.Helper()
	w := f.wire("tarantool")
	w.read = readAnyTarantool
	take := callTube(1, "take", "0")
	w.flood(f.n, func(b []byte, _ int) []byte { return append(b, take...) })
	f.await("tube-0", "running", f.n)
}

func holderLegacy(f *field) {
	f.push("held", f.n, "")
	w := f.wire("tarantool-legacy")
	w.read = readAnyTarantool
	take := tarantooltest.CallPacket(tarantooltest.TypeCall, 1, "queue.take", 3,
		tarantooltest.MustEncode(`0, "held", 0`))
	w.flood(f.n, func(b []byte, _ int) []byte { return append(b, take...) })
	f.await("held", "running", f.n)
	f.measure(f.does, func() {
		w.close()
		f.await("held", "ready", f.n)
	})
}

// takers has as many calls wait for tasks of one tube as the trial is large, over one connection.
func (f *field) takers() *wire {
	f.t.Helper()
	f.tubes("tube", 1)
	return f.takersOf()
}

func (f *field) takersOf() *wire {
	f.t.Helper()
	w := f.wire("tarantool")
	take := callTube(1, "take", "600")
	for range f.n {
		w.send(take)
	}
	f.until("all of them wait", func() bool { return f.waiting() >= f.n })
	return w
}

func waitingResume(f *field) {
	f.tubes("tube", 1)
	const at = "/api/v1/namespaces/default/queues/tube-0/"
	f.operate(http.MethodPost, at+"pause", "")
	f.push("tube-0", f.n, "")
	w := f.takersOf()
	w.read = readAnyTarantool
	f.measure(f.does, func() {
		f.command(func() { f.operate(http.MethodPost, at+"resume", "") })
		for range f.n {
			w.answer()
		}
	})
}
