//go:build linux

package hostile

import (
	"fmt"
	"net"

	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/dialect/workq/workqtest"
)

// waitTrials answer many who wait for the same thing.
var waitTrials = []trial{
	{
		name: "wait result", does: "completing a job whose result %d connections wait for", size: 9000,
		short: 9000, most: 9000,
		run: func(f *field) {
			w, id, _ := f.awaiters()
			f.measure(f.does, func() {
				f.command(func() { w.call("complete %s 0\r\n\r\n", id) })
				f.until("nobody waits", func() bool { return f.waiting() <= len(f.bystanders) })
			})
		},
	},
	{
		name: "wait result cancel", does: "the end of %d connections that wait for the result of one job",
		size: 9000, most: 9000,
		run: func(f *field) {
			_, _, conns := f.awaiters()
			f.measure(f.does, func() {
				for _, conn := range conns {
					_ = conn.Close() // the server may have closed it first
				}
				f.until("nobody waits", func() bool { return f.waiting() <= len(f.bystanders) })
			})
		},
	},
	{
		name: "wait room", does: "truncate of a full tube that %d puts wait for", size: 100_000, most: 100_000,
		run: waitRoom,
	},
}

// awaiters has many connections wait for the result of one job.
func (f *field) awaiters() (w *wire, id string, conns []net.Conn) {
	f.t.Helper()
	id = workqtest.NewID()
	w = f.wire("workq")
	w.call("add %s awaited 60000 3600000 0\r\n\r\n", id)
	for range f.n {
		conn := f.wire("workq").conn
		conns = append(conns, conn)
		if _, err := fmt.Fprintf(conn, "result %s 3600000\r\n", id); err != nil {
			f.t.Fatal(err)
		}
	}
	f.until("all of them wait", func() bool { return f.waiting() >= f.n })
	return w, id, conns
}

func waitRoom(f *field) {
	c, err := tarantooltest.Dial(f.server.Addrs["tarantool"])
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has done its work
	if _, err := c.Call("queue.create_tube", fmt.Sprintf(`"tube-0", "limfifottl", {"capacity": %d}`, f.n)); err != nil {
		f.t.Fatal(err)
	}
	f.push("tube-0", f.n, "")
	w := f.wire("tarantool")
	w.read = readAnyTarantool
	put := tarantooltest.CallPacket(tarantooltest.TypeCall, 1, "queue.tube.tube-0:put", 2,
		tarantooltest.MustEncode(`1, {"timeout": 600}`))
	for range f.n {
		w.send(put)
	}
	f.until("all of them wait", func() bool { return f.waiting() >= f.n })
	f.measure(f.does, func() {
		f.command(func() {
			if _, err := c.Call("queue.tube.tube-0:truncate", ""); err != nil {
				f.t.Fatal(err)
			}
		})
		for range f.n {
			w.answer()
		}
	})
}
