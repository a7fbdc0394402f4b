package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// settle is how long a fetch is given to reach the server and wait there.
const settle = 2 * time.Millisecond

// wakeup measures how long it takes from before a push until a fetch that has been waiting has
// the job.
func (l *load) wakeup(dial func() (client, error)) (figures, error) {
	var clients [2]client
	for i := range clients {
		c, err := dial()
		if err != nil {
			return figures{}, err
		}
		defer c.Close() //nolint:errcheck // nothing is in flight
		clients[i] = c
	}
	producer, worker := clients[0], clients[1]
	type arrival struct {
		at  time.Time
		err error
	}
	start := time.Now()
	var n count
	for time.Since(start) < l.duration {
		arrived := make(chan arrival, 1)
		go func() {
			ok, err := worker.fetch()
			if err == nil && !ok {
				err = fmt.Errorf("no job within %v", fetchWait)
			}
			arrived <- arrival{time.Now(), err}
		}()
		<-time.After(settle)
		began := time.Now()
		if err := producer.push(); err != nil {
			return figures{}, err
		}
		got := <-arrived
		if got.err != nil {
			return figures{}, got.err
		}
		if err := worker.ack(); err != nil {
			return figures{}, err
		}
		n.jobs++
		n.last = time.Now()
		n.latencies = append(n.latencies, got.at.Sub(began))
	}
	return summary(start, []count{n})
}

// subqueues fills or drains a tube, which has sub-queues if there are keys.
func (l *load) subqueues(do actor) (figures, error) {
	kind := "fifo"
	if l.keys > 0 {
		kind = "utube"
	}
	dial := func() (client, error) { return dialTarantool(l.addr, l.queue, kind) }
	return l.drive(dial, slices.Repeat([]actor{do}, l.conns))
}

// fill puts one connection's share of the tasks: those of one key after those of another, so that
// takers find long stretches of tasks that are not for them.
func (l *load) fill(_ context.Context, c client, done func(int, time.Time)) error {
	keys := max(1, l.keys)
	for key := range keys {
		if t, ok := c.(*tarantoolClient); ok && l.keys > 0 {
			t.putInto("key" + strconv.Itoa(key))
		}
		for left := l.tasks / keys / l.conns; left > 0; left -= bulkSize {
			began, n := time.Now(), min(left, bulkSize)
			if err := c.pushMany(n); err != nil {
				return err
			}
			done(n, began)
		}
	}
	return nil
}

// drain takes and acks tasks until there are none.
func drain(_ context.Context, c client, done func(int, time.Time)) error {
	for {
		began := time.Now()
		ok, err := c.fetch()
		if err != nil || !ok {
			return err
		}
		if err := c.ack(); err != nil {
			return err
		}
		done(1, began)
	}
}
