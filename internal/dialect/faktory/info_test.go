package faktory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/testkit"
	"millrace/internal/wire"
)

// TestInfo counts everything that INFO tells, with a queue that is called like a set.
func TestInfo(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{Version: "1.2.3"}, func(t *testing.T, b *bench) {
		t.Helper()
		c, w := b.client(""), b.client("worker")
		retry := -1
		push := func(queue, at string, retry *int) faktorytest.Job {
			t.Helper()
			j := newJob(queue)
			j.At, j.Retry = at, retry
			must(t, c.Push(j))
			return j
		}
		push("retries", "", nil)
		push("retries", "", nil)
		push("retries", "2001-01-01T00:00:00Z", nil)
		push("gone", "", nil)
		push("held", "", nil)
		failing, dying, acked := push("work", "", nil), push("work", "", &retry), push("work", "", nil)
		for range 3 {
			_, err := w.Fetch("work")
			must(t, err)
		}
		must(t, w.Fail(failing.JID, "E", "m"))
		must(t, w.Fail(dying.JID, "E", "m"))
		must(t, w.Ack(acked.JID))
		_, err := w.Fetch("held")
		must(t, err)
		must(t, c.OK("QUEUE REMOVE gone"))
		testkit.Advance(t, 2500*time.Millisecond)

		text, err := c.Call("INFO whatever")
		must(t, err)
		// The memory is the process's.
		text = regexp.MustCompile(`"used_memory_mb":[0-9]+}`).ReplaceAllString(text, `"used_memory_mb":7}`)
		var got, want any
		must(t, json.Unmarshal([]byte(text), &got))
		must(t, json.Unmarshal([]byte(`{
			"now":"2000-01-01T00:00:02.5Z","server_utc_time":"00:00:02 UTC",
			"faktory":{
				"queues":{"retries":2,"work":0,"held":0},
				"sets":{"dead":1,"retries":1,"scheduled":1,"working":1},
				"tasks":{
					"Busy":{"reaped":0,"size":1},
					"Dead":{"cycles":0,"enqueued":0,"size":1,"wall_time_sec":0},
					"Retries":{"cycles":0,"enqueued":0,"size":1,"wall_time_sec":0},
					"Scheduled":{"cycles":0,"enqueued":0,"size":1,"wall_time_sec":0},
					"Workers":{"reaped":0,"size":1}},
				"total_failures":2,"total_processed":3,"total_enqueued":2,"total_queues":3},
			"server":{"description":"Faktory (Millrace 1.2.3)","faktory_version":"1.10.0","uptime":2,
				"connections":2,"command_count":17,"used_memory_mb":7}}`), &want))
		same(t, "info", got, want)

		// FLUSH starts from nothing. The workers stay, and what counts the process.
		must(t, c.OK("FLUSH"))
		info, err := c.Info()
		must(t, err)
		same(t, "queues", info.Faktory.Queues, map[string]uint64{})
		same(t, "sets", info.Faktory.Sets, map[string]uint64{"dead": 0, "retries": 0, "scheduled": 0, "working": 0})
		same(t, "totals", []uint64{
			info.Faktory.TotalFailures, info.Faktory.TotalProcessed, info.Faktory.TotalEnqueued,
			info.Faktory.TotalQueues,
		}, []uint64{0, 0, 0, 0})
		same(t, "workers", info.Faktory.Tasks["Workers"]["size"], 1)

		// A worker that is silent is counted when it is dropped.
		testkit.Advance(t, 75*time.Second)
		info, err = c.Info()
		must(t, err)
		same(t, "workers", info.Faktory.Tasks["Workers"], map[string]float64{"reaped": 1, "size": 0})
		same(t, "connections", info.Server.Connections, 1)
	})
}

