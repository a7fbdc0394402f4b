package system

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// delivery is what one waiting connection got.
type delivery struct {
	conn int
	job  harness.Job
	err  error
}

// TestIdleConnections lets many connections wait in a fetch: they cost little
// memory and no processor time, and a push wakes exactly one of them.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	conns := *connCount
	s := suite.Start(t, options(suite.DataDir(t),
		"--masenko-heartbeat", "10m", "--masenko-max-connections", "20000"))
	control := dial(t, s.Addr)
	deliveries := wait(t, s.Addr, conns)
	if _, err := control.Do("PING"); err != nil {
		t.Fatal(err)
	}
	settle(t, s)

	const window = 3 * time.Second
	before := cpu(t, s)
	<-time.After(window)
	used := cpu(t, s) - before
	memory, err := harness.ReadMemory(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d waiting connections: %d MiB resident, %v of processor time in %v", conns,
		memory.Resident>>20, used, window)
	if limit := window / 20; used > limit {
		t.Errorf("%v of processor time in %v of waiting, want at most %v", used, window, limit)
	}
	// Ten thousand connections have 250 MiB, of which a fixed part is the store's.
	if limit := uint64(100<<20 + conns*15<<10); memory.Resident > limit {
		t.Errorf("%d MiB resident, want at most %d MiB", memory.Resident>>20, limit>>20)
	}

	if _, err := control.Push("idle", "only"); err != nil {
		t.Fatal(err)
	}
	first := receive(t, deliveries)
	if info, err := control.Do("INFO"); err != nil || !strings.Contains(info, `"ready":0,"delayed":0,"to_ack":1`) {
		t.Errorf("after one push INFO says %s, %v", info, err)
	}
	select {
	case d := <-deliveries:
		t.Errorf("one push woke connection %d and connection %d: %+v", first.conn, d.conn, d)
	case <-time.After(300 * time.Millisecond):
	}

	// The others are still there: each gets one of as many jobs.
	for pushed := 1; pushed < conns; {
		control.Queue("ATOMIC")
		for range min(500, conns-pushed) {
			control.QueuePush("idle", fmt.Sprint(pushed))
			pushed++
		}
		if _, err := control.Do("DONE"); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[uint64]int{first.job.ID: first.conn}
	for range conns - 1 {
		d := receive(t, deliveries)
		if other, twice := ids[d.job.ID]; twice {
			t.Errorf("job %d went to connections %d and %d", d.job.ID, other, d.conn)
		}
		ids[d.job.ID] = d.conn
	}
}

// wait opens connections that each wait for one job of the queue idle.
func wait(t *testing.T, addr string, conns int) <-chan delivery {
	t.Helper()
	const long = 5 * time.Minute
	deliveries := make(chan delivery, conns)
	clients := make([]*harness.Client, conns)
	errs := make([]error, conns)
	var dialing sync.WaitGroup
	const dialers = 16
	for d := range dialers {
		dialing.Go(func() {
			for i := d; i < conns; i += dialers {
				c, err := harness.Dial(addr)
				if err == nil {
					c.QueueFetch("idle", long)
					err = c.Send(long)
				}
				clients[i], errs[i] = c, err
			}
		})
	}
	dialing.Wait()
	t.Cleanup(func() {
		for _, c := range clients {
			if c != nil {
				_ = c.Close() // the server is dead by now
			}
		}
	})
	for i, c := range clients {
		if errs[i] != nil {
			t.Fatalf("connection %d: %v", i, errs[i])
		}
		go func() {
			j, ok, err := c.ReplyJob()
			if err == nil && !ok {
				err = fmt.Errorf("connection %d waited in vain", i)
			}
			deliveries <- delivery{conn: i, job: j, err: err}
		}()
	}
	return deliveries
}

func receive(t *testing.T, deliveries <-chan delivery) delivery {
	t.Helper()
	select {
	case d := <-deliveries:
		if d.err != nil {
			t.Fatal(d.err)
		}
		return d
	case <-time.After(harness.Patience):
		t.Fatal("no delivery")
		return delivery{}
	}
}

func cpu(t *testing.T, s *harness.Server) time.Duration {
	t.Helper()
	used, err := harness.CPUTime(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// settle returns when the server has finished with what the set-up gave it to do.
func settle(t *testing.T, s *harness.Server) {
	t.Helper()
	const window = 250 * time.Millisecond
	tick := time.NewTicker(window)
	defer tick.Stop()
	for last := cpu(t, s); ; {
		<-tick.C
		now := cpu(t, s)
		if now-last <= 10*time.Millisecond {
			return
		}
		last = now
	}
}
