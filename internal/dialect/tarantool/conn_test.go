package tarantool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// send sends n calls with one write.
func (v *visitor) send(n int, procedure, args string) {
	v.s.t.Helper()
	raw := tarantooltest.MustEncode(args)
	for range n {
		if _, err := v.Queue(tarantooltest.TypeCall, procedure, raw); err != nil {
			v.s.t.Fatal(err)
		}
	}
	if err := v.Send(); err != nil {
		v.s.t.Fatalf("send: %v", err)
	}
	synctest.Wait()
}

// works checks that a client is served at once: no time passes in the bubble.
func (s *site) works() {
	s.t.Helper()
	begun := time.Now()
	c := s.client()
	c.want("queue.create_tube", `"works", "fifo", {"if_not_exists": true}`, `[]`)
	task, err := c.Put("works", msgp.AppendInt(nil, 1))
	if err != nil {
		s.t.Fatalf("put: %v", err)
	}
	if got, ok, err := c.Take("works", 10); !ok || err != nil || got.ID != task.ID {
		s.t.Fatalf("take: %+v, %v, %v", got, ok, err)
	}
	if err := c.Ack("works", task.ID); err != nil {
		s.t.Fatalf("ack: %v", err)
	}
	c.leave()
	if passed := time.Since(begun); passed > 0 {
		s.t.Errorf("it took %s", passed)
	}
}

// Thousands of waiting takes disturb nobody, and end with their connections before
// anything is given to them.
func TestManyTakesWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ conns, takes int }{{1, 1000}, {100, 100}} {
		t.Run(fmt.Sprintf("%d on %d", c.conns*c.takes, c.conns), func(t *testing.T) {
			t.Parallel()
			inBubble(t, tarantool.Options{MaxInFlight: 16}, func(s *site) {
				var all []*visitor
				for range c.conns {
					v := s.client()
					v.send(c.takes, "queue.tube.t:take", "")
					all = append(all, v)
				}
				if n := s.Engine.Stats().Waiters; n != c.conns*c.takes {
					t.Fatalf("%d calls wait", n)
				}
				s.works()
				// The connections themselves are as good as ever.
				first := all[0]
				first.want("queue.state", "", `["RUNNING"]`)
				first.send(1, "queue.tube.t:put", `"x"`)
				var texts []string
				for range 2 {
					p, err := first.Receive()
					if err != nil || p.Err() != nil {
						t.Fatal(err, p.Err())
					}
					text, _ := tarantooltest.Format(p.Data())
					texts = append(texts, text)
				}
				if got := strings.Join(texts, " "); got != `[[0, "r", "x"]] [[0, "t", "x"]]` {
					t.Errorf("put and take: %s", got)
				}
				first.want("queue.tube.t:ack", "0", `[[0, "-", "x"]]`)
				for _, v := range all {
					v.leave()
				}
				if n := s.Engine.Stats().Waiters; n != 0 {
					t.Errorf("%d calls of nobody wait", n)
				}
				s.client().want("queue.tube.t:put", `"y"`, `[[1, "r", "y"]]`)
				if q := s.Queue(t, "default", "t"); q.Counts[job.Ready] != 1 || q.Totals[job.CountFetched] != 1 {
					t.Errorf("counts %v, totals %v", q.Counts, q.Totals)
				}
			})
		})
	}
}

// Takes that end at the same moment are all answered, with few writes.
func TestManyTimeouts(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		const n = 1000
		v := s.client()
		v.send(n, "queue.tube.t:take", "5")
		conn, ok := v.conn.(*testkit.Conn)
		if !ok {
			t.Fatal("not a connection in memory")
		}
		before, _ := conn.Received()
		testkit.Advance(t, 5*time.Second)
		after, _ := conn.Received()
		if after-before > n/10 {
			t.Errorf("%d writes for %d replies", after-before, n)
		}
		seen := make(map[uint64]bool)
		for range n {
			p, err := v.Receive()
			if err != nil || p.Err() != nil || string(p.Data()) != "\xdd\x00\x00\x00\x00" {
				t.Fatal(err, p.Err(), p.Data())
			}
			seen[p.Sync] = true
		}
		if len(seen) != n {
			t.Errorf("%d of %d calls were answered", len(seen), n)
		}
	})
}

