// Package masenkotest is a small Masenko client for tests: that of internal/wire, with
// calls for all that the protocol has.
package masenkotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"millrace/internal/wire"
)

// ErrEmpty means that there was no task within the timeout.
var ErrEmpty = errors.New("no task")

// Task is a task to push, or one that was fetched.
type Task struct {
	ID        uint32          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Queue     string          `json:"queue,omitempty"`
	DeadQueue string          `json:"deadqueue,omitempty"`
	Group     string          `json:"group,omitempty"` // what the original does not know
	Trace     string          `json:"traceparent,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
	Retry     *uint8          `json:"retry,omitempty"`
	ExecuteAt *time.Time      `json:"execute_at,omitempty"`
	BlockedBy []int64         `json:"blocked_by,omitempty"`
	Failures  uint32          `json:"failures,omitempty"`
}

// QueueInfo is a queue in the answer to INFO.
type QueueInfo struct {
	Name    string `json:"name"`
	Ready   uint64 `json:"ready"`
	Delayed uint64 `json:"delayed"`
	ToAck   uint64 `json:"to_ack"`
}

// Info is the answer to INFO.
type Info struct {
	Queues  []QueueInfo       `json:"queues"`
	Metrics map[string]uint64 `json:"metrics"`
}

// Client is a connection, with calls for all that the protocol has.
type Client struct{ *wire.Masenko }

// New returns a client on a connection.
func New(conn net.Conn) *Client {
	c, _ := wire.As[*wire.Masenko](wire.New("masenko", conn, wire.Options{})) // without a handshake it cannot fail
	return &Client{c}
}

// Dial connects to a server.
func Dial(addr string) (*Client, error) {
	c, err := wire.As[*wire.Masenko](wire.Dial("masenko", wire.Options{Addr: addr}))
	return &Client{c}, err
}

// Call sends lines and returns the verb and the object of the one reply.
func (c *Client) Call(lines ...string) (verb, object string, err error) {
	line, err := c.Masenko.Call(lines...)
	if err != nil {
		return "", "", err
	}
	verb, object, ok := strings.Cut(line, " ")
	switch {
	case !ok:
		return "", "", fmt.Errorf("reply %q has no object", line)
	case verb == "EMPTY":
		return "", "", ErrEmpty
	}
	return verb, object, nil
}

// call sends lines and decodes the object of an OK reply into out.
func (c *Client) call(out any, lines ...string) error {
	verb, object, err := c.Call(lines...)
	if err != nil {
		return err
	}
	if verb != "OK" {
		return fmt.Errorf("reply verb %q", verb)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(object), out); err != nil {
		return fmt.Errorf("reply %q: %w", object, err)
	}
	return nil
}

func line(verb string, body any) (string, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", verb, err)
	}
	return verb + " " + string(b), nil
}

type idBody struct {
	ID uint32 `json:"id"`
}

// Push pushes a task and returns its id.
func (c *Client) Push(t Task) (uint32, error) {
	l, err := line("PUSH", t)
	if err != nil {
		return 0, err
	}
	var out idBody
	err = c.call(&out, l)
	return out.ID, err
}

// Fetch waits for a task of the first of the queues that has one. ErrEmpty
// means that there was none in time.
func (c *Client) Fetch(timeout time.Duration, queues ...string) (Task, error) {
	l, err := line("FETCH", map[string]any{"queues": queues, "timeout": timeout})
	if err != nil {
		return Task{}, err
	}
	var t Task
	err = c.call(&t, l)
	return t, err
}

// Ack acknowledges a task.
func (c *Client) Ack(id uint32) error {
	l, err := line("ACK", idBody{id})
	if err != nil {
		return err
	}
	return c.call(nil, l)
}

// Nack fails a task.
func (c *Client) Nack(id uint32) error {
	l, err := line("NACK", idBody{id})
	if err != nil {
		return err
	}
	return c.call(nil, l)
}

// Ping asks for a sign of life.
func (c *Client) Ping() error {
	verb, _, err := c.Call("PING")
	if err == nil && verb != "PONG" {
		err = fmt.Errorf("reply verb %q", verb)
	}
	return err
}

// Info returns the queues and counters.
func (c *Client) Info() (Info, error) {
	var out Info
	err := c.call(&out, "INFO {}")
	return out, err
}

// Quit ends the session.
func (c *Client) Quit() error { return c.call(nil, "QUIT {}") }

// Atomic pushes and acknowledges tasks in one transaction and returns the ids of
// the pushes.
func (c *Client) Atomic(push []Task, ack []uint32) ([]uint32, error) {
	lines := []string{"ATOMIC"}
	for _, id := range ack {
		l, err := line("ACK", idBody{id})
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	for _, t := range push {
		l, err := line("PUSH", t)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	var out struct {
		IDs []uint32 `json:"ids"`
	}
	err := c.call(&out, append(lines, "DONE")...)
	return out.IDs, err
}
