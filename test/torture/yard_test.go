package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
)

// yard is the load of the kill loop and of the soak: clients of all protocols that
// push to the same queues and fetch from them.
type yard struct {
	book   *ledger
	stage  *suite.Stage
	queues []string
	protos proto         // how many protocols there are
	room   chan struct{} // one place for each job that waits
	// paced has a tick for each push; nil: producers push as fast as they can
	paced <-chan time.Time
	swept chan string   // acked jobs of Workq, which keeps them until they are deleted
	empty chan struct{} // closed when everything has been drained
	// busy is held for reading by a worker that has jobs in its hands, or may get
	// one, and in the last life for writing by who takes all leases away.
	busy  sync.RWMutex
	taken bool // all leases have been taken away; guarded by busy
	push  *latency
	fetch *latency
	watch watcher // may be nil
	// pushes numbers them: a producer may have several connections in a life.
	pushes atomic.Uint64
}

// watcher is told more than the ledger: which job has come, and which is about to be
// acked or failed.
type watcher interface {
	seen(token string)
	settling(token string, acking bool)
}

func newYard(protos proto, queues ...string) *yard {
	return &yard{
		book: newLedger(), stage: suite.NewStage(), queues: queues, protos: protos,
		room: make(chan struct{}, killBacklog), swept: make(chan string, 1<<16),
		empty: make(chan struct{}), push: &latency{}, fetch: &latency{},
	}
}

// killYard is the yard of the kill loop and of the soak.
func killYard(protos proto) *yard {
	queues := make([]string, killQueues)
	for i := range queues {
		queues[i] = fmt.Sprintf("k%d", i)
	}
	return newYard(protos, queues...)
}

// run starts the clients and returns when all have ended.
func (y *yard) run() {
	var clients sync.WaitGroup
	for i := range killProducers {
		p := proto(i % int(y.protos))
		rnd := random("producer", strconv.Itoa(i))
		clients.Go(func() {
			eachLife(y.stage, p, y.book.broke, func(l *suite.Life, c *client) error {
				return y.produce(l, c, p, i, rnd)
			})
		})
	}
	y.employ(&clients, killWorkers)
	clients.Wait()
}

// employ starts workers.
func (y *yard) employ(clients *sync.WaitGroup, workers int) {
	for i := range workers {
		p := proto(i % int(y.protos))
		w := &worker{yard: y, proto: p, number: i + 1, rnd: random("worker", strconv.Itoa(i))}
		clients.Go(func() { eachLife(y.stage, p, y.book.broke, w.work) })
	}
}

// produce pushes jobs, each with a token of its own, one or several at a time.
func (y *yard) produce(l *suite.Life, c *client, p proto, producer int, rnd *rand.Rand) error {
	if l.Last {
		return suite.ErrNoMore
	}
	for {
		if y.paced != nil {
			select {
			case <-y.paced:
			case <-l.Ending:
				return suite.ErrLifeOver
			}
		}
		number := y.pushes.Add(1)
		if l.Nodes != nil && l.Over() {
			return suite.ErrLifeOver
		}
		tokens := make([]string, 1)
		if rnd.IntN(8) == 0 {
			tokens = make([]string, 2+rnd.IntN(7))
		}
		for k := range tokens {
			select {
			case y.room <- struct{}{}:
			case <-l.Ending:
				for range k {
					y.leave()
				}
				return suite.ErrLifeOver
			}
			tokens[k] = tokenOf(p, fmt.Sprintf("%d.%d.%d.%d", producer, l.Number, number, k))
		}
		y.book.pushing(tokens...)
		began := time.Now()
		if err := c.push(y.queues[rnd.IntN(len(y.queues))], tokens...); err != nil {
			for range tokens {
				y.leave()
			}
			return err
		}
		y.push.add(time.Since(began))
		life := l.Number
		if l.Unsteady() {
			life = 0 // perhaps another node leads already, which proves nothing about the leases of the one before
		}
		y.book.pushed(life, began, tokens...)
		if w, ok := c.Client.(*wire.Workq); ok {
			if err := y.sweep(w); err != nil {
				return err
			}
		}
	}
}

