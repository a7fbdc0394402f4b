package dialecttest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"

	"millrace/internal/wire"
)

// wired returns what makes the client of a protocol, which internal/wire has. Inspect returns the body of a job that
// the client has fetched, by looking; it is nil if the protocol has no such call.
func wired[C wire.Client](name string, inspect func(c C, queue, id string) (string, error)) func(net.Conn) (Client,
	error) {
	return func(conn net.Conn) (Client, error) {
		c, err := wire.As[C](wire.New(name, conn, wireOptions))
		if err != nil {
			return nil, err
		}
		if l, ok := any(c).(*wire.Lmstfy); ok {
			l.Lease = 2 * time.Minute
		}
		return client[C]{c, inspect}, nil
	}
}

// wireOptions are those of all clients.
var wireOptions = wire.Options{Namespace: namespace, Kind: "fifottl"}

// shake does the handshake of a protocol on a connection that is then used with raw bytes.
func shake(name string) func(net.Conn) (*bufio.Reader, error) {
	return func(conn net.Conn) (*bufio.Reader, error) {
		c, err := wire.New(name, conn, wire.Options{Queue: queue})
		if err != nil {
			return nil, err
		}
		return c.Reader(), nil
	}
}

// client is a client of internal/wire as the tests use it. A handle is a queue and an id with a space between them.
type client[C wire.Client] struct {
	c       C
	inspect func(c C, queue, id string) (string, error)
}

func (c client[C]) Close() error { return c.c.Close() }

func (c client[C]) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c client[C]) PushWith(queue, body string, w Wishes) error {
	j := wire.Job{Body: []byte(body), Level: w.Level, Delay: w.Delay, TTL: w.TTL, Group: w.Group, Trace: w.Trace}
	if w.Last {
		j.Tries = 1
	}
	return c.c.Push(queue, j)
}

// Fetch asks Faktory again until the time is over: the protocol has one of its own.
func (c client[C]) Fetch(queue string, wait time.Duration) (Task, error) {
	_, again := any(c.c).(*wire.Faktory)
	for end := time.Now().Add(wait); ; {
		j, ok, err := c.c.Fetch(queue, wait)
		switch {
		case err != nil:
			return Task{}, err
		case ok:
			return Task{Handle: queue + " " + string(j.ID), Body: string(j.Body)}, nil
		case !again || !time.Now().Before(end):
			return Task{}, ErrEmpty
		}
	}
}

func (c client[C]) Ack(handle string) error {
	queue, id, _ := strings.Cut(handle, " ")
	return c.c.Ack(queue, []byte(id))
}

// FetchFail takes a job of LMSTFY for no time at all.
func (c client[C]) FetchFail(queue string) error {
	if l, ok := any(c.c).(*wire.Lmstfy); ok {
		defer func(lease time.Duration) { l.Lease = lease }(l.Lease)
		l.Lease = 0
	}
	j, ok, err := c.c.Fetch(queue, time.Second)
	if err != nil || !ok {
		return fmt.Errorf("a job to fail: found %v: %w", ok, err)
	}
	return c.c.Fail(queue, j.ID)
}

func (c client[C]) Inspect(handle string) (string, error) {
	if c.inspect == nil {
		return "", ErrUnable
	}
	queue, id, _ := strings.Cut(handle, " ")
	return c.inspect(c.c, queue, id)
}

func (c client[C]) Look(queue string) (Sight, error) { return c.c.Look(queue) }
