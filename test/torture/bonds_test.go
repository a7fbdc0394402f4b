package torture

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

const (
	bondWorkers  = 10
	bondBatchers = 3
	bondChainers = 3
	bondLockers  = 4 // half of them through Faktory, half through Workq

	memberQueue   = "members"
	callbackQueue = "callbacks"
	chainQueue    = "chains"
)

// TestBonds kills the server under what ties jobs together: batches of Faktory with
// their callbacks, chains of tasks of Masenko that wait for each other, and unique
// keys of Faktory and Workq. Workers of all protocols serve them.
func TestBonds(t *testing.T) {
	t.Parallel()
	began, kills := time.Now(), cmp.Or(*bondKills, tier.Pick(12, 2))
	dir := suite.DataDir(t)
	y := newYard(protoCount, memberQueue, callbackQueue, chainQueue)
	b := &bonds{yard: y, jobs: map[string]*bond{}}
	y.watch = b
	var lockers []*locker
	var clients sync.WaitGroup
	y.employ(&clients, bondWorkers)
	b.settled.Add(bondBatchers)
	for i := range bondBatchers {
		m := &batcher{bonds: b, number: i, rnd: random("batcher", strconv.Itoa(i))}
		clients.Go(func() {
			defer b.settled.Done()
			eachLife(y.stage, faktory, y.book.broke, m.run)
		})
	}
	for i := range bondChainers {
		c := &chainer{bonds: b, number: i, rnd: random("chainer", strconv.Itoa(i))}
		clients.Go(func() { eachLife(y.stage, masenko, y.book.broke, c.run) })
	}
	for i := range bondLockers {
		k := newLocker(i, y.book.complain)
		lockers = append(lockers, k)
		clients.Go(func() { eachLife(y.stage, k.proto, y.book.broke, k.run) })
	}
	rnd := random("bonds")
	for number := 1; number <= kills; number++ {
		l := y.begin(t, dir, number, false)
		<-time.After(100*time.Millisecond + time.Duration(rnd.Int64N(int64(*killAfter))))
		l.Kill()
	}
	last := y.begin(t, dir, kills+1, true)
	b.settled.Wait()
	y.drain(t, last.Server)
	clients.Wait()
	b.judge(connect[*wire.Faktory](t, faktory, last.Server))
	if err := last.Server.Stop(harness.StopPatience); err != nil {
		t.Error(err)
	}
	taken, refused := 0, 0
	for _, k := range lockers {
		taken, refused = taken+k.taken, refused+k.refused
	}
	figures := y.figures(time.Since(began))
	writeReport(t, "bonds", append([][2]string{
		{"Kills", strconv.Itoa(kills)},
		{
			"Batches committed, with callbacks each once",
			fmt.Sprintf("%d, of them %d with a parent", b.committed, b.children),
		},
		{"Batches never committed, without callbacks", strconv.Itoa(b.orphans)},
		{"Transactions of tasks that wait for each other", fmt.Sprintf("%d with %d tasks", b.chains, b.links)},
		{"Unique keys taken, refused while held", fmt.Sprintf("%d, %d", taken, refused)},
	}, figures...))
	for _, v := range y.book.violations {
		t.Error(v)
	}
	if b.committed == 0 || b.chains == 0 || taken == 0 || refused == 0 {
		t.Errorf("%d batches, %d chains, %d keys: this was no load", b.committed, b.chains, taken)
	}
}

// bond is a job that is tied to others.
type bond struct {
	// after are jobs that must have been acked before this one may come, tried such
	// that must have been acked or failed.
	after, tried []string
	// barred, if not empty, says why the job may not come at all yet.
	barred string
	tied   time.Time // before it was pushed
	acking bool      // an ack has been sent at least once
	doomed bool      // an ack or a failure has
	// with are jobs that were pushed with it whole or not at all.
	with []string
}

// bonds watches over the bonds of all jobs.
type bonds struct {
	*yard
	settled sync.WaitGroup // batchers that have not finished their last batch

	mu   sync.Mutex // guards what follows; taken before that of the ledger
	jobs map[string]*bond

	batches                                     []*batch
	committed, children, orphans, chains, links int
}

// seen is called when a job has been delivered: everything that it waits for must
// have been at least tried.
func (b *bonds) seen(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[token]
	if j == nil {
		return
	}
	if j.barred != "" {
		b.book.complain(fmt.Sprintf("%s has come although %s", token, j.barred))
	}
	for _, other := range j.after {
		if !b.jobs[other].acking {
			b.book.complain(fmt.Sprintf("%s has come although nobody has acked %s", token, other))
		}
	}
	for _, other := range j.tried {
		// A delivery that a kill has cut off is a try too, when its lease has lapsed.
		if o := b.jobs[other]; !o.doomed && b.book.sure(other) && time.Since(o.tied) < lmstfyLease {
			b.book.complain(fmt.Sprintf("%s has come although nobody has tried %s", token, other))
		}
	}
	b.book.certain(j.with...)
}

// settling is called before a job is acked or failed.
func (b *bonds) settling(token string, acking bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[token]; j != nil {
		j.doomed, j.acking = true, j.acking || acking
	}
}

// tie adds jobs that are about to be pushed.
func (b *bonds) tie(token string, j *bond) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j.tied = time.Now()
	b.jobs[token] = j
}

// chainer pushes transactions of tasks, each of which waits for some before it.
type chainer struct {
	*bonds
	number int
	rnd    *rand.Rand
}

func (c *chainer) run(l *suite.Life, conn *client) error {
	if l.Last {
		return suite.ErrNoMore
	}
	m := conn.Client.(*wire.Masenko)
	for i := 0; ; i++ {
		tokens := make([]string, 2+c.rnd.IntN(4))
		for k := range tokens {
			select {
			case c.room <- struct{}{}:
			case <-l.Ending:
				return suite.ErrLifeOver
			}
			tokens[k] = tokenOf(masenko, fmt.Sprintf("c%d.%d.%d.%d", c.number, l.Number, i, k))
		}
		lines := []string{"ATOMIC"}
		for k, t := range tokens {
			j := &bond{with: tokens}
			blocked := ""
			for back := 1; back <= k; back++ {
				if back == 1 || c.rnd.IntN(2) == 0 {
					j.after = append(j.after, tokens[k-back])
					blocked += fmt.Sprintf(",-%d", back)
				}
			}
			if blocked != "" {
				blocked = `,"blocked_by":[` + blocked[1:] + "]"
			}
			c.tie(t, j)
			lines = append(lines, masenkoPush(chainQueue, t, masenkoTries, blocked))
		}
		c.book.pushing(tokens...)
		began := time.Now()
		if _, err := m.Call(append(lines, "DONE")...); err != nil {
			for range tokens {
				c.leave()
			}
			return err
		}
		c.book.pushed(l.Number, began, tokens...)
		c.mu.Lock()
		c.chains++
		c.links += len(tokens)
		c.mu.Unlock()
	}
}
