package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Patience is how long a client waits for an answer beyond what it asked the
// server to wait.
const Patience = 20 * time.Second

// Client is one Masenko connection. It is used by one goroutine at a time. Its
// payloads are JSON strings without anything to escape, which lets it find its
// way in a reply without a JSON decoder: in a benchmark the client must cost
// little.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// RefusedError is an ERR reply: the server has understood and refused.
type RefusedError struct{ Reply string }

// Error returns the reply.
func (e *RefusedError) Error() string { return "refused: " + e.Reply }

// Job is what a FETCH delivers.
type Job struct {
	ID       uint64
	Payload  string // without its quotes
	Failures int
}

// Dial connects.
func Dial(addr string) (*Client, error) {
	conn, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, in: bufio.NewReaderSize(conn, 4<<10)}, nil
}

// Close hangs up.
func (c *Client) Close() error { return c.conn.Close() }

// Queue appends a request line to what the next Send writes.
func (c *Client) Queue(line string) {
	c.out = append(c.out, line...)
	c.out = append(c.out, '\n')
}

// QueuePush appends a PUSH.
func (c *Client) QueuePush(queue, payload string) {
	c.out = append(c.out, `PUSH {"name":"t","queue":"`...)
	c.out = append(c.out, queue...)
	c.out = append(c.out, `","payload":"`...)
	c.out = append(c.out, payload...)
	c.out = append(c.out, "\"}\n"...)
}

// QueueFetch appends a FETCH.
func (c *Client) QueueFetch(queue string, wait time.Duration) {
	c.out = append(c.out, `FETCH {"queues":["`...)
	c.out = append(c.out, queue...)
	c.out = append(c.out, `"],"timeout":`...)
	c.out = strconv.AppendInt(c.out, max(1, wait.Nanoseconds()), 10)
	c.out = append(c.out, "}\n"...)
}

// QueueAck appends an ACK.
func (c *Client) QueueAck(id uint64) { c.queueID("ACK", id) }

// QueueNack appends a NACK.
func (c *Client) QueueNack(id uint64) { c.queueID("NACK", id) }

func (c *Client) queueID(verb string, id uint64) {
	c.out = append(c.out, verb...)
	c.out = append(c.out, ` {"id":`...)
	c.out = strconv.AppendUint(c.out, id, 10)
	c.out = append(c.out, "}\n"...)
}

// Send writes what was queued, with one write, and allows the server wait before
// it must begin to answer.
func (c *Client) Send(wait time.Duration) error {
	if err := c.conn.SetDeadline(time.Now().Add(wait + Patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

// Reply reads one reply line, without its end. It is valid until the next one.
func (c *Client) Reply() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		head := bytes.Clone(line)
		line, err = c.in.ReadBytes('\n')
		line = append(head, line...)
	}
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	if bytes.HasPrefix(line, []byte("ERR")) {
		return nil, &RefusedError{Reply: string(line)}
	}
	return line, nil
}

// AwaitReply returns when the first byte of a reply has come, and reads nothing.
func (c *Client) AwaitReply() error {
	_, err := c.in.Peek(1)
	return err
}

// Do sends one line and returns its reply.
func (c *Client) Do(line string) (string, error) {
	c.Queue(line)
	if err := c.Send(0); err != nil {
		return "", err
	}
	reply, err := c.Reply()
	return string(reply), err
}

// Push pushes a job and returns its id.
func (c *Client) Push(queue, payload string) (uint64, error) {
	c.QueuePush(queue, payload)
	if err := c.Send(0); err != nil {
		return 0, err
	}
	return c.ReplyID()
}

// ReplyID reads the reply to a PUSH.
func (c *Client) ReplyID() (uint64, error) {
	reply, err := c.Reply()
	if err != nil {
		return 0, err
	}
	return number(reply, `"id":`)
}

// Fetch asks for a job and waits for it; without one it answers false.
func (c *Client) Fetch(queue string, wait time.Duration) (Job, bool, error) {
	c.QueueFetch(queue, wait)
	if err := c.Send(wait); err != nil {
		return Job{}, false, err
	}
	return c.ReplyJob()
}

// ReplyJob reads the reply to a FETCH.
func (c *Client) ReplyJob() (Job, bool, error) {
	reply, err := c.Reply()
	switch {
	case err != nil:
		return Job{}, false, err
	case bytes.HasPrefix(reply, []byte("EMPTY")):
		return Job{}, false, nil
	}
	var j Job
	if j.ID, err = number(reply, `"id":`); err != nil {
		return Job{}, false, err
	}
	if _, rest, ok := bytes.Cut(reply, []byte(`"payload":"`)); ok {
		payload, tail, _ := bytes.Cut(rest, []byte(`"`))
		j.Payload, reply = string(payload), tail
	}
	if bytes.Contains(reply, []byte(`"failures":`)) {
		n, err := number(reply, `"failures":`)
		if err != nil {
			return Job{}, false, err
		}
		j.Failures = int(n) //nolint:gosec // a small counter
	}
	return j, true, nil
}

// Ack acknowledges a job.
func (c *Client) Ack(id uint64) error {
	c.QueueAck(id)
	return c.settle()
}

// Nack gives a job back as failed.
func (c *Client) Nack(id uint64) error {
	c.QueueNack(id)
	return c.settle()
}

func (c *Client) settle() error {
	if err := c.Send(0); err != nil {
		return err
	}
	_, err := c.Reply()
	return err
}

// number reads the digits behind a member's name.
func number(reply []byte, member string) (uint64, error) {
	_, rest, ok := bytes.Cut(reply, []byte(member))
	if !ok {
		return 0, fmt.Errorf("reply %q has no %s", reply, member)
	}
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	return strconv.ParseUint(string(rest[:n]), 10, 64)
}
