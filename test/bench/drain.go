package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

const (
	drainers   = 8   // workers that drain a queue together
	drainBatch = 200 // jobs that a worker fetches, then acks, together
)

// draining is a queue of numbered jobs that is being drained. Each of them must come once and in its turn: when so many
// have been asked for, none behind those is there yet, and of each tenant the numbers that one worker gets rise.
type draining struct {
	r       *running
	queue   string
	from, n int      // the first job, and how many there are
	tenants *tenants // nil: all jobs are of one

	mu       sync.Mutex // guards what follows
	asked    int        // jobs that workers have asked for
	came     int
	seen     []uint64 // a bit for each job that came
	progress *progress
	waits    bench.Histogram // of the jobs of small tenants, from the beginning on
}

// drain fetches and acks n numbered jobs, from the one given.
func (r *running) drain(queue string, from, n int) (rate float64, err error) {
	return (&draining{r: r, queue: queue, from: from, n: n}).run()
}

func (d *draining) run() (rate float64, err error) {
	n := d.n
	d.seen, d.progress = make([]uint64, n/64+1), d.r.progress("drain", n)
	var workers sync.WaitGroup
	errs := make([]error, drainers)
	for i := range errs {
		workers.Go(func() { errs[i] = d.worker() })
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if d.came != n {
		return 0, fmt.Errorf("%d of %d jobs came", d.came, n)
	}
	return float64(n) / time.Since(d.progress.began).Seconds(), nil
}

// ask returns for how many jobs a worker may ask.
func (d *draining) ask() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := min(drainBatch, d.n-d.asked)
	d.asked += k
	return k
}

// worker drains over a connection of its own until there is nothing left to ask for.
func (d *draining) worker() error {
	c, err := harness.Dial(d.r.Addr)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // all has been answered
	var ids []uint64
	last := map[int]int{} // the number of the last job of each tenant
	for k := d.ask(); k > 0; k = d.ask() {
		for range k {
			c.QueueFetch(d.queue, time.Second)
		}
		if err := acked(c, ids); err != nil {
			return err
		}
		ids = ids[:0]
		for range k {
			j, ok, err := c.ReplyJob()
			if err == nil {
				err = d.take(j, ok, last)
			}
			if err != nil {
				return err
			}
			ids = append(ids, j.ID)
		}
		c.Queue("ATOMIC")
		for _, id := range ids {
			c.QueueAck(id)
		}
		c.Queue("DONE")
	}
	return acked(c, ids)
}

// acked sends what is queued, and reads the answer to the acks that it begins with, if there are any.
func acked(c *harness.Client, ids []uint64) error {
	if err := c.Send(time.Minute); err != nil || len(ids) == 0 {
		return err
	}
	_, err := c.Reply()
	return err
}

// take checks a job that came. Last has the numbers that the same worker got before.
func (d *draining) take(j harness.Job, ok bool, last map[int]int) error {
	if !ok {
		return errors.New("a fetch found no job")
	}
	number, err := strconv.Atoi(j.Payload[:min(numberSize, len(j.Payload))])
	if err != nil || j.Payload != d.r.numbered(number) {
		return fmt.Errorf("a wrong body: %.40q", j.Payload)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := number - d.from
	if at < 0 || at >= d.n {
		return fmt.Errorf("job %d is none of the %d from %d on", number, d.n, d.from)
	}
	tenant, before := 0, at
	if d.tenants != nil {
		if tenant, before = d.tenants.turn(at); tenant > 0 {
			d.waits.Add(time.Since(d.progress.began))
		}
	}
	former, more := last[tenant]
	switch {
	case before >= d.asked || more && number <= former:
		return fmt.Errorf("out of order: job %d of tenant %d came after %d when %d had been asked for from %d on",
			number,
			tenant, former, d.asked, d.from)
	case d.seen[at/64]&(1<<(at%64)) != 0:
		return fmt.Errorf("job %d came twice", number)
	}
	d.seen[at/64] |= 1 << (at % 64)
	last[tenant] = number
	d.came++
	return d.progress.at(d.came)
}
