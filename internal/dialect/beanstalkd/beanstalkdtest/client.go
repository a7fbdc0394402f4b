// Package beanstalkdtest is a small beanstalkd client for tests: of the protocol, of the
// cross-protocol matrix and of the whole server.
package beanstalkdtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// The replies that callers tell apart.
var (
	ErrTimedOut = errors.New("TIMED_OUT")
	ErrNotFound = errors.New("NOT_FOUND")
	ErrDeadline = errors.New("DEADLINE_SOON")
)

// ReplyError is any other reply that is not the one expected.
type ReplyError struct{ Line string }

// Error returns the line.
func (e *ReplyError) Error() string { return e.Line }

// Job is a job to put, or one that was reserved or found.
type Job struct {
	ID       uint64
	Priority uint32
	Delay    time.Duration
	TTR      time.Duration
	Body     []byte
}

// Client is a connection. It is for one goroutine at a time.
type Client struct {
	conn    net.Conn
	r       *bufio.Reader
	used    string
	watched string // the one tube that Reserve has chosen
}

// New returns a client on a connection.
func New(conn net.Conn) *Client {
	return &Client{conn: conn, r: bufio.NewReader(conn), used: "default", watched: "default"}
}

// Dial connects to a server.
func Dial(addr string) (*Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial beanstalkd: %w", err)
	}
	return New(conn), nil
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

// Call sends a command with its body, if it has one, and returns what follows the wanted word in the first line of
// the reply.
func (c *Client) Call(want, line string, body ...[]byte) (rest string, err error) {
	data := []byte(line + "\r\n")
	for _, b := range body {
		data = append(append(data, b...), "\r\n"...)
	}
	if _, err := c.conn.Write(data); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	reply, err := c.Line()
	word, rest, _ := strings.Cut(reply, " ")
	switch {
	case err != nil:
		return "", err
	case word == want:
		return rest, nil
	case reply == ErrTimedOut.Error():
		return "", ErrTimedOut
	case reply == ErrNotFound.Error():
		return "", ErrNotFound
	case reply == ErrDeadline.Error():
		return "", ErrDeadline
	}
	return "", &ReplyError{reply}
}

// Data reads what a line has announced.
func (c *Client) Data(size string) ([]byte, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("size %q: %w", size, errors.Join(err, errors.New("malformed")))
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, b); err != nil {
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

// Use has jobs put into a tube.
func (c *Client) Use(tube string) error {
	if tube == c.used {
		return nil
	}
	_, err := c.Call("USING", "use "+tube)
	c.used = tube
	return err
}

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

// Watch watches one tube and no other.
func (c *Client) Watch(tube string) error {
	if tube == c.watched {
		return nil
	}
	if _, err := c.Call("WATCHING", "watch "+tube); err != nil {
		return err
	}
	if _, err := c.Call("WATCHING", "ignore "+c.watched); err != nil {
		return err
	}
	c.watched = tube
	return nil
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

// Stats returns what one of the stats commands tells, without quotes.
func (c *Client) Stats(command string) (map[string]string, error) {
	size, err := c.Call("OK", command)
	if err != nil {
		return nil, err
	}
	data, err := c.Data(size)
	if err != nil {
		return nil, err
	}
	stats := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			stats[key] = strings.Trim(value, `"`)
		}
	}
	return stats, nil
}
