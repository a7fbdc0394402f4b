package workq_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/workq"
	"millrace/internal/dialect/workq/workqtest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// TestCommonCases runs what every protocol must pass.
func TestCommonCases(t *testing.T) {
	t.Parallel()
	dialecttest.Run(t, dialecttest.Workq())
}

// inBubble runs f with a server in a bubble.
func inBubble(t *testing.T, o workq.Options, f func(t *testing.T, s *dialecttest.Server, l *testkit.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		o.Engine = s.Engine
		f(t, s, s.Serve(workq.New(o), 4<<20))
	})
}

func dial(t *testing.T, l *testkit.Listener) *testkit.Conn {
	t.Helper()
	c, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newJob(name, payload string) workqtest.Job {
	return workqtest.Job{ID: workqtest.NewID(), Name: name, TTR: time.Minute, TTL: time.Hour, Payload: []byte(payload)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOneWritePerUnit counts the writes and commits for pipelined commands.
func TestOneWritePerUnit(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := dial(t, l)
		var all strings.Builder
		for range 100 {
			fmt.Fprintf(&all, "add %s q 1000 60000 4\r\nping\r\n", workqtest.NewID())
		}
		before := s.Engine.Stats()
		if _, err := io.WriteString(c, all.String()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		data, _ := c.TryRead()
		if got := string(data); got != strings.Repeat("+OK\r\n", 100) {
			t.Fatalf("replies %q", got)
		}
		// The first read takes what fits the connection's own buffer.
		if writes, _ := c.Received(); writes > 3 {
			t.Errorf("%d writes for 100 pipelined commands", writes)
		}
		if n := s.Engine.Stats().Commits - before.Commits; n > 3 {
			t.Errorf("%d commits for 100 pipelined commands", n)
		}
	})
}

// TestLargeBlocks moves the largest payloads and results, with all bytes in them,
// each reply in a single write.
func TestLargeBlocks(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		block := make([]byte, 1<<20)
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range block {
			block[i] = "\r\n\x00\xff+-OK 1"[rnd.IntN(10)]
		}
		conn := dial(t, l)
		c := workqtest.New(conn)
		j := newJob("large", string(block))
		must(t, c.Add(j))
		before, _ := conn.Received()
		got, err := c.Lease(0, "large")
		if err != nil || !bytes.Equal(got.Payload, block) || got.ID != j.ID || got.TTR != time.Minute {
			t.Fatalf("leased %s of %d bytes, %v", got.ID, len(got.Payload), err)
		}
		must(t, c.Complete(j.ID, block))
		if r, err := c.Result(j.ID, 0); err != nil || !r.Success || !bytes.Equal(r.Bytes, block) {
			t.Fatalf("result of %d bytes, %v", len(r.Bytes), err)
		}
		items, err := c.Inspect("job " + j.ID)
		if err != nil || items[0].Keys["payload"] != string(block) || items[0].Keys["payload-size"] != "1048576" ||
			len(items[0].Keys) != 12 {
			t.Fatalf("inspect: %d keys, %v", len(items[0].Keys), err)
		}
		if after, _ := conn.Received(); after-before != 4 {
			t.Errorf("%d writes for 4 replies", after-before)
		}

		worker := workqtest.New(dial(t, l))
		done := make(chan error, 1)
		go func() {
			got, err := worker.Lease(time.Minute, "large")
			if err == nil {
				err = worker.Fail(got.ID, got.Payload)
			}
			done <- err
		}()
		r, err := c.Run(newJob("large", string(block)), time.Minute)
		if err != nil || r.Success || !bytes.Equal(r.Bytes, block) {
			t.Errorf("run: result of %d bytes, %v", len(r.Bytes), err)
		}
		must(t, <-done)
	})
}

