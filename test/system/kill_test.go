package system

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

const (
	killProducers = 8
	killWorkers   = 8
	// killBacklog bounds the jobs that wait, so that the drain at the end is short.
	killBacklog = 2000
	killQueue   = "work"
)

// TestKill kills the server again and again under load, sometimes while it is
// still recovering from the last time, and checks what the README promises: what
// was acknowledged is not lost, and what a worker has acknowledged does not come back.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := cmp.Or(*killCount, tier.Pick(20, 5))
	dir := suite.DataDir(t)
	book := newLedger()
	st := suite.NewStage()
	room := make(chan struct{}, killBacklog)
	var clients sync.WaitGroup
	for i := range killProducers {
		clients.Go(func() {
			eachLife(st, book, func(l *suite.Life, c *harness.Client) error { return produce(l, c, book, room, i) })
		})
	}
	for i := range killWorkers {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		clients.Go(func() {
			eachLife(st, book, func(l *suite.Life, c *harness.Client) error { return work(l, c, book, room, i+1, rnd) })
		})
	}
	interrupted := 0
	for number := 1; number <= kills; number++ {
		if number%5 == 0 && suite.CutShort(t, options(dir), time.Millisecond+rand.N(60*time.Millisecond)) {
			interrupted++
			continue
		}
		l := st.Begin(number, suite.Start(t, options(dir)), false)
		<-time.After(50*time.Millisecond + rand.N(1450*time.Millisecond))
		l.Kill()
	}
	s := suite.Start(t, options(dir))
	st.Begin(kills+1, s, true)
	clients.Wait()

	if info, err := dial(t, s.Addr).Do("INFO"); err != nil || !drained(info) {
		t.Errorf("after the drain INFO says %s, %v", info, err)
	}
	stop(t, s)
	lost, unknown := book.verdict()
	ready := st.Ready()
	slices.Sort(ready)
	t.Logf("%d kills, %d of them during recovery: %d pushes attempted, %d acknowledged, %d lost, %d "+
		"duplicated, %d ambiguous; "+
		"%d deliveries, %d of them again; restart to ready: median %v, worst %v",
		kills, interrupted, book.attempted, book.acknowledged, lost, book.duplicated, unknown, book.deliveries,
		book.redeliveries,
		ready[len(ready)/2].Round(time.Millisecond), ready[len(ready)-1].Round(time.Millisecond))
	for _, v := range book.violations {
		t.Error(v)
	}
	if book.acknowledged < 10*kills {
		t.Errorf("only %d pushes were acknowledged in %d lives: this was no load", book.acknowledged, kills)
	}
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

// eachLife runs a client in every life of the server.
func eachLife(st *suite.Stage, book *ledger, run func(*suite.Life, *harness.Client) error) {
	suite.EachLife(st, func(l *suite.Life) (*harness.Client, error) {
		return harness.Dial(l.Server.Addr)
	}, book.broken, run)
}

// produce pushes jobs, each with a name of its own.
func produce(l *suite.Life, c *harness.Client, book *ledger, room chan struct{}, producer int) error {
	if l.Last {
		return suite.ErrNoMore
	}
	for i := 0; ; i++ {
		select {
		case room <- struct{}{}:
		case <-l.Ending:
			return suite.ErrLifeOver
		}
		job := fmt.Sprintf("p%d.%d.%d", producer, l.Number, i)
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
func work(l *suite.Life, c *harness.Client, book *ledger, room chan struct{}, worker int, rnd *rand.Rand) error {
	wait := 200 * time.Millisecond
	if l.Last {
		wait = drainPatience
	}
	for i := 0; ; i++ {
		j, ok, err := c.Fetch(killQueue, wait)
		if err != nil {
			return err
		}
		if !ok {
			if l.Last {
				return suite.ErrNoMore
			}
			continue
		}
		book.delivered(j.Payload, l.Number, worker)
		switch p := rnd.IntN(100); {
		case p < 2 && !l.Last:
			// kept
		case p < 5 && j.Failures == 0:
			book.letGo(j.Payload)
			err = c.Nack(j.ID)
		case p < 15 && !l.Last:
			child := fmt.Sprintf("w%d.%d.%d", worker, l.Number, i)
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
