package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/internal/bench"
	client "millrace/internal/wire"
)

// settle is how long a fetch is given to reach the server and wait there.
const settle = 2 * time.Millisecond

// runSpecial runs a scenario that is no plain load.
func (l *load) runSpecial(p *bench.Protocol) (figures, error) {
	switch l.scenario {
	case "wakeup":
		return l.wakeup(p)
	case "fill":
		return l.subqueues(l.fill)
	case "drain":
		return l.subqueues(l.drain)
	}
	return figures{}, fmt.Errorf("unknown scenario %q", l.scenario)
}

func (l *load) dialOptions() bench.DialOptions {
	return bench.DialOptions{Addr: l.addr, Queue: l.queue, BodyMax: payloadSize, Batch: bulkSize}
}

// wakeup measures how long it takes from before a push until a fetch that has been waiting has
// the job.
func (l *load) wakeup(p *bench.Protocol) (figures, error) {
	var clients [2]client.Client
	for i := range clients {
		c, err := p.Dial(l.dialOptions())
		if err != nil {
			return figures{}, err
		}
		defer c.Close() //nolint:errcheck // nothing is in flight
		clients[i] = c
	}
	producer, worker := clients[0], clients[1]
	type arrival struct {
		at  time.Time
		job client.Fetched
		err error
	}
	n := tally{start: time.Now()}
	for time.Since(n.start) < l.duration {
		arrived := make(chan arrival, 1)
		go func() {
			j, ok, err := worker.Fetch(l.queue, bench.FetchWait)
			if err == nil && !ok {
				err = fmt.Errorf("no job within %v", bench.FetchWait)
			}
			arrived <- arrival{time.Now(), j, err}
		}()
		<-time.After(settle)
		began := time.Now()
		if err := producer.Push(l.queue, client.Job{Body: payload}); err != nil {
			return figures{}, err
		}
		got := <-arrived
		if got.err != nil {
			return figures{}, got.err
		}
		if err := worker.Ack(l.queue, got.job.ID); err != nil {
			return figures{}, err
		}
		n.jobs++
		n.last = time.Now()
		n.latencies.Add(got.at.Sub(began))
	}
	return n.figures()
}

// subqueues fills or drains a tube, which has sub-queues if there are keys, over all connections until
// the time is up.
func (l *load) subqueues(do func(c client.Client, n *tally) error) (figures, error) {
	o := l.dialOptions()
	if l.keys > 0 {
		o.Kind = "utube"
	}
	clients := make([]client.Client, l.conns)
	for i := range clients {
		c, err := bench.Tarantool.Dial(o)
		if err != nil {
			return figures{}, err
		}
		defer c.Close() //nolint:errcheck // nothing that counts is in flight
		clients[i] = c
	}
	start := time.Now()
	tallies, errs := make([]tally, l.conns), make([]error, l.conns)
	var running sync.WaitGroup
	for i, c := range clients {
		if err := c.SetDeadline(start.Add(l.duration)); err != nil {
			return figures{}, err
		}
		running.Go(func() {
			if err := do(c, &tallies[i]); !errors.Is(err, os.ErrDeadlineExceeded) {
				errs[i] = err
			}
		})
	}
	running.Wait()
	all := tally{start: start}
	for i := range tallies {
		n := &tallies[i]
		all.jobs += n.jobs
		all.latencies.Merge(&n.latencies)
		if n.last.After(all.last) {
			all.last = n.last
		}
	}
	if err := errors.Join(errs...); err != nil {
		return figures{}, err
	}
	return all.figures()
}

// fill puts one connection's share of the tasks: those of one key after those of another, so that
// takers find long stretches of tasks that are not for them.
func (l *load) fill(c client.Client, n *tally) error {
	keys := max(1, l.keys)
	for key := range keys {
		j := client.Job{Body: payload}
		if l.keys > 0 {
			j.Group = "key" + strconv.Itoa(key)
		}
		bulk := slices.Repeat([]client.Job{j}, bulkSize)
		for left := l.tasks / keys / l.conns; left > 0; left -= bulkSize {
			began, count := time.Now(), min(left, bulkSize)
			if err := c.Push(l.queue, bulk[:count]...); err != nil {
				return err
			}
			n.done(count, began)
		}
	}
	return nil
}

// drain takes and acks tasks until there are none.
func (l *load) drain(c client.Client, n *tally) error {
	for {
		began := time.Now()
		j, ok, err := c.Fetch(l.queue, bench.FetchWait)
		if err != nil || !ok {
			return err
		}
		if err := c.Ack(l.queue, j.ID); err != nil {
			return err
		}
		n.done(1, began)
	}
}
