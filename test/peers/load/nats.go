package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"millrace/internal/bench"
	"millrace/internal/wire"
)

// leaseTime is how long a worker may take.
const leaseTime = 5 * time.Minute

// natsClient uses a stream as a work queue, with one consumer that all workers share.
type natsClient struct {
	client
	conn   *nats.Conn
	stream jetstream.JetStream
	jobs   jetstream.MessagesContext // made by the first fetch
	last   jetstream.Msg
}

func dialNATS(o bench.DialOptions) (wire.Client, error) {
	conn, err := nats.Connect("nats://" + o.Addr)
	if err != nil {
		return nil, err
	}
	c := &natsClient{client: newClient(), conn: conn}
	if c.stream, err = jetstream.New(conn); err == nil {
		_, err = c.stream.CreateOrUpdateStream(c.ctx, jetstream.StreamConfig{
			Name: o.Queue, Subjects: []string{o.Queue}, Retention: jetstream.WorkQueuePolicy,
			Storage: jetstream.FileStorage,
		})
	}
	return c, err
}

// Push implements wire.Client.
func (c *natsClient) Push(queue string, jobs ...wire.Job) error {
	for _, j := range jobs {
		if _, err := c.stream.Publish(c.ctx, queue, j.Body); err != nil {
			return err
		}
	}
	return nil
}

// Fetch implements wire.Client.
func (c *natsClient) Fetch(queue string, wait time.Duration) (wire.Fetched, bool, error) {
	if c.jobs == nil {
		workers, err := c.stream.CreateOrUpdateConsumer(c.ctx, queue, jetstream.ConsumerConfig{
			Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: leaseTime, MaxAckPending: -1,
		})
		if err == nil {
			c.jobs, err = workers.Messages(jetstream.PullMaxMessages(1))
		}
		if err != nil {
			return wire.Fetched{}, false, err
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	m, err := c.jobs.Next(jetstream.NextContext(ctx))
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return wire.Fetched{}, false, nil
	}
	if err != nil {
		return wire.Fetched{}, false, err
	}
	c.last = m
	return wire.Fetched{Body: m.Data()}, true, nil
}

// Ack implements wire.Client. It waits for the server's answer.
func (c *natsClient) Ack(string, []byte) error { return c.last.DoubleAck(c.ctx) }

// Close implements wire.Client.
func (c *natsClient) Close() error {
	c.conn.Close()
	return nil
}
