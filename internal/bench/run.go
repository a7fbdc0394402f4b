package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/wire"
)

// Run puts load on a server and measures it. When ctx ends no more is pushed; what has been pushed is
// still fetched, so that the counts are whole.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &run{Options: o, tag: newTag()}
	if o.Producers == 0 {
		if err := r.phase(ctx, PhaseFill, Options{Producers: o.Workers, Batch: fillBatch}); err != nil {
			return nil, err
		}
	}
	if err := r.phase(ctx, PhaseRun, o); err != nil {
		return nil, err
	}
	measured := r.measured
	if !o.Unchecked && !o.Keep && (o.Workers == 0 || o.Producers == 0) {
		if err := r.phase(ctx, PhaseDrain, Options{Workers: max(o.Producers, o.Workers, drainWorkers)}); err != nil {
			return nil, err
		}
	}
	return r.result(measured)
}

// run is a run in progress. Its phases come one after the other.
type run struct {
	Options
	tag    uint32
	ledger ledger

	measured *phase // the last one
}

// phase is the common life of some producers and workers.
type phase struct {
	*run
	name      Phase
	producers []*producer
	workers   []*worker
	batch     int
	rate      float64
	room      chan struct{} // holds a token for every job in flight; nil if there is no bound

	start     time.Time
	producing context.Context //nolint:containedctx // ends when no more is to be pushed
	cease     context.CancelFunc
	done      chan struct{} // closed when nothing is left to be fetched, or it is given up
	finish    sync.Once     // closes done
	idle      atomic.Bool   // set when all producers have ended
}

// phase runs the producers and workers that with names until all is done.
func (r *run) phase(ctx context.Context, name Phase, with Options) error {
	p := &phase{run: r, name: name, batch: with.Batch, rate: with.Rate, done: make(chan struct{})}
	defer p.hangUp()
	for i := range with.Producers {
		c, err := r.dial()
		if err != nil {
			return err
		}
		p.producers = append(p.producers, &producer{phase: p, c: c, index: i})
	}
	for range with.Workers {
		c, err := r.dial()
		if err != nil {
			return err
		}
		p.workers = append(p.workers, &worker{phase: p, c: c})
	}
	if with.InFlight > 0 && with.Rate == 0 && with.Producers > 0 && with.Workers > 0 {
		p.room = make(chan struct{}, with.InFlight*with.Producers*with.Batch)
	}
	p.start = time.Now()
	p.producing, p.cease = context.WithCancel(ctx)
	if with.Duration > 0 {
		p.producing, p.cease = context.WithDeadline(ctx, p.start.Add(with.Duration))
	}
	defer p.cease()
	r.measured = p
	return p.toEnd()
}

// hangUp closes all connections.
func (p *phase) hangUp() {
	for _, c := range p.clients() {
		_ = c.Close() // nothing that counts is in flight
	}
}

func (p *phase) clients() []wire.Client {
	var all []wire.Client
	for _, c := range p.producers {
		all = append(all, c.c)
	}
	for _, c := range p.workers {
		all = append(all, c.c)
	}
	return all
}

// toEnd lets everybody work until producers have ended and nothing is left to fetch.
func (p *phase) toEnd() error {
	var pushing, working sync.WaitGroup
	errs := make(chan error, len(p.producers)+len(p.workers))
	report := func(err error) {
		if err != nil {
			errs <- err
			p.abort()
		}
	}
	for _, c := range p.producers {
		pushing.Go(func() { report(c.produce()) })
	}
	for _, c := range p.workers {
		working.Go(func() { report(c.work()) })
	}
	watched := make(chan error, 1)
	ended := make(chan struct{})
	go func() { watched <- p.watch(ended) }()
	pushing.Wait()
	p.idle.Store(true)
	if len(p.workers) == 0 || p.ledger.settled() && !p.Linger {
		p.end()
	}
	working.Wait()
	close(ended)
	err := <-watched
	close(errs)
	for e := range errs {
		// Whatever ends after the first error ends because of it.
		return errors.Join(e, err)
	}
	return err
}

// end lets the workers end, which may be waiting for a job.
func (p *phase) end() {
	p.finish.Do(func() { close(p.done) })
	for _, w := range p.workers {
		_ = w.c.SetDeadline(time.Now()) // a connection that is broken ends as well
	}
}

// abort ends everybody at once.
func (p *phase) abort() {
	p.cease()
	for _, c := range p.clients() {
		_ = c.SetDeadline(time.Now()) // a connection that is broken ends as well
	}
	p.end()
}

const watchEvery = 100 * time.Millisecond

// watch tells of progress and ends what makes none, until everybody has ended.
func (p *phase) watch(ended <-chan struct{}) error {
	patience := p.Patience
	if p.rate > 0 {
		patience = max(patience, time.Duration(2*float64(p.batch)/p.rate*float64(time.Second)))
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last uint64
	moved := time.Now()
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
		pushed, fetched := p.ledger.pushed.Load(), p.ledger.acked.Load()
		if p.Progress != nil {
			p.Progress(Progress{Phase: p.name, Elapsed: time.Since(p.start), Pushed: pushed, Fetched: fetched})
		}
		if sum := pushed + fetched; sum != last {
			last, moved = sum, time.Now()
		}
		stuck := time.Since(moved)
		switch {
		case stuck < patience:
		case p.idle.Load():
			p.end() // what has not come by now is lost
		case stuck < 2*patience:
			p.cease() // producers may be waiting for jobs that never come
		default:
			p.abort()
			return fmt.Errorf("the server has answered nothing for %v", stuck.Round(time.Second))
		}
	}
}