// leave gives the place of a job back. One too many does no harm.
func (y *yard) leave() {
	select {
	case <-y.room:
	default:
	}
}

// sweep deletes some of the finished jobs of Workq.
func (y *yard) sweep(c *wire.Workq) error {
	for range 8 {
		select {
		case token := <-y.swept:
			if err := c.Delete([]byte(uuidOf(token))); err != nil {
				if wire.IsRefused(err) {
					y.book.complain(fmt.Sprintf("%s is done and cannot be deleted: %v", token, err))
				}
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// begin starts the server for a life.
func (y *yard) begin(t *testing.T, dir string, number int, last bool) *suite.Life {
	t.Helper()
	s := suite.Start(t, options(dir))
	if number == 1 {
		y.prepare(t, s)
	}
	return y.stage.Begin(number, s, last)
}

// drain makes everything ready that waits or is held, until nothing is left, and
// tells the workers to end. It reports what is left if that takes too long.
func (y *yard) drain(t *testing.T, s *harness.Server) {
	t.Helper()
	defer close(y.empty)
	until := time.Now().Add(2 * time.Minute)
	for {
		left, waiting := "", 0
		for _, q := range y.queues {
			var sight wire.Sight
			persist(t, masenko, s, func(m *wire.Masenko) (err error) {
				sight, err = m.Look(q)
				return err
			})
			waiting += sight.Ready
			if sight.Ready+sight.Delayed+sight.Held > 0 {
				left += fmt.Sprintf(" %s has %d ready, %d delayed, %d held;", q, sight.Ready, sight.Delayed, sight.Held)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(until) {
			t.Errorf("after the drain%s", left)
			return
		}
		if waiting == 0 {
			y.busy.Lock()
			y.taken = true
			for _, q := range y.queues {
				persist(t, tarantool, s, func(tube *wire.Tarantool) error { return tube.ReleaseAll(q) })
			}
			persist(t, faktory, s, requeue)
			y.busy.Unlock()
		}
		<-time.After(50 * time.Millisecond)
	}
}

// prepare makes the queues known to those who do not make them by pushing.
func (y *yard) prepare(t *testing.T, s *harness.Server) {
	t.Helper()
	for _, q := range y.queues {
		persist(t, tarantool, s, func(tube *wire.Tarantool) error { return tube.Create(q, "fifottl") })
	}
}

// report tells the figures and the verdict.
func (y *yard) report(t *testing.T, name string, kills, interrupted int, took time.Duration, more ...[2]string) {
	t.Helper()
	writeReport(t, name, append(append([][2]string{
		{"Kills", fmt.Sprintf("%d, of them %d during recovery", kills, interrupted)},
		{"Clients", fmt.Sprintf("%d producers, %d workers, %d protocols on %d shared queues", killProducers,
			killWorkers, y.protos, killQueues)},
	}, y.figures(took)...), more...))
	for _, v := range y.book.violations {
		t.Error(v)
	}
}

// figures are the rows of a report that every suite with a ledger has. They include
// the verdict.
func (y *yard) figures(took time.Duration) [][2]string {
	lost, unknown := y.book.verdict()
	b, ready := y.book, y.stage.Ready()
	slices.Sort(ready)
	return [][2]string{
		{"Pushes attempted", strconv.Itoa(b.attempted)},
		{"Pushes acknowledged", strconv.Itoa(b.acknowledged)},
		{"Deliveries", fmt.Sprintf("%d, of them %d again after a crash, lapse or failure, %d through another "+
			"protocol than the push", b.deliveries, b.redeliveries, b.crossed)},
		{"Lost", strconv.Itoa(lost)},
		{"Duplicated (delivered after the reply to the ack)", strconv.Itoa(b.duplicated)},
		{"Wrong bodies", strconv.Itoa(b.wrong)},
		{"Ambiguous (a push or ack without a reply)", strconv.Itoa(unknown)},
		{"Restart to ready", fmt.Sprintf("median %v, worst %v", ready[len(ready)/2].Round(time.Millisecond),
			ready[len(ready)-1].Round(time.Millisecond))},
		{"Took", took.Round(time.Second).String()},
	}
}