// TestForeignJobs shows and settles jobs that came through other doors.
func TestForeignJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{DefaultTTR: 10 * time.Second},
		func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
			t.Helper()
			caller := s.Engine.NewCaller()
			push := func(spec job.Spec) job.ID {
				t.Helper()
				spec.Namespace, spec.Origin = "default", dialect.DoorAdmin
				res := caller.Do(t.Context(), &job.Push{Spec: spec})
				if res[0].Err != nil {
					t.Fatal(res[0].Err)
				}
				return res[0].ID
			}
			const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c4"
			numbered := push(job.Spec{
				Queue: "q", Body: []byte(`[1]`), BodyKind: job.BodyArgs, TTL: time.Hour,
				Policy: job.Policy{MaxFails: 7, Priority: 1},
			})
			keyed := push(job.Spec{
				Queue: "q", Key: uuid, BodyKind: job.BodyNone,
				Policy: job.Policy{Lease: 1500 * time.Microsecond},
			})
			upper := push(job.Spec{Queue: "q", Key: strings.ToUpper(uuid)})
			odd := push(job.Spec{Queue: "odd\r\nname", Body: []byte("x"), BodyKind: job.BodyBytes})
			c := workqtest.New(dial(t, l))

			items, err := c.Inspect("jobs q 0 10")
			must(t, err)
			var shown []string
			for _, item := range items {
				shown = append(shown, item.Label)
			}
			want := []string{dialect.UUIDOf(1, numbered).String(), uuid, dialect.UUIDOf(1, upper).String()}
			if strings.Join(shown, " ") != strings.Join(want, " ") {
				t.Errorf("shown as %q, want %q", shown, want)
			}
			for key, value := range map[string]string{
				"ttr": "0", "ttl": "3600000", "max-fails": "7", "payload": "[1]",
				"state": "0", "priority": "1",
			} {
				if items[0].Keys[key] != value {
					t.Errorf("%s is %q, want %q", key, items[0].Keys[key], value)
				}
			}
			if queues, err := c.Inspect("queues 0 10"); err != nil || len(queues) != 1 || queues[0].Label != "q" {
				t.Errorf("queues %v, %v", queues, err)
			}
			if items, err := c.Inspect("job " + dialect.UUIDOf(2, odd).String()); err != nil ||
				items[0].Keys["name"] != "odd__name" {
				t.Errorf("job of an odd queue: %v, %v", items, err)
			}

			// A lease without a length of its own gets one that ends.
			got, err := c.Lease(0, "q")
			if err != nil || got.ID != want[0] || got.TTR != 10*time.Second || string(got.Payload) != `[1]` {
				t.Fatalf("leased %+v, %v", got, err)
			}
			testkit.Advance(t, 10*time.Second)
			again, err := c.Lease(0, "q")
			if err != nil || again.ID != got.ID {
				t.Fatalf("leased %+v, %v", again, err)
			}
			must(t, c.Complete(got.ID, []byte("ok")))
			if err := c.Complete(got.ID, nil); !errors.Is(err, workqtest.ErrNotFound) {
				t.Errorf("second completion: %v", err)
			}
			if got, err = c.Lease(0, "q"); err != nil || got.ID != uuid || got.TTR != 2*time.Millisecond ||
				len(got.Payload) != 0 {
				t.Fatalf("leased %+v, %v", got, err)
			}
			must(t, c.Delete(uuid))
			if _, err := s.Engine.Get(job.ByID("default", "", keyed)); err == nil {
				t.Error("the deleted job is there")
			}

			// A job in the hands of a connection of another protocol is that one's.
			holder := s.Engine.NewHolder()
			res := caller.Do(t.Context(), &job.Fetch{
				Namespace: "default", Queues: []string{"q"},
				Max: 1, Holder: holder,
				Exclusive: true, OnEnd: job.EndRelease,
			})
			if res[0].Err != nil || res[0].Jobs[0].ID != upper {
				t.Fatalf("fetched %+v", res[0])
			}
			if err := c.Complete(want[2], nil); err == nil ||
				err.Error() != "SERVER-ERROR Job is held by a worker of another protocol" {
				t.Errorf("completion of a held job: %v", err)
			}
			must(t, c.Delete(want[2]))
		})
}

// TestNamespaces keeps listeners of different namespaces apart.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{Options: dialect.Options{Namespace: "one"}},
		func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
			t.Helper()
			other := s.Serve(workq.New(workq.Options{Options: dialect.Options{Engine: s.Engine, Namespace: "two"}}), 0)
			a, b := workqtest.New(dial(t, l)), workqtest.New(dial(t, other))
			j := newJob("q", "x")
			must(t, a.Add(j))
			if _, err := b.Inspect("job " + j.ID); !errors.Is(err, workqtest.ErrNotFound) {
				t.Errorf("seen through the other namespace: %v", err)
			}
			must(t, b.Add(j))
			if items, err := a.Inspect("queue q"); err != nil || items[0].Keys["ready-len"] != "1" {
				t.Errorf("queue: %v, %v", items, err)
			}
		})
}

