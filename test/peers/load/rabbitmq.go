package main

import (
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"millrace/internal/bench"
	"millrace/internal/wire"
)

// rabbitClient publishes persistent messages with confirms, and consumes one at a time.
type rabbitClient struct {
	client
	conn    *amqp.Connection
	channel *amqp.Channel
	jobs    <-chan amqp.Delivery // made by the first fetch
	last    amqp.Delivery
}

// dialRabbit connects, and makes a queue of a type.
func dialRabbit(kind string) func(bench.DialOptions) (wire.Client, error) {
	return func(o bench.DialOptions) (wire.Client, error) {
		conn, err := amqp.Dial("amqp://guest:guest@" + o.Addr + "/")
		if err != nil {
			return nil, err
		}
		c := &rabbitClient{client: newClient(), conn: conn}
		if c.channel, err = conn.Channel(); err != nil {
			return nil, err
		}
		_, err = c.channel.QueueDeclare(o.Queue, true, false, false, false, amqp.Table{"x-queue-type": kind})
		return c, errors.Join(err, c.channel.Confirm(false), c.channel.Qos(1, 0, false))
	}
}

// Push implements wire.Client.
func (c *rabbitClient) Push(queue string, jobs ...wire.Job) error {
	for _, j := range jobs {
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: j.Body}
		stored, err := c.channel.PublishWithDeferredConfirm("", queue, false, false, m)
		if err != nil {
			return err
		}
		if ok, err := stored.WaitContext(c.ctx); err != nil || !ok {
			return errors.Join(err, errors.New("not confirmed"))
		}
	}
	return nil
}

// Fetch implements wire.Client.
func (c *rabbitClient) Fetch(queue string, wait time.Duration) (j wire.Fetched, ok bool, err error) {
	if c.jobs == nil {
		if c.jobs, err = c.channel.Consume(queue, "", false, false, false, false, nil); err != nil {
			return j, false, err
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case c.last, ok = <-c.jobs:
		if !ok {
			return j, false, amqp.ErrClosed
		}
		return wire.Fetched{Body: c.last.Body}, true, nil
	case <-timer.C:
	case <-c.ctx.Done():
	}
	return j, false, nil
}

// Ack implements wire.Client. The protocol has no answer to it.
func (c *rabbitClient) Ack(string, []byte) error { return c.last.Ack(false) }

// Close implements wire.Client.
func (c *rabbitClient) Close() error { return c.conn.Close() }