// Deliveries in output that cannot be written are given back, those of takes that did
// not wait as well as those that did.
func TestUnwrittenDeliveries(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"0", "100"} {
		t.Run("take("+wait+")", func(t *testing.T) {
			t.Parallel()
			inBubble(t, tarantool.Options{Options: dialect.Options{WriteTimeout: time.Second}}, func(s *site) {
				const n = 20
				body := fmt.Sprintf("%q", strings.Repeat("x", 1<<18))
				producer := s.client()
				for i := range n {
					producer.want("queue.tube.t:put", body, fmt.Sprintf(`[[%d, "r", %s]]`, i, body))
				}
				v := s.client()
				v.send(n, "queue.tube.t:take", wait) // 5 MB, of which the pipe holds one
				testkit.Advance(t, 5*time.Second)
				v.leave()
				q := s.Queue(t, "default", "t")
				if q.Counts[job.Ready] != n || q.Totals[job.CountReturned] == 0 {
					t.Errorf("counts %v, totals %v", q.Counts, q.Totals)
				}
				if sum := q.Totals[job.CountReturned] + q.Totals[job.CountEnded]; sum != q.Totals[job.CountFetched] {
					t.Errorf("%d were returned or released, want %d", sum, q.Totals[job.CountFetched])
				}
			})
		})
	}
}

// A batch of everything is one write of requests and one of replies.
func TestRepliesLeaveTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		const n = 500
		v := s.client()
		v.want("queue.state", "", `["RUNNING"]`)
		conn, ok := v.conn.(*testkit.Conn)
		if !ok {
			t.Fatal("not a connection in memory")
		}
		before, _ := conn.Received()
		commits := s.Engine.Stats().Commands
		v.send(n, "queue.tube.t:put", `"x"`)
		after, _ := conn.Received()
		if after-before > 3 {
			t.Errorf("%d writes for %d replies", after-before, n)
		}
		if done := s.Engine.Stats().Commands - commits; done != n {
			t.Errorf("%d commands, want %d", done, n)
		}
		for i := range n {
			p, err := v.Receive()
			if err != nil || p.Err() != nil {
				t.Fatal(err, p.Err())
			}
			task, ok, err := tarantooltest.ParseTask(p.Data())
			if !ok || err != nil || task.ID != uint64(i) {
				t.Fatalf("task %d: %+v, %v", i, task, err)
			}
		}
	})
}

// A packet in single bytes, and one that is larger than any buffer.
func TestPacketsInPieces(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		v := s.client()
		body := msgp.AppendString(nil, strings.Repeat("x", 3<<20))
		if _, err := v.Put("t", body); err != nil {
			t.Fatal(err)
		}
		task, ok, err := v.Take("t", 0)
		if !ok || err != nil || string(task.Data) != string(body) {
			t.Fatalf("take: %d bytes, %v, %v", len(task.Data), ok, err)
		}
		for _, b := range tarantooltest.Packet(tarantooltest.TypePing, 7, nil) {
			if _, err := v.conn.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if p, err := v.Receive(); err != nil || p.Sync != 7 || len(p.Keys) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// A client that sends nothing but malformed packets has lost track and is cut off. One that has sent no other is none
// of this protocol.
func TestEndlessGarbage(t *testing.T) {
	t.Parallel()
	for proved, want := range map[bool]int{true: 1001, false: 1} {
		testGarbage(t, proved, want)
	}
}

func testGarbage(t *testing.T, proved bool, want int) {
	t.Helper()
	inBubble(t, tarantool.Options{}, func(s *site) {
		v := s.client()
		if proved {
			v.identify("")
		}
		go func() {
			for {
				if _, err := v.conn.Write([]byte("\x03abc")); err != nil {
					return
				}
			}
		}()
		n := 0
		for {
			p, err := v.Receive()
			if err != nil {
				break
			}
			if refused := p.Err(); refused == nil ||
				!strings.HasPrefix(refused.Error(), "20: Invalid MsgPack - packet ") {
				t.Fatalf("%+v", p)
			}
			n++
		}
		if n != want {
			t.Errorf("%d packets were answered, want %d", n, want)
		}
		v.leave()
		s.works()
	})
}

// More tasks are kicked than one step of the engine does.
func TestKickMany(t *testing.T) {
	t.Parallel()
	inBubble(t, tarantool.Options{}, func(s *site) {
		const n = 2500
		v := s.client()
		v.send(n, "queue.tube.t:put", `"x"`)
		for i := range n {
			if _, err := v.Receive(); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Queue(tarantooltest.TypeCall, "queue.tube.t:bury",
				msgp.AppendUint64(nil, uint64(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.Send(); err != nil {
			t.Fatal(err)
		}
		for range n {
			if p, err := v.Receive(); err != nil || p.Err() != nil {
				t.Fatal(err, p.Err())
			}
		}
		v.want("queue.tube.t:kick", "2400", "[2400]")
		v.want("queue.tube.t:kick", "1e300", "[100]")
		v.want("queue.tube.t:kick", "5000", "[0]")
	})
}