// TestUniformChoice leases from several names that all have jobs. The engine's
// seed is fixed, so the outcome is, too.
func TestUniformChoice(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		const leases = 2000
		names := []string{"a", "b", "c", "d", "e"}
		c := workqtest.New(dial(t, l))
		for range leases / 2 {
			for _, name := range names {
				must(t, c.Add(newJob(name, "")))
			}
		}
		counts, pairs := map[string]float64{}, map[string]float64{}
		last := ""
		for range leases {
			j, err := c.Lease(0, names...)
			must(t, err)
			counts[j.Name]++
			pairs[last+j.Name]++
			last = j.Name
		}
		// Chi squared; the bounds are passed by chance once in a thousand seeds.
		chi := func(counts map[string]float64, cells int) (sum float64) {
			expected := float64(leases) / float64(cells)
			seen := 0
			for cell, n := range counts {
				if len(cell) > 0 {
					sum += (n - expected) * (n - expected) / expected
					seen++
				}
			}
			return sum + float64(cells-seen)*expected
		}
		if got := chi(counts, 5); got > 18.47 {
			t.Errorf("chi squared of %v is %.1f", counts, got)
		}
		delete(pairs, pairsFirst(pairs))
		if got := chi(pairs, 25); got > 51.18 {
			t.Errorf("chi squared of successive names %v is %.1f", pairs, got)
		}
	})
}

// pairsFirst returns the key of the very first lease, which has no name before it.
func pairsFirst(pairs map[string]float64) string {
	for key := range pairs {
		if len(key) == 1 {
			return key
		}
	}
	return ""
}

// TestNoLostWakeUps has many workers wait on overlapping names while jobs come, fail
// and come back. Bubble time stands still while anybody has something to do: a
// worker that is not woken shows as time that has passed.
func TestNoLostWakeUps(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		const (
			workers   = 40
			producers = 8
			each      = 150
		)
		names := []string{"a", "b", "c", "d", "e", "f", "g"}
		var mu sync.Mutex // guards done and failed
		done, failed := map[string]int{}, map[string]int{}
		finished := make(chan struct{}, producers*each)
		var wg sync.WaitGroup
		conns := make([]*testkit.Conn, workers)
		for i := range workers {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			conns[i] = dial(t, l)
			c := workqtest.New(conns[i])
			// Every name has workers of its own, and workers that it shares.
			mine := []string{names[i%7], names[(3*i+1)%7], names[(5*i+2)%7]}[:1+i%3]
			wg.Go(func() {
				for {
					j, err := c.Lease(time.Hour, mine...)
					if err != nil {
						return // closed at the end
					}
					mu.Lock()
					again := failed[j.ID] == 0 && rnd.IntN(3) == 0
					if again {
						failed[j.ID]++
					} else {
						done[j.ID]++
					}
					mu.Unlock()
					if again {
						err = c.Fail(j.ID, nil)
					} else {
						err = c.Complete(j.ID, []byte(j.Name))
						finished <- struct{}{}
					}
					if err != nil {
						t.Errorf("settle: %v", err)
						return
					}
				}
			})
		}
		start := time.Now()
		for i := range producers {
			rnd := rand.New(rand.NewPCG(8, uint64(i)))
			c := workqtest.New(dial(t, l))
			wg.Go(func() {
				for k := range each {
					j := newJob(names[rnd.IntN(len(names))], strconv.Itoa(k))
					j.Flags = "-max-fails=3"
					if err := c.Add(j); err != nil {
						t.Errorf("add: %v", err)
						return
					}
				}
			})
		}
		for range producers * each {
			<-finished
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("workers waited for %v while there were jobs", took)
		}
		for id, n := range done {
			if n != 1 {
				t.Errorf("job %s was completed %d times", id, n)
			}
		}
		if len(done) != producers*each || len(failed) == 0 {
			t.Errorf("%d jobs done, %d failed once", len(done), len(failed))
		}
		synctest.Wait()
		if n := s.Engine.Stats().Waiters; n != workers {
			t.Errorf("%d callers wait, want %d", n, workers)
		}
		for _, c := range conns {
			_ = c.Close() // it cannot fail
		}
		wg.Wait()
	})
}

