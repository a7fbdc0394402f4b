package tarantool_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// legacyBench is a server with both listeners, in a bubble.
type legacyBench struct {
	*dialecttest.Server
	t       *testing.T
	now     *testkit.Listener
	ancient *testkit.Listener
}

// inLegacyBubble runs f with a server in a bubble.
func inLegacyBubble(t *testing.T, f func(t *testing.T, b *legacyBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		d := tarantool.New(tarantool.Options{Options: dialect.Options{Engine: s.Engine}})
		f(t, &legacyBench{Server: s, t: t, now: s.Serve(d, 4<<20), ancient: s.Serve(d.Box15(), 4<<20)})
	})
}

func (b *legacyBench) conn15() *testkit.Conn {
	b.t.Helper()
	conn, err := b.ancient.Dial()
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

func (b *legacyBench) client15() *tarantooltest.Box15 {
	b.t.Helper()
	return tarantooltest.NewBox15(b.conn15())
}

func (b *legacyBench) client() *tarantooltest.Client {
	b.t.Helper()
	conn, err := b.now.Dial()
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := tarantooltest.New(conn)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// push pushes a job as another protocol would.
func (b *legacyBench) push(spec job.Spec) job.ID {
	b.t.Helper()
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	spec.Origin = dialect.DoorAdmin
	res := b.Engine.NewCaller().Do(b.t.Context(), &job.Push{Spec: spec})
	if res[0].Err != nil {
		b.t.Fatal(res[0].Err)
	}
	return res[0].ID
}

// call calls a procedure and compares what it answers.
func (b *legacyBench) call(c *tarantooltest.Client, procedure, args, want string) {
	b.t.Helper()
	got, err := c.Call(procedure, args)
	if err != nil {
		got = "error " + err.Error()
	}
	if got != want {
		b.t.Errorf("%s(%s)\n got %s\nwant %s", procedure, args, got, want)
	}
}

// TestLegacyForeignJobs shows, takes and settles jobs that came through other doors.
func TestLegacyForeignJobs(t *testing.T) {
	t.Parallel()
	inLegacyBubble(t, func(t *testing.T, b *legacyBench) {
		t.Helper()
		c := b.client()
		// The id of a job that is found by its number has another digit, and no queue.
		id := func(queue int, id job.ID) string { return fmt.Sprintf("6d696c6c000080008%x%014x", queue, uint64(id)) }
		numbered := func(id job.ID) string { return fmt.Sprintf("6d696c6c0000800090%014x", uint64(id)) }
		for _, j := range []struct {
			spec job.Spec
			data string
		}{
			{job.Spec{}, ""},
			{job.Spec{Body: []byte("text"), BodyKind: job.BodyBytes}, `, "text"`},
			{job.Spec{Body: []byte("\xff\x00"), BodyKind: job.BodyBytes}, `, bin"\xff\x00"`},
			{job.Spec{BodyKind: job.BodyBytes}, `, ""`},
			{job.Spec{Body: []byte(`{"a":1}`), BodyKind: job.BodyJSON}, `, "{\"a\":1}"`},
			{job.Spec{Body: []byte(`[1,"x"]`), BodyKind: job.BodyArgs}, `, "[1,\"x\"]"`},
			{job.Spec{Body: []byte("\x05\xa1x"), BodyKind: job.BodyMsgpack}, `, 5, "x"`},
			{job.Spec{Key: "given by the client", Type: "kind", BodyKind: job.BodyNone}, ""},
		} {
			j.spec.Queue = "q"
			text := id(1, b.push(j.spec))
			b.call(c, "queue.peek", `0, "`+text+`"`, `[["`+text+`", "q", "ready"`+j.data+`]]`)
			b.call(c, "queue.take", `0, "q", 0`, `[["`+text+`", "q", "taken"`+j.data+`]]`)
			b.call(c, "queue.release", `0, "`+text+`"`, `[["`+text+`", "q", "ready"`+j.data+`]]`)
			b.call(c, "queue.take", `0, "q", 0`, `[["`+text+`", "q", "taken"`+j.data+`]]`)
			b.call(c, "queue.ack", `0, "`+text+`"`, `[["`+text+`", "q", "taken"`+j.data+`]]`)
			b.call(c, "queue.peek", `0, "`+text+`"`, "error 32: Task not found")
		}

		// A job with a number is found by it; without a life and a lease it shows none.
		text := numbered(b.push(job.Spec{Queue: "n", Numbered: true, Policy: job.Policy{Priority: 3}}))
		const start = 946684800000000
		b.call(c, "queue.meta", `0, "`+text+`"`,
			fmt.Sprintf(`[["%s", "n", "ready", 0, "127", "130", 0, %d, 0, 0, 0, 0, %d]]`, text, start, start))
		b.call(c, "queue.take", `0, "n"`, `[["`+text+`", "n", "taken"]]`)
		testkit.Advance(t, 1000*time.Hour)
		b.call(c, "queue.touch", `0, "`+text+`"`, `[["`+text+`", "n", "taken"]]`)
		b.call(c, "queue.bury", `0, "`+text+`"`, `[["`+text+`", "n", "buried"]]`)
		b.call(c, "queue.kick", `0, "n"`, `[1]`)

		// One that is kept when it has succeeded answers as any other.
		kept := id(3, b.push(job.Spec{Queue: "k", Policy: job.Policy{Keep: true}}))
		b.call(c, "queue.take", `0, "k"`, `[["`+kept+`", "k", "taken"]]`)
		b.call(c, "queue.ack", `0, "`+kept+`"`, `[["`+kept+`", "k", "taken"]]`)
		b.call(c, "queue.peek", `0, "`+kept+`"`, `[["`+kept+`", "k", "done"]]`)

		// A lease of another door that anybody may settle is still somebody else's.
		held := id(4, b.push(job.Spec{Queue: "h"}))
		caller := b.Engine.NewCaller()
		caller.Do(t.Context(), &job.Fetch{
			Namespace: "default", Queues: []string{"h"}, Max: 1,
			Holder: b.Engine.NewHolder(), DefaultLease: time.Hour,
		})
		b.call(c, "queue.ack", `0, "`+held+`"`, "error 32: Only consumer that took the task can it ack")
		b.call(c, "queue.delete", `0, "`+held+`"`, `[["`+held+`", "h", "taken"]]`)

		// A dead job looks buried, but is not dug up.
		dead := id(5, b.push(job.Spec{Queue: "d"}))
		caller.Do(t.Context(), &job.Kill{Ref: job.ByID("default", "d", mustParse(t, dead))})
		b.call(c, "queue.peek", `0, "`+dead+`"`, `[["`+dead+`", "d", "buried"]]`)
		b.call(c, "queue.dig", `0, "`+dead+`"`, "error 32: Task is not buried")

		// A full tube of today's API.
		b.call(c, "queue.create_tube", `"full", "limfifottl", {"capacity": 1}`, "[]")
		full, err := c.Call("queue.put", `0, "full", 0, 60, 10, 5, "x"`)
		if err != nil || !strings.HasSuffix(full, `"full", "ready", "x"]]`) {
			t.Errorf("put into a tube: %s, %v", full, err)
		}
		b.call(c, "queue.put", `0, "full", 0, 60, 10, 5, "y"`, "error 32: the tube is full")
		b.call(c, "queue.tube.full:take", `0`, `[[0, "t", "x"]]`)
	})
}

func mustParse(t *testing.T, id string) job.ID {
	t.Helper()
	var n job.ID
	if _, err := fmt.Sscanf(id[18:], "%x", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLegacyRoundRobin requeues two tasks far more often than the original's limits
// allow.
func TestLegacyRoundRobin(t *testing.T) {
	t.Parallel()
	inLegacyBubble(t, func(t *testing.T, b *legacyBench) {
		t.Helper()
		c := b.client15()
		for _, name := range []string{"0", "1", "2"} {
			if _, err := c.Put("r", name); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1000 {
			task, ok, err := c.Take("r", 0)
			if err != nil || !ok || string(task[3]) != fmt.Sprint(i%3) {
				t.Fatalf("take %d: %q, %v, %v", i, task, ok, err)
			}
			if _, err := c.Call("queue.requeue", "0", string(task[0])); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1000 {
			if _, err := c.Call("queue.urgent", "0", "u", "", "", "", "", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1000 {
			task, ok, err := c.Take("u", 0)
			if err != nil || !ok || string(task[3]) != fmt.Sprint(999-i) {
				t.Fatalf("take %d: %q, %v, %v", i, task, ok, err)
			}
		}
	})
}

// TestLegacyUniqueRace has many connections put the same task at once: one is there
// in the end, and everybody was told which.
func TestLegacyUniqueRace(t *testing.T) {
	t.Parallel()
	inLegacyBubble(t, func(t *testing.T, b *legacyBench) {
		t.Helper()
		const clients, rounds = 16, 20
		told := make(chan string, clients*rounds)
		for range clients {
			c := b.client15()
			go func() {
				for i := range rounds {
					rows, err := c.Call("queue.put_unique", "0", "u", "", "", "", "", fmt.Sprint(i))
					if err != nil || len(rows) != 1 {
						told <- fmt.Sprint(rows, err)
						continue
					}
					told <- string(rows[0][3]) + " " + string(rows[0][0])
				}
			}()
		}
		var all []string
		for range clients * rounds {
			all = append(all, <-told)
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) != rounds {
			t.Errorf("%d different answers, want %d: %q", len(all), rounds, all)
		}
		if q := b.Queue(t, "default", "u"); q.Counts[job.Ready] != rounds || q.Totals[job.CountPushed] != rounds {
			t.Errorf("%d ready, %d pushed, want %d", q.Counts[job.Ready], q.Totals[job.CountPushed], rounds)
		}
	})
}

// TestLegacyConsumer shows that the consumer is the number that the connection has.
func TestLegacyConsumer(t *testing.T) {
	t.Parallel()
	inLegacyBubble(t, func(t *testing.T, b *legacyBench) {
		t.Helper()
		a, c, old := b.client(), b.client(), b.client15()
		number, err := a.Call("box.session.id", "")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := old.Call("queue.put", "0", "t")
		if err != nil {
			t.Fatal(err)
		}
		id := string(rows[0][0])
		b.call(a, "queue.take", `0, "t"`, `[["`+id+`", "t", "taken"]]`)
		meta, err := c.Call("queue.meta", `0, "`+id+`"`)
		if fields := strings.Split(strings.Trim(meta, "[]"), ", "); err != nil || len(fields) != 13 ||
			fields[6] != strings.Trim(number, "[]") {
			t.Errorf("connection %s, meta %s, %v", number, meta, err)
		}

		// Types and widths are those that clients of 1.5 declare.
		rows, err = old.Call("queue.meta", "0", id)
		if err != nil || len(rows) != 1 || len(rows[0]) != 13 {
			t.Fatalf("meta: %q, %v", rows, err)
		}
		row := rows[0]
		for i, want := range []string{0: id, 1: "t", 2: "taken", 4: "127", 5: "127"} {
			if want != "" && string(row[i]) != want {
				t.Errorf("field %d is %q, want %q", i+1, row[i], want)
			}
		}
		const start = 946684800000000
		for i, want := range map[int]uint64{
			3: start + 60e6, 7: start, 8: 25 * 24 * 3600e6, 9: 60e6, 10: 0,
			11: 1, 12: start,
		} {
			if n, err := row.Number(i); err != nil || n != want || len(row[i]) != 8 {
				t.Errorf("field %d is %d in %d bytes, %v, want %d", i+1, n, len(row[i]), err, want)
			}
		}
		if n, err := row.Number(6); err != nil || len(row[6]) != 4 || fmt.Sprintf("[%d]", n) != number {
			t.Errorf("consumer %d in %d bytes, %v, want %s", n, len(row[6]), err, number)
		}
	})
}

// TestLegacyTogether counts the writes and commits for calls that are sent together.
func TestLegacyTogether(t *testing.T) {
	t.Parallel()
	inLegacyBubble(t, func(t *testing.T, b *legacyBench) {
		t.Helper()
		conn := b.conn15()
		var all []byte
		for i := range uint32(100) {
			all = append(all, tarantooltest.Box15CallPacket(i, "queue.put", "0", "q", "0", "0", "0", "0", "data")...)
		}
		before := b.Engine.Stats()
		if _, err := conn.Write(all); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if writes, size := conn.Received(); writes > 3 || size != 100*(12+8+8+33+2+6+5) {
			t.Errorf("%d writes of %d bytes for 100 calls", writes, size)
		}
		if n := b.Engine.Stats().Commits - before.Commits; n > 3 {
			t.Errorf("%d commits for 100 calls", n)
		}
	})
}