// TestInfoRestart keeps the totals of the data and begins those of the process at zero.
func TestInfoRestart(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		j := newJob("q")
		must(t, c.Push(j))
		_, err := c.Fetch("q")
		must(t, err)
		testkit.Advance(t, time.Hour)
		b.Restart(t)
		b.l = b.Serve(faktory.New(faktory.Options{Options: dialect.Options{Engine: b.Engine}}), 0)
		c = b.client("")
		info, err := c.Info()
		must(t, err)
		same(t, "failures", info.Faktory.TotalFailures, 1)
		same(t, "busy", info.Faktory.Tasks["Busy"]["reaped"], 0)
		same(t, "commands and uptime", []uint64{info.Server.Commands, info.Server.Uptime}, []uint64{1, 0})
	})
}

// TestInfoWhileQueuesAreMade polls INFO while producers make queues and jobs, which
// kills the original.
func TestInfoWhileQueuesAreMade(t *testing.T) {
	t.Parallel()
	s := dialecttest.Start(t)
	defer s.Stop(t)
	l := s.Serve(faktory.New(faktory.Options{Options: dialect.Options{Engine: s.Engine}}), 0)
	const producers, pollers, queues = 4, 3, 200
	client := func() *faktorytest.Client {
		conn, err := l.Dial()
		must(t, err)
		c, err := faktorytest.New(conn, "")
		must(t, err)
		return c
	}
	var pushing, polling sync.WaitGroup
	stop := make(chan struct{})
	for i := range producers {
		c := client()
		pushing.Go(func() {
			for n := range queues {
				if err := c.Push(newJob(fmt.Sprintf("queue-%d-%d", i, n))); err != nil {
					t.Errorf("push: %v", err)
				}
			}
		})
	}
	for range pollers {
		c := client()
		polling.Go(func() {
			last := uint64(0)
			for {
				info, err := c.Info()
				if err != nil {
					t.Errorf("info: %v", err)
					return
				}
				f := &info.Faktory
				if f.TotalQueues != uint64(len(f.Queues)) || f.TotalEnqueued != f.TotalQueues || f.TotalQueues < last {
					t.Errorf("%d queues listed, %d counted, %d jobs, %d before", len(f.Queues), f.TotalQueues,
						f.TotalEnqueued, last)
				}
				last = f.TotalQueues
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	pushing.Wait()
	close(stop)
	polling.Wait()
	info, err := client().Info()
	must(t, err)
	same(t, "queues", info.Faktory.TotalQueues, producers*queues)
}

// TestMutateMany looks through lists of several pages in several queues.
func TestMutateMany(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		const jobs = 700
		var all []faktorytest.Job
		for i := range jobs {
			j := newJob([]string{"a", "b"}[i%2])
			j.At = "2001-01-01T00:00:00Z"
			j.Type = []string{"even", "odd"}[i/2%2]
			j.Args = json.RawMessage(fmt.Sprintf(`[%d]`, i))
			all = append(all, j)
		}
		_, err := c.PushBulk(all)
		must(t, err)
		check := func(dead, scheduled, enqueued uint64) {
			t.Helper()
			info, err := c.Info()
			must(t, err)
			same(t, "counts", []uint64{
				info.Faktory.Sets["dead"], info.Faktory.Sets["scheduled"],
				info.Faktory.TotalEnqueued,
			}, []uint64{dead, scheduled, enqueued})
		}
		must(t, c.OK(`MUTATE {"cmd":"kill","target":"scheduled","filter":{"jobtype":"odd"}}`))
		check(350, 350, 0)
		must(t, c.OK(`MUTATE {"cmd":"requeue","target":"dead"}`))
		check(0, 350, 350)
		must(t, c.OK(`MUTATE {"cmd":"discard","target":"scheduled","filter":{"regexp":"*\"args\":\\[?]*"}}`))
		check(0, 344, 350) // 0, 1, 4, 5, 8, 9
		var jids []string
		for _, j := range all[:600] {
			jids = append(jids, j.JID)
		}
		list, err := json.Marshal(jids)
		must(t, err)
		must(t, c.OK(`MUTATE {"cmd":"discard","target":"scheduled","filter":{"jids":`+string(list)+`}}`))
		check(0, 50, 350)
		must(t, c.OK(`QUEUE REMOVE *`))
		check(0, 50, 0)
		must(t, c.OK(`MUTATE {"cmd":"clear","target":"scheduled"}`))
		check(0, 0, 0)
	})
}

// TestRequeueOnce has a worker fail a job as soon as it is requeued: it is requeued only
// once, by its jid as well as by going through the list.
func TestRequeueOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c, w := b.client(""), b.client("")
		j := newJob("q")
		must(t, c.Push(j))
		fails := 0
		work := make(chan struct{})
		go func() {
			defer close(work)
			for {
				switch got, err := w.Fetch("q"); {
				case errors.Is(err, faktorytest.ErrEmpty):
				case err != nil:
					return
				default:
					fails++
					if w.Fail(got.JID, "E", "m") != nil {
						return
					}
				}
			}
		}()
		testkit.Advance(t, time.Second)
		must(t, c.OK(`MUTATE {"cmd":"requeue","target":"retries","filter":{"jids":["`+j.JID+`"]}}`))
		testkit.Advance(t, time.Second)
		must(t, c.OK(`MUTATE {"cmd":"requeue","target":"retries"}`))
		testkit.Advance(t, time.Second)
		_ = w.Close()
		<-work
		if fails != 3 {
			t.Errorf("failed %d times, want 3", fails)
		}
	})
}

