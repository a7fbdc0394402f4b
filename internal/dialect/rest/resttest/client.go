// Package resttest is a small client of the operator API's calls for workers, for tests. It speaks HTTP on one
// connection, so that it works on a connection in memory.
package resttest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrEmpty means that no job was available.
var ErrEmpty = errors.New("no job available")

// Job is what a push or a fetch tells about a job, as far as the tests need it.
type Job struct {
	ID    uint64 `json:"id"`
	Queue string `json:"queue"`
	State string `json:"state"`
	Body  struct {
		Base64    []byte `json:"base64"`
		Truncated bool   `json:"truncated"`
	} `json:"body"`
}

// Client is a connection. It is for one goroutine at a time.
type Client struct {
	Namespace string
	holder    string // who fetches
	conn      net.Conn
	r         *bufio.Reader
}

// New returns a client on a connection.
func New(conn net.Conn, namespace string) *Client {
	return &Client{Namespace: namespace, conn: conn, r: bufio.NewReader(conn)}
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Append appends a request as it goes over the wire. What lies below the namespace is the path.
func Append(b []byte, method, namespace, path string, in any) []byte {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			panic(err) // the tests pass maps
		}
	}
	b = fmt.Appendf(b, "%s /api/v1/namespaces/%s%s HTTP/1.1\r\nHost: localhost\r\n", method, url.PathEscape(namespace),
		path)
	if in != nil {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// ReadAnswer reads the answer to a request.
func ReadAnswer(r *bufio.Reader) (code int, answer []byte, err error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}

// call sends a request and decodes the answer.
func (c *Client) call(method, path string, in, out any) error {
	if _, err := c.conn.Write(Append(nil, method, c.Namespace, path, in)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	code, answer, err := ReadAnswer(c.r)
	switch {
	case err != nil:
		return err
	case code >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: status %d: %s", method, path, code, answer)
	}
	return json.Unmarshal(answer, out)
}

// PushRequest returns what pushes one job; fields are those of the job beside its body.
func PushRequest(body []byte, fields map[string]any) any {
	j := map[string]any{"body_base64": body}
	maps.Copy(j, fields)
	return map[string]any{"jobs": []any{j}}
}

// Push pushes a job.
func (c *Client) Push(queue string, body []byte, fields map[string]any) error {
	var out struct{}
	return c.call(http.MethodPost, "/queues/"+url.PathEscape(queue)+"/jobs", PushRequest(body, fields), &out)
}

// FetchRequest returns what fetches a job.
func FetchRequest(queue string, wait time.Duration, holder string) any {
	return map[string]any{"queues": []string{queue}, "wait_seconds": wait.Seconds(), "holder": holder}
}

// Fetch fetches a job, or returns ErrEmpty.
func (c *Client) Fetch(queue string, wait time.Duration) (Job, error) {
	var work struct {
		Holder string `json:"holder"`
		Jobs   []Job  `json:"jobs"`
	}
	if err := c.call(http.MethodPost, "/fetch", FetchRequest(queue, wait, c.holder), &work); err != nil {
		return Job{}, err
	}
	c.holder = work.Holder
	if len(work.Jobs) == 0 {
		return Job{}, ErrEmpty
	}
	return work.Jobs[0], nil
}

// Settle acks, fails, extends or releases a job that was fetched, and returns its state.
func (c *Client) Settle(verb, queue string, id uint64) (state string, err error) {
	var j Job
	err = c.call(http.MethodPost, fmt.Sprintf("/jobs/%d/%s", id, verb),
		map[string]any{"queue": queue, "holder": c.holder}, &j)
	return j.State, err
}

// Get shows a job.
func (c *Client) Get(queue string, id uint64) (j Job, err error) {
	return j, c.call(http.MethodGet, fmt.Sprintf("/jobs/%d?queue=%s", id, url.QueryEscape(queue)), nil, &j)
}

// Counts returns how many jobs of each state a queue has; none if it is not there.
func (c *Client) Counts(queue string) (map[string]int, error) {
	if _, err := c.conn.Write(Append(nil, http.MethodGet, c.Namespace, "/queues/"+url.PathEscape(queue), nil)); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	code, answer, err := ReadAnswer(c.r)
	switch {
	case err != nil || code == http.StatusNotFound:
		return nil, err
	case code != http.StatusOK:
		return nil, fmt.Errorf("status %d: %s", code, answer)
	}
	var q struct {
		Counts map[string]int `json:"counts"`
	}
	return q.Counts, json.Unmarshal(answer, &q)
}
