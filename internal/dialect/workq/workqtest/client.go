// Package workqtest is a small Workq client for tests: of the protocol, of the
// cross-protocol matrix and of the whole server.
package workqtest

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// The errors that the protocol has codes for.
var (
	ErrTimeout  = errors.New("TIMEOUT")
	ErrNotFound = errors.New("NOT-FOUND")
)

// ServerError is any other error line, without its hyphen.
type ServerError struct{ Line string }

// Error returns the line.
func (e *ServerError) Error() string { return e.Line }

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

// Client is a connection. It is for one goroutine at a time.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
}

// New returns a client on a connection.
func New(conn net.Conn) *Client { return &Client{conn: conn, r: bufio.NewReader(conn)} }

// Dial connects to a server.
func Dial(addr string) (*Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial workq: %w", err)
	}
	return New(conn), nil
}

// NewID returns a random UUID of version 4.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Line reads one line without its CR LF.
func (c *Client) Line() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("receive: %w", err)
	}
	line, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return "", fmt.Errorf("line %q does not end in CR LF", line)
	}
	return line, nil
}

// Call sends a command with its block, if it has one, and returns the first line
// of the reply.
func (c *Client) Call(line string, block ...[]byte) (string, error) {
	data := []byte(line + "\r\n")
	for _, b := range block {
		data = append(append(data, b...), "\r\n"...)
	}
	if _, err := c.conn.Write(data); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	reply, err := c.Line()
	switch {
	case err != nil:
		return "", err
	case reply == "-TIMEOUT":
		return "", ErrTimeout
	case reply == "-NOT-FOUND":
		return "", ErrNotFound
	case strings.HasPrefix(reply, "-"):
		return "", &ServerError{reply[1:]}
	case !strings.HasPrefix(reply, "+OK"):
		return "", fmt.Errorf("reply %q", reply)
	}
	return reply, nil
}

// item reads a line of words whose last is the size of the block that follows.
func (c *Client) item(words int) (line []string, block []byte, err error) {
	text, err := c.Line()
	if err != nil {
		return nil, nil, err
	}
	line = strings.Split(text, " ")
	size, err := strconv.Atoi(line[len(line)-1])
	if err != nil || len(line) != words || size < 0 {
		return nil, nil, fmt.Errorf("item %q: %w", text, errors.Join(err, errors.New("malformed")))
	}
	block = make([]byte, size+2)
	if _, err := io.ReadFull(c.r, block); err != nil {
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
	_, err := c.Call(command("add", j, ms(j.TTL)), j.Payload)
	return err
}

// Schedule adds a job for later.
func (c *Client) Schedule(j Job) error {
	_, err := c.Call(command("schedule", j, ms(j.TTL), j.Time.UTC().Format("2006-01-02T15:04:05Z")), j.Payload)
	return err
}

// Run runs a job and waits for its result.
func (c *Client) Run(j Job, wait time.Duration) (Result, error) {
	if _, err := c.Call(command("run", j, ms(wait)), j.Payload); err != nil {
		return Result{}, err
	}
	return c.result(j.ID)
}

// Result waits for the result of a job.
func (c *Client) Result(id string, wait time.Duration) (Result, error) {
	if _, err := c.Call("result " + id + " " + ms(wait)); err != nil {
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
	if _, err := c.Call("lease " + strings.Join(names, " ") + " " + ms(wait)); err != nil {
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
	_, err := c.Call("complete "+id+" "+strconv.Itoa(len(result)), result)
	return err
}

// Fail ends a job without success.
func (c *Client) Fail(id string, result []byte) error {
	_, err := c.Call("fail "+id+" "+strconv.Itoa(len(result)), result)
	return err
}

// Delete removes a job.
func (c *Client) Delete(id string) error {
	_, err := c.Call("delete " + id)
	return err
}

// Item is one thing that inspect shows.
type Item struct {
	Label string
	Keys  map[string]string
}

// Inspect returns the items of an inspect command, given without that word. The
// payload of a job is read by its size.
func (c *Client) Inspect(what string) ([]Item, error) {
	reply, err := c.Call("inspect " + what)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(reply, "+OK "))
	if err != nil {
		return nil, fmt.Errorf("reply %q: %w", reply, err)
	}
	items := make([]Item, 0, min(n, 100))
	for range n {
		item, err := c.inspectItem()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (c *Client) inspectItem() (Item, error) {
	header, err := c.Line()
	if err != nil {
		return Item{}, err
	}
	label, count, _ := strings.Cut(header, " ")
	keys, err := strconv.Atoi(count)
	if err != nil {
		return Item{}, fmt.Errorf("header %q: %w", header, err)
	}
	item := Item{Label: label, Keys: make(map[string]string)}
	for range keys {
		key, value, err := c.inspectKey(item.Keys["payload-size"])
		if err != nil {
			return Item{}, err
		}
		item.Keys[key] = value
	}
	return item, nil
}

// inspectKey reads one key and its value. A payload is as long as the key before
// it has said.
func (c *Client) inspectKey(size string) (key, value string, err error) {
	if key, err = c.r.ReadString(' '); err != nil {
		return "", "", fmt.Errorf("receive a key: %w", err)
	}
	key = strings.TrimSuffix(key, " ")
	if key != "payload" {
		value, err = c.Line()
		return key, value, err
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		return "", "", fmt.Errorf("payload-size: %w", err)
	}
	block := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, block); err != nil {
		return "", "", fmt.Errorf("receive a payload: %w", err)
	}
	return key, string(block[:n]), nil
}
