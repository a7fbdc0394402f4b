// Package lmstfytest is a small LMSTFY client for tests: of the protocol, of the
// cross-protocol matrix and of the whole server. It speaks HTTP on one connection, so that it works on a
// connection in memory.
package lmstfytest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrEmpty means that no job was available.
var ErrEmpty = errors.New("no job available")

// StatusError is an answer with a code that was not expected.
type StatusError struct {
	Code int
	Body string
}

// Error returns the code and the body.
func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Body) }

// Job is a job as it is consumed or peeked at.
type Job struct {
	Namespace   string            `json:"namespace"`
	Queue       string            `json:"queue"`
	ID          string            `json:"job_id"`
	Data        string            `json:"data"`
	TTL         int64             `json:"ttl"`
	ElapsedMS   int64             `json:"elapsed_ms"`
	RemainTries int               `json:"remain_tries"`
	Attributes  map[string]string `json:"attributes"`
}

// Body returns the decoded data.
func (j *Job) Body() ([]byte, error) { return base64.StdEncoding.DecodeString(j.Data) }

// Client is a connection. It is for one goroutine at a time.
type Client struct {
	// Namespace and Token go with every request.
	Namespace string
	Token     string

	conn net.Conn
	r    *bufio.Reader
}

// New returns a client on a connection.
func New(conn net.Conn, namespace string) *Client {
	return &Client{Namespace: namespace, conn: conn, r: bufio.NewReader(conn)}
}

// Dial connects to a server.
func Dial(addr, namespace string) (*Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial lmstfy: %w", err)
	}
	return New(conn, namespace), nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Append appends a request as it goes over the wire.
func Append(b []byte, method, target, token string, body []byte) []byte {
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, target)
	if token != "" {
		b = fmt.Appendf(b, "X-Token: %s\r\n", token)
	}
	if len(body) > 0 || method == http.MethodPut {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(body))
	}
	b = append(b, "\r\n"...)
	return append(b, body...)
}

// Do sends a request and returns the whole answer.
func (c *Client) Do(method, target string, body []byte) (code int, answer []byte, err error) {
	if _, err := c.conn.Write(Append(nil, method, target, c.Token, body)); err != nil {
		return 0, nil, fmt.Errorf("send: %w", err)
	}
	return ReadAnswer(c.r, method)
}

// ReadAnswer reads the answer to a request of the method.
func ReadAnswer(r *bufio.Reader, method string) (code int, answer []byte, err error) {
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	answer, err = io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, nil, fmt.Errorf("receive a body: %w", err)
	}
	return resp.StatusCode, answer, nil
}

// Path returns the path of something in the client's namespace.
func (c *Client) Path(rest string) string { return "/api/" + c.Namespace + "/" + rest }

// call sends a request and decodes the answer if it has the code that is expected.
func (c *Client) call(method, rest string, body []byte, want int, into any) error {
	code, answer, err := c.Do(method, c.Path(rest), body)
	if err != nil {
		return err
	}
	if code != want {
		return &StatusError{code, string(answer)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("answer %q: %w", answer, err)
	}
	return nil
}

// Publish publishes a job with a query such as "tries=3" and returns its id.
func (c *Client) Publish(queue, query string, body []byte) (id string, err error) {
	var answer struct {
		ID string `json:"job_id"`
	}
	err = c.call(http.MethodPut, queue+"?"+query, body, http.StatusCreated, &answer)
	return answer.ID, err
}

// PublishBulk publishes the elements of a JSON array and returns their ids.
func (c *Client) PublishBulk(queue, query string, array []byte) (ids []string, err error) {
	var answer struct {
		IDs []string `json:"job_ids"`
	}
	err = c.call(http.MethodPut, queue+"/bulk?"+query, array, http.StatusCreated, &answer)
	return answer.IDs, err
}

// Consume takes one job of the queues, or returns ErrEmpty. Times are whole seconds,
// parts of one count as one.
func (c *Client) Consume(queues string, ttr, timeout time.Duration) (Job, error) {
	var j Job
	err := c.call(http.MethodGet, queues+"?ttr="+wholeSeconds(ttr)+"&timeout="+wholeSeconds(timeout), nil,
		http.StatusOK, &j)
	return j, empty(err)
}

// ConsumeMany takes up to count jobs, which must be at least two, or returns ErrEmpty.
func (c *Client) ConsumeMany(queues string, ttr, timeout time.Duration, count int) (jobs []Job, err error) {
	query := "?ttr=" + wholeSeconds(ttr) + "&timeout=" + wholeSeconds(timeout) + "&count=" + strconv.Itoa(count)
	return jobs, empty(c.call(http.MethodGet, queues+query, nil, http.StatusOK, &jobs))
}

func empty(err error) error {
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusNotFound &&
		status.Body == `{"msg":"no job available"}` {
		return ErrEmpty
	}
	return err
}

func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Delete deletes a job.
func (c *Client) Delete(queue, id string) error {
	return c.call(http.MethodDelete, queue+"/job/"+url.PathEscape(id), nil, http.StatusNoContent, nil)
}

// PeekJob shows a job.
func (c *Client) PeekJob(queue, id string) (j Job, err error) {
	return j, c.call(http.MethodGet, queue+"/job/"+url.PathEscape(id), nil, http.StatusOK, &j)
}

// Size returns the number of ready jobs.
func (c *Client) Size(queue string) (int, error) {
	var answer struct {
		Size int `json:"size"`
	}
	err := c.call(http.MethodGet, queue+"/size", nil, http.StatusOK, &answer)
	return answer.Size, err
}

// DeadLetter returns the number of dead jobs and the first of them.
func (c *Client) DeadLetter(queue string) (size int, head string, err error) {
	var answer struct {
		Size int    `json:"deadletter_size"`
		Head string `json:"deadletter_head"`
	}
	err = c.call(http.MethodGet, queue+"/deadletter", nil, http.StatusOK, &answer)
	return answer.Size, answer.Head, err
}

// Respawn makes dead jobs ready again and returns how many.
func (c *Client) Respawn(queue, query string) (int, error) {
	var answer struct {
		Count int `json:"count"`
	}
	err := c.call(http.MethodPut, queue+"/deadletter?"+query, nil, http.StatusOK, &answer)
	return answer.Count, err
}

// JSONArray returns the texts as the elements of an array.
func JSONArray(elements ...string) []byte {
	var b bytes.Buffer
	for i, e := range elements {
		b.WriteByte("[,"[min(i, 1)])
		b.WriteString(e)
	}
	b.WriteByte(']')
	return b.Bytes()
}
