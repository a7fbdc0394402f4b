// Package beanstalkdtest is a small beanstalkd client for tests: that of internal/wire, with
// calls for all that the protocol has.
package beanstalkdtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"millrace/internal/wire"
)

// The replies that callers tell apart.
const (
	ErrTimedOut = wire.RefusedError("TIMED_OUT")
	ErrNotFound = wire.RefusedError("NOT_FOUND")
	ErrDeadline = wire.RefusedError("DEADLINE_SOON")
)

// Job is a job to put, or one that was reserved or found.
type Job struct {
	ID       uint64
	Priority uint32
	Delay    time.Duration
	TTR      time.Duration
	Body     []byte
}

// Client is a connection, with calls for all that the protocol has.
type Client struct{ *wire.Beanstalkd }

// New returns a client on a connection.
func New(conn net.Conn) *Client {
	c, _ := wire.As[*wire.Beanstalkd](wire.New("beanstalkd", conn, wire.Options{})) // it says nothing
	return &Client{c}
}

// Line reads one line without its CR LF.
func (c *Client) Line() (string, error) {
	line, err := c.Reader().ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("receive: %w", err)
	}
	line, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return "", fmt.Errorf("line %q does not end in CR LF", line)
	}
	return line, nil
}

// Call sends a command with its body, if it has one, and returns what follows the wanted word in the first line of
// the reply.
func (c *Client) Call(want, line string, body ...[]byte) (rest string, err error) {
	texts := make([]string, len(body))
	for i, b := range body {
		texts[i] = string(b)
	}
	return c.Beanstalkd.Call(0, want, line, texts...)
}

// Data reads what a line has announced.
func (c *Client) Data(size string) ([]byte, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("size %q: %w", size, errors.Join(err, errors.New("malformed")))
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(c.Reader(), b); err != nil {
		return nil, fmt.Errorf("receive data: %w", err)
	}
	if string(b[n:]) != "\r\n" {
		return nil, fmt.Errorf("data end in %q", b[n:])
	}
	return b[:n], nil
}

// job reads the job whose id and size are told.
func (c *Client) job(rest string) (Job, error) {
	id, size, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return Job{}, fmt.Errorf("id: %w", err)
	}
	body, err := c.Data(size)
	return Job{ID: n, Body: body}, err
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Put puts a job into a tube.
func (c *Client) Put(tube string, j Job) (uint64, error) {
	if err := c.Use(tube); err != nil {
		return 0, err
	}
	line := fmt.Sprintf("put %d %d %d %d", j.Priority, seconds(j.Delay), seconds(j.TTR), len(j.Body))
	rest, err := c.Call("INSERTED", line, j.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(rest, 10, 64)
}

// Reserve waits for a job of a tube.
func (c *Client) Reserve(tube string, wait time.Duration) (Job, error) {
	if err := c.Watch(tube); err != nil {
		return Job{}, err
	}
	rest, err := c.Call("RESERVED", "reserve-with-timeout "+strconv.FormatInt(seconds(wait), 10))
	if err != nil {
		return Job{}, err
	}
	return c.job(rest)
}

// Peek returns a job by its id.
func (c *Client) Peek(id uint64) (Job, error) {
	rest, err := c.Call("FOUND", "peek "+strconv.FormatUint(id, 10))
	if err != nil {
		return Job{}, err
	}
	return c.job(rest)
}

// Delete deletes a job.
func (c *Client) Delete(id uint64) error {
	_, err := c.Call("DELETED", "delete "+strconv.FormatUint(id, 10))
	return err
}

// Release gives a job back.
func (c *Client) Release(id uint64, priority uint32, delay time.Duration) error {
	_, err := c.Call("RELEASED", fmt.Sprintf("release %d %d %d", id, priority, seconds(delay)))
	return err
}

// Bury sets a job aside.
func (c *Client) Bury(id uint64, priority uint32) error {
	_, err := c.Call("BURIED", fmt.Sprintf("bury %d %d", id, priority))
	return err
}