// TestManyTwins requeues many jobs of one jid.
func TestManyTwins(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		for range 20 {
			must(t, c.Push(faktorytest.Job{
				JID: "sametwin", Type: "t", Args: json.RawMessage(`[]`),
				At: "2001-01-01T00:00:00Z",
			}))
		}
		must(t,
			c.OK(`MUTATE {"cmd":"requeue","target":"scheduled","filter":{"jids":["other-jid","sametwin","another1"]}}`))
		info, err := c.Info()
		must(t, err)
		same(t, "enqueued and scheduled", []uint64{info.Faktory.TotalEnqueued, info.Faktory.Sets["scheduled"]},
			[]uint64{20, 0})
	})
}

// TestWorkers lists the worker processes and signals them.
func TestWorkers(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		start := time.Now()
		first, err := faktorytest.NewWith(b.dial(), wire.Options{
			Hello: map[string]any{"wid": "one", "hostname": "host", "pid": 12, "labels": []string{"a", "b"}},
		})
		must(t, err)
		b.client("one")
		testkit.Advance(t, time.Second)
		b.client("two")
		b.client("")
		must(t, first.OK(`BEAT {"wid":"one","rss_kb":2048}`))
		list := b.d.Workers()
		if len(list) != 2 || list[0].Holder == list[1].Holder || list[0].Holder.Num == 0 {
			t.Fatalf("workers %+v", list)
		}
		one := list[0]
		one.Holder = list[1].Holder
		same(t, "worker", one, faktory.Worker{
			WID: "one", Hostname: "host", PID: 12, Labels: []string{"a", "b"}, State: faktory.Running, Started: start,
			LastBeat: start.Add(time.Second), RSS: 2048, Connections: 2, Holder: one.Holder,
		})
		same(t, "signalled", []int{
			b.d.Signal("nobody", faktory.Quiet), b.d.Signal("two", faktory.Quiet),
			b.d.Signal("", faktory.Terminate),
		}, []int{0, 1, 2})
		for _, w := range b.d.Workers() {
			if w.State != faktory.Terminate {
				t.Errorf("worker %s is %s", w.WID, w.State)
			}
		}
		// What a worker holds is listed under its holder.
		must(t, first.Push(newJob("q")))
		testkit.Advance(t, time.Second)
		other := b.client("three")
		_, err = other.Fetch("q")
		must(t, err)
		w := b.d.Workers()[2]
		if held := b.leased("q"); len(held) != 1 || held[0].Lease.Holder != w.Holder || w.WID != "three" {
			t.Errorf("leases %+v, worker %+v", held, w)
		}
	})
}