// producer pushes.
type producer struct {
	*phase
	c      wire.Client
	index  int
	jobs   uint64
	push   Histogram
	last   time.Time // when the last push was answered
	pushes []wire.Job
	timer  *time.Timer
}

// produce pushes until it is time to end.
func (c *producer) produce() error {
	for round := 0; ; round++ {
		due, ok := c.turn(round)
		if !ok {
			return nil
		}
		first, n := c.ledger.draw(uint64(c.batch), uint64(c.Count)) //nolint:gosec // not negative
		if n == 0 {
			return nil
		}
		if err := c.pushAll(first, int(n), due); err != nil { //nolint:gosec // at most a batch
			return fmt.Errorf("push: %w", err)
		}
		now := time.Now()
		c.push.Add(now.Sub(due))
		c.last = now
		c.jobs += n
		c.ledger.take(first, n)
	}
}

// turn waits until the next push may begin and returns when it should have begun: if the server kept
// the producer busy at the time that the rate sets, then its latency runs from that time, as it would for a
// client that the server does not hold up.
func (c *producer) turn(round int) (due time.Time, ok bool) {
	if c.rate == 0 {
		ok = c.enter() && c.producing.Err() == nil
		return time.Now(), ok
	}
	nth := round*len(c.producers) + c.index
	due = c.start.Add(time.Duration(float64(nth*c.batch) / c.rate * float64(time.Second)))
	if end, limited := c.producing.Deadline(); limited && due.After(end) {
		return due, false
	}
	wait := time.Until(due)
	if wait <= 0 {
		return due, c.producing.Err() == nil
	}
	if c.timer == nil {
		c.timer = time.NewTimer(wait)
	} else {
		c.timer.Reset(wait)
	}
	select {
	case <-c.timer.C:
		// A timer that is late is this program's fault.
		return time.Now(), true
	case <-c.producing.Done():
		return due, false
	}
}

// enter waits until a batch of jobs may be in flight.
func (c *producer) enter() bool {
	if c.room == nil {
		return true
	}
	for range c.batch {
		select {
		case c.room <- struct{}{}:
		case <-c.producing.Done():
			return false
		}
	}
	return true
}

func (c *producer) pushAll(first uint64, n int, due time.Time) error {
	for len(c.pushes) < n {
		c.pushes = append(c.pushes, wire.Job{})
	}
	for i := range n {
		j := job{number: first + uint64(i), pushed: due.Sub(c.start)}
		size := c.Sizes[j.number%uint64(len(c.Sizes))]
		c.pushes[i].Body = appendBody(c.pushes[i].Body[:0], c.tag, j, size)
	}
	return c.c.Push(c.Queue, c.pushes[:n]...)
}

// worker fetches and acks.
type worker struct {
	*phase
	c           wire.Client
	fetch, ack  Histogram
	whole       Histogram // fetch and ack together
	pushToFetch Histogram
	jobs        uint64
	last        time.Time // when the last job was acked
}

// work fetches until there is nothing left.
func (c *worker) work() error {
	for !c.over() {
		found, err := c.one()
		switch {
		case err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.over():
			return nil
		case err != nil:
			return err
		case !c.idle.Load() || !c.ledger.settled():
		case !c.Linger:
			c.end()
		case !found:
			return nil // and the others see for themselves: one of them may have a duplicate in its hands
		}
	}
	return nil
}

// over tells whether there is nothing more to do. Workers on their own have a time to end, and leave the
// rest for later: a fetch that is cut off might take a job with it.
func (c *worker) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return c.name == PhaseRun && len(c.producers) == 0 && c.producing.Err() != nil
	}
}

// one fetches and acks a job, if it finds one in time.
func (c *worker) one() (found bool, err error) {
	began := time.Now()
	j, found, err := c.c.Fetch(c.Queue, FetchWait)
	if err != nil {
		return false, fmt.Errorf("fetch: %w", err)
	}
	if !found {
		return false, nil
	}
	got := time.Now()
	first := true
	if !c.Unchecked {
		if first, err = c.deliver(j.Body, got); err != nil {
			return true, err
		}
	}
	if err := c.c.Ack(c.Queue, j.ID); err != nil {
		return true, fmt.Errorf("ack: %w", err)
	}
	c.last = time.Now()
	c.jobs++
	c.fetch.Add(got.Sub(began))
	c.ack.Add(c.last.Sub(got))
	c.whole.Add(c.last.Sub(began))
	if first && c.room != nil {
		// A job that was fetched is in flight, so this waits only for a server that does nothing, which
		// delivers jobs that nobody has pushed.
		select {
		case <-c.room:
		case <-c.done:
			return true, nil
		}
	}
	if first {
		c.ledger.acked.Add(1)
	}
	return true, nil
}

// deliver notes a job and how long it was on its way.
func (c *worker) deliver(body []byte, got time.Time) (first bool, err error) {
	j, err := parseBody(body, c.tag)
	if err != nil {
		return false, err
	}
	first, ok := c.ledger.deliver(j.number)
	if !ok {
		return false, errStranger
	}
	if first && c.name == PhaseRun && len(c.producers) > 0 {
		c.pushToFetch.Add(got.Sub(c.start.Add(j.pushed)))
	}
	return first, nil
}
