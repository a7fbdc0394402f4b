package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"millrace/test/harness"
)

const (
	drainers   = 8   // workers that drain a queue together
	drainBatch = 200 // jobs that a worker fetches, then acks, together
)

// draining is a queue of numbered jobs that is being drained. Each of them must come once and in its turn: when so many
// have been asked for, none behind those is there yet, and the numbers of one worker rise.
type draining struct {
	r       *running
	queue   string
	from, n int // the first job, and how many there are

	mu       sync.Mutex // guards what follows
	asked    int        // jobs that workers have asked for
	came     int
	seen     []uint64 // a bit for each job that came
	progress *progress
}

// drain fetches and acks n numbered jobs, from the one given.
func (r *running) drain(queue string, from, n int) (rate float64, err error) {
	d := &draining{r: r, queue: queue, from: from, n: n, seen: make([]uint64, n/64+1), progress: r.progress("drain", n)}
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
	last := -1
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
				last, err = d.take(j, ok, last)
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

// take checks a job that came and returns its number. Last is the number of the one before, of the same worker.
func (d *draining) take(j harness.Job, ok bool, last int) (int, error) {
	if !ok {
		return 0, errors.New("a fetch found no job")
	}
	number, err := strconv.Atoi(j.Payload[:min(numberSize, len(j.Payload))])
	if err != nil || j.Payload != d.r.numbered(number) {
		return 0, fmt.Errorf("a wrong body: %.40q", j.Payload)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := number - d.from
	switch {
	case at < 0 || at >= d.asked || number <= last:
		return 0, fmt.Errorf("out of order: job %d came after %d when %d had been asked for from %d on", number, last,
			d.asked, d.from)
	case d.seen[at/64]&(1<<(at%64)) != 0:
		return 0, fmt.Errorf("job %d came twice", number)
	}
	d.seen[at/64] |= 1 << (at % 64)
	d.came++
	return number, d.progress.at(d.came)
}
