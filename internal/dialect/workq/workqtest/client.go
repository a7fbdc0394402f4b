// Package workqtest is a small Workq client for tests: that of internal/wire, with
// calls for all that the protocol has.
package workqtest

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

// The errors that the protocol has codes for.
const (
	ErrTimeout  = wire.RefusedError("TIMEOUT")
	ErrNotFound = wire.RefusedError("NOT-FOUND")
)

// Job is a job to add or schedule, or one that was leased.
type Job struct {
	ID      string
	Name    string
	TTR     time.Duration
	TTL     time.Duration
	Time    time.Time // schedule
	Flags   string    // "-priority=1 -max-fails=2"
	Payload []byte
}

// Result is the outcome of a job.
type Result struct {
	Success bool
	Bytes   []byte
}

// Client is a connection, with calls for all that the protocol has.
type Client struct{ *wire.Workq }

// New returns a client on a connection.
func New(conn net.Conn) *Client {
	c, _ := wire.As[*wire.Workq](wire.New("workq", conn, wire.Options{})) // without a handshake it cannot fail
	return &Client{c}
}

// Dial connects to a server.
func Dial(addr string) (*Client, error) {
	c, err := wire.As[*wire.Workq](wire.Dial("workq", wire.Options{Addr: addr}))
	return &Client{c}, err
}

// NewID returns a UUID that nobody else has.
func NewID() string { return wire.NewID() }

// item reads a line of words whose last is the size of the block that follows.
func (c *Client) item(words int) (line []string, block []byte, err error) {
	text, err := c.Reader().ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	line = strings.Split(strings.TrimSuffix(text, "\r\n"), " ")
	size, err := strconv.Atoi(line[len(line)-1])
	if err != nil || len(line) != words || size < 0 {
		return nil, nil, fmt.Errorf("item %q: %w", text, errors.Join(err, errors.New("malformed")))
	}
	block = make([]byte, size+2)
	if _, err := io.ReadFull(c.Reader(), block); err != nil {
		return nil, nil, fmt.Errorf("receive a block: %w", err)
	}
	if string(block[size:]) != "\r\n" {
		return nil, nil, fmt.Errorf("block of %q ends in %q", text, block[size:])
	}
	return line, block[:size], nil
}

// command returns the first line of a command that makes a job.
func command(verb string, j Job, times ...string) string {
	words := append([]string{verb, j.ID, j.Name, ms(j.TTR)}, times...)
	words = append(words, strconv.Itoa(len(j.Payload)))
	if j.Flags != "" {
		words = append(words, j.Flags)
	}
	return strings.Join(words, " ")
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Add adds a job.
func (c *Client) Add(j Job) error {
	_, err := c.Call(0, command("add", j, ms(j.TTL)), string(j.Payload))
	return err
}

// Schedule adds a job for later.
func (c *Client) Schedule(j Job) error {
	at := j.Time.UTC().Format("2006-01-02T15:04:05Z")
	_, err := c.Call(0, command("schedule", j, ms(j.TTL), at), string(j.Payload))
	return err
}

// Run runs a job and waits for its result.
func (c *Client) Run(j Job, wait time.Duration) (Result, error) {
	if _, err := c.Call(wait, command("run", j, ms(wait)), string(j.Payload)); err != nil {
		return Result{}, err
	}
	return c.result(j.ID)
}

// Result waits for the result of a job.
func (c *Client) Result(id string, wait time.Duration) (Result, error) {
	if _, err := c.Call(wait, "result "+id+" "+ms(wait)); err != nil {
		return Result{}, err
	}
	return c.result(id)
}

func (c *Client) result(id string) (Result, error) {
	line, block, err := c.item(3)
	if err != nil {
		return Result{}, err
	}
	if line[0] != id {
		return Result{}, fmt.Errorf("result of %q, not of %q", line[0], id)
	}
	return Result{Success: line[1] == "1", Bytes: block}, nil
}

// Lease waits for a job of one of the names.
func (c *Client) Lease(wait time.Duration, names ...string) (Job, error) {
	if _, err := c.Call(wait, "lease "+strings.Join(names, " ")+" "+ms(wait)); err != nil {
		return Job{}, err
	}
	line, block, err := c.item(4)
	if err != nil {
		return Job{}, err
	}
	ttr, err := strconv.ParseInt(line[2], 10, 64)
	if err != nil {
		return Job{}, fmt.Errorf("ttr: %w", err)
	}
	return Job{ID: line[0], Name: line[1], TTR: time.Duration(ttr) * time.Millisecond, Payload: block}, nil
}

// Complete ends a job with success.
func (c *Client) Complete(id string, result []byte) error {
	_, err := c.Call(0, "complete "+id+" "+strconv.Itoa(len(result)), string(result))
	return err
}

// Fail ends a job without success.
func (c *Client) Fail(id string, result []byte) error {
	_, err := c.Call(0, "fail "+id+" "+strconv.Itoa(len(result)), string(result))
	return err
}

// Delete removes a job.
func (c *Client) Delete(id string) error {
	_, err := c.Call(0, "delete "+id)
	return err
}
