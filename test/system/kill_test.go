package system

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/test/harness"
)

const (
	killProducers = 8
	killWorkers   = 8
	// killBacklog bounds the jobs that wait, so that the drain at the end is short.
	killBacklog = 2000
	killQueue   = "work"
)

// life is one run of the server, from its start to its kill.
type life struct {
	number int
	addr   string
	// ending is closed before the kill: until then no connection may break.
	ending chan struct{}
	// last tells the workers to drain and the producers to stop.
	last bool
}

// stage tells clients which life is on.
type stage struct {
	mu      sync.Mutex
	changed sync.Cond // signals under mu that current has changed
	current *life
}

func (s *stage) set(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = l
	s.changed.Broadcast()
}

// after waits for a life later than the given one.
func (s *stage) after(number int) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.current == nil || s.current.number <= number {
		s.changed.Wait()
	}
	return s.current
}

// TestKill kills the server again and again under load, sometimes while it is
// still recovering from the last time, and checks what the README promises: what
// was acknowledged is not lost, and what a worker has acknowledged does not come back.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	book := newLedger()
	st := &stage{}
	st.changed.L = &st.mu
	room := make(chan struct{}, killBacklog)
	var clients sync.WaitGroup
	for i := range killProducers {
		clients.Go(func() {
			eachLife(st, book, func(l *life, c *harness.Client) error { return produce(l, c, book, room, i) })
		})
	}
	for i := range killWorkers {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		clients.Go(func() {
			eachLife(st, book, func(l *life, c *harness.Client) error { return work(l, c, book, room, i+1, rnd) })
		})
	}
	var ready []time.Duration
	interrupted := 0
	for number := 1; number <= *killCount; number++ {
		if number%5 == 0 && cutShort(t, dir) {
			interrupted++
			continue
		}
		s := start(t, options(dir))
		ready = append(ready, s.Ready)
		l := &life{number: number, addr: s.Addr, ending: make(chan struct{})}
		st.set(l)
		<-time.After(50*time.Millisecond + rand.N(1450*time.Millisecond))
		close(l.ending)
		s.Kill()
	}
	s := start(t, options(dir))
	ready = append(ready, s.Ready)
	st.set(&life{number: *killCount + 1, addr: s.Addr, ending: make(chan struct{}), last: true})
	clients.Wait()

	if info, err := dial(t, s.Addr).Do("INFO"); err != nil || !drained(info) {
		t.Errorf("after the drain INFO says %s, %v", info, err)
	}
	stop(t, s)
	lost, unknown := book.verdict()
	slices.Sort(ready)
	t.Logf("%d kills, %d of them during recovery: %d pushes attempted, %d acknowledged, %d lost, %d duplicated, %d ambiguous; "+
		"%d deliveries, %d of them again; restart to ready: median %v, worst %v",
		*killCount, interrupted, book.attempted, book.acknowledged, lost, book.duplicated, unknown, book.deliveries, book.redeliveries,
		ready[len(ready)/2].Round(time.Millisecond), ready[len(ready)-1].Round(time.Millisecond))
	for _, v := range book.violations {
		t.Error(v)
	}
	if book.acknowledged < 10**killCount {
		t.Errorf("only %d pushes were acknowledged in %d lives: this was no load", book.acknowledged, *killCount)
	}
}

// cutShort starts the server and kills it a moment later, while it recovers, and
// reports whether that came before the server was up.
func cutShort(t *testing.T, dir string) bool {
	t.Helper()
	o := options(dir)
	o.Patience = time.Millisecond + rand.N(60*time.Millisecond)
	s, err := harness.Start(t.Context(), o)
	if err == nil {
		s.Kill()
		return false
	}
	if _, ended := errors.AsType[*harness.ExitError](err); ended {
		t.Error(err)
	}
	return true
}

// drained reports whether an INFO reply counts no job in any queue.
func drained(info string) bool {
	for _, member := range []string{"ready", "delayed", "to_ack"} {
		zero := fmt.Sprintf("%q:0", member)
		if strings.Count(info, fmt.Sprintf("%q:", member)) != strings.Count(info, zero) {
			return false
		}
	}
	return true
}

// errNoMore ends a client for good.
var errNoMore = errors.New("nothing more to do")

// eachLife runs a client in every life of the server until it has nothing more to
// do. A connection may only break when the life ends.
func eachLife(st *stage, book *ledger, run func(*life, *harness.Client) error) {
	seen := 0
	for {
		l := st.after(seen)
		seen = l.number
		c, err := harness.Dial(l.addr)
		if err == nil {
			err = run(l, c)
			_ = c.Close() // the server is dead, or the client is done
		}
		if errors.Is(err, errNoMore) {
			return
		}
		select {
		case <-l.ending:
		default:
			book.broken("life %d: a client failed while the server was alive: %v", l.number, err)
			if l.last {
				return
			}
		}
	}
}

// produce pushes jobs, each with a name of its own.
func produce(l *life, c *harness.Client, book *ledger, room chan struct{}, producer int) error {
	if l.last {
		return errNoMore
	}
	for i := 0; ; i++ {
		select {
		case room <- struct{}{}:
		case <-l.ending:
			return errors.New("the life ended")
		}
		job := fmt.Sprintf("p%d.%d.%d", producer, l.number, i)
		book.pushing(job)
		id, err := c.Push(killQueue, job)
		if err != nil {
			leave(room)
			return err
		}
		book.pushed(job, id)
	}
}

// leave gives the place of a job back. One too many does no harm.
func leave(room chan struct{}) {
	select {
	case <-room:
	default:
	}
}

// The last life may take as long as the longest back-off of a job that failed once.
const drainPatience = 3 * time.Second

// work fetches jobs and mostly acknowledges them, alone or in one transaction
// with the push of another; it fails some, and now and then it keeps one and
// lets the crash decide.
func work(l *life, c *harness.Client, book *ledger, room chan struct{}, worker int, rnd *rand.Rand) error {
	wait := 200 * time.Millisecond
	if l.last {
		wait = drainPatience
	}
	for i := 0; ; i++ {
		j, ok, err := c.Fetch(killQueue, wait)
		if err != nil {
			return err
		}
		if !ok {
			if l.last {
				return errNoMore
			}
			continue
		}
		book.delivered(j.Payload, l.number, worker)
		switch p := rnd.IntN(100); {
		case p < 2 && !l.last:
			// kept
		case p < 5 && j.Failures == 0:
			book.letGo(j.Payload)
			err = c.Nack(j.ID)
		case p < 15 && !l.last:
			child := fmt.Sprintf("w%d.%d.%d", worker, l.number, i)
			book.acking(j.Payload, child)
			c.Queue("ATOMIC")
			c.QueueAck(j.ID)
			c.QueuePush(killQueue, child)
			if _, err = c.Do("DONE"); err == nil {
				book.acked(j.Payload, child)
			}
		default:
			book.acking(j.Payload, "")
			if err = c.Ack(j.ID); err == nil {
				book.acked(j.Payload, "")
			}
			leave(room)
		}
		if err != nil {
			return err
		}
	}
}