// TestPages walks through a queue page by page, and looks at it from anywhere.
func TestPages(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		const jobs = 2350
		c := workqtest.New(dial(t, l))
		ids := make([]string, jobs)
		for i := range ids {
			j := newJob("q", strconv.Itoa(i))
			ids[i] = j.ID
			must(t, c.Add(j))
			j.ID, j.Time = workqtest.NewID(), time.Now().Add(time.Duration(i+1)*time.Second)
			must(t, c.Schedule(j))
			if i <= 1100 {
				must(t, c.Add(newJob("other", strconv.Itoa(i))))
			}
		}
		page := func(what string, offset, limit int) {
			t.Helper()
			items, err := c.Inspect(fmt.Sprintf("%s q %d %d", what, offset, limit))
			must(t, err)
			if want := max(0, min(limit, jobs-offset)); len(items) != want {
				t.Fatalf("%s: %d jobs at %d, want %d", what, len(items), offset, want)
			}
			for i, item := range items {
				if item.Keys["payload"] != strconv.Itoa(offset+i) || what == "jobs" && item.Label != ids[offset+i] {
					t.Fatalf("%s: job %d is %s, %q", what, offset+i, item.Label, item.Keys["payload"])
				}
			}
		}
		for _, what := range []string{"jobs", "scheduled-jobs"} {
			for offset := 0; offset < jobs+100; offset += 100 {
				page(what, offset, 100)
			}
		}
		page("jobs", 1000, 100)
		page("scheduled-jobs", 1100, 100)
		page("jobs", 1200, 50)
		page("jobs", 1250, 100)
		page("jobs", 1350, 1)
		page("jobs", 1350, 100)
		page("jobs", jobs-1, 100)
		page("jobs", jobs, 100)
		// Another queue is no part of the walk.
		page("jobs", 1000, 100)
		items, err := c.Inspect("jobs other 1100 1")
		if err != nil || len(items) != 1 || items[0].Keys["name"] != "other" || items[0].Keys["payload"] != "1100" {
			t.Errorf("of another queue: %v, %v", items, err)
		}
		// Between two pages of a walk this connection takes a job: the pages are
		// counted off again.
		page("jobs", 1100, 100)
		must(t, c.Delete(ids[0]))
		items, err = c.Inspect("jobs q 1200 1")
		if err != nil || items[0].Label != ids[1201] {
			t.Errorf("after a delete: %v, %v", items, err)
		}
	})
}

// TestQueuePages walks through many queues.
func TestQueuePages(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		const queues = 1500
		c := workqtest.New(dial(t, l))
		for i := range queues {
			must(t, c.Add(newJob(fmt.Sprintf("q%04d", i), "")))
		}
		for _, offset := range []int{0, 100, 255, 256, 1000, 1100, 1200, 1450, 1500, 5000} {
			items, err := c.Inspect(fmt.Sprintf("queues %d 100", offset))
			must(t, err)
			if want := max(0, min(100, queues-offset)); len(items) != want {
				t.Fatalf("%d queues at %d, want %d", len(items), offset, want)
			}
			for i, item := range items {
				if item.Label != fmt.Sprintf("q%04d", offset+i) || item.Keys["ready-len"] != "1" {
					t.Errorf("queue %d is %+v", offset+i, item)
				}
			}
		}
	})
}

// TestLargePages reads pages that are too large to be held in memory at once.
func TestLargePages(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := workqtest.New(dial(t, l))
		payload := strings.Repeat("x\r\n", 100_000)
		for range 30 {
			must(t, c.Add(newJob("q", payload)))
		}
		items, err := c.Inspect("jobs q 0 100")
		if err != nil || len(items) != 30 {
			t.Fatalf("%d jobs, %v", len(items), err)
		}
		for _, item := range items {
			if item.Keys["payload"] != payload || item.Keys["state"] != "0" {
				t.Errorf("%s has %d bytes", item.Label, len(item.Keys["payload"]))
			}
		}
		if _, err := c.Inspect("server"); err != nil {
			t.Errorf("the connection is out of step: %v", err)
		}
	})
}

// TestHalfClosed gets the replies to everything it has sent although it closes its
// side: scripts do that.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		c := dial(t, l)
		id := workqtest.NewID()
		_, err := fmt.Fprintf(c, "add %s q 1000 60000 4\r\nping\r\nlease q 0\r\nresult %s 0\r\ninspect queue q\r\n", id,
			id)
		must(t, err)
		must(t, c.CloseWrite())
		got, err := io.ReadAll(c)
		want := "+OK\r\n+OK 1\r\n" + id + " q 1000 4\r\nping\r\n-TIMEOUT\r\n+OK 1\r\nq 2\r\nready-len " +
			"0\r\nscheduled-len 0\r\n"
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
}

// TestWaitingConnectionsAreCheap has clients wait over real sockets and looks at
// the memory that each costs, their own ends of the connections included.
func TestWaitingConnectionsAreCheap(t *testing.T) { //nolint:paralleltest // it measures the whole process
	const clients = 1000
	s := dialecttest.Start(t)
	defer s.Stop(t)
	d := workq.New(workq.Options{Options: dialect.Options{Engine: s.Engine, Logger: slog.New(slog.DiscardHandler)}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.ServeOn(d, l)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer func() { _ = c.Close() }()
		conns[i] = c
		// A large command first: its buffer must not stay.
		_, err = io.WriteString(c, "what "+strings.Repeat("x", 5000)+"\r\nlease empty 60000\r\n")
		must(t, err)
		_, err = c.Read(make([]byte, 64))
		must(t, err)
	}
	for s.Engine.Stats().Waiters < clients {
		runtime.Gosched()
	}
	per := (int64(used()) - int64(before)) / clients
	t.Logf("%d bytes per waiting connection", per)
	if per > 20<<10 {
		t.Errorf("%d bytes per waiting connection", per)
	}
}
