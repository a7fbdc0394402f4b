// Package lmstfytest is a small LMSTFY client for tests: that of internal/wire, with
// calls for all that the protocol has.
package lmstfytest

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millrace/internal/wire"
)

// ErrEmpty means that no job was available.
const ErrEmpty = wire.RefusedError(`404 Not Found: {"msg":"no job available"}`)

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

// Client is a connection, with calls for all that the protocol has.
type Client struct{ *wire.Lmstfy }

// New returns a client on a connection. The token, if it is not empty, goes with every request.
func New(conn net.Conn, namespace, token string) *Client {
	o := wire.Options{Namespace: namespace, Secret: token}
	c, _ := wire.As[*wire.Lmstfy](wire.New("lmstfy", conn, o)) // without a handshake it cannot fail
	return &Client{c}
}

// Dial connects to a server.
func Dial(addr, namespace, token string) (*Client, error) {
	c, err := wire.As[*wire.Lmstfy](wire.Dial("lmstfy", wire.Options{Addr: addr, Namespace: namespace, Secret: token}))
	return &Client{c}, err
}

// Publish publishes a job with a query such as "tries=3" and returns its id.
func (c *Client) Publish(queue, query string, body []byte) (id string, err error) {
	var answer struct {
		ID string `json:"job_id"`
	}
	err = c.Call(http.MethodPut, queue+"?"+query, body, http.StatusCreated, &answer)
	return answer.ID, err
}

// PublishBulk publishes jobs in JSON and returns their ids.
func (c *Client) PublishBulk(queue string, jobs ...string) (ids []string, err error) {
	var answer struct {
		IDs []string `json:"job_ids"`
	}
	array := "[" + strings.Join(jobs, ",") + "]"
	err = c.Call(http.MethodPut, queue+"/bulk", []byte(array), http.StatusCreated, &answer)
	return answer.IDs, err
}

// Consume takes one job of the queues, or returns ErrEmpty. Times are whole seconds,
// parts of one count as one.
func (c *Client) Consume(queues string, ttr, timeout time.Duration) (j Job, err error) {
	err = c.Call(http.MethodGet, queues+"?ttr="+wholeSeconds(ttr)+"&timeout="+wholeSeconds(timeout), nil,
		http.StatusOK, &j)
	return j, err
}

// ConsumeMany takes up to count jobs, which must be at least two, for no time at all, or returns ErrEmpty.
func (c *Client) ConsumeMany(queues string, count int) (jobs []Job, err error) {
	err = c.Call(http.MethodGet, queues+"?ttr=0&timeout=0&count="+strconv.Itoa(count), nil, http.StatusOK, &jobs)
	return jobs, err
}

func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Delete deletes a job.
func (c *Client) Delete(queue, id string) error {
	return c.Call(http.MethodDelete, queue+"/job/"+url.PathEscape(id), nil, http.StatusNoContent, nil)
}

// PeekJob shows a job.
func (c *Client) PeekJob(queue, id string) (j Job, err error) {
	err = c.Call(http.MethodGet, queue+"/job/"+url.PathEscape(id), nil, http.StatusOK, &j)
	return j, err
}

// Size returns the number of ready jobs.
func (c *Client) Size(queue string) (int, error) {
	var answer struct {
		Size int `json:"size"`
	}
	err := c.Call(http.MethodGet, queue+"/size", nil, http.StatusOK, &answer)
	return answer.Size, err
}

// DeadLetter returns the number of dead jobs and the first of them.
func (c *Client) DeadLetter(queue string) (size int, head string, err error) {
	var answer struct {
		Size int    `json:"deadletter_size"`
		Head string `json:"deadletter_head"`
	}
	err = c.Call(http.MethodGet, queue+"/deadletter", nil, http.StatusOK, &answer)
	return answer.Size, answer.Head, err
}

// Respawn makes dead jobs ready again and returns how many.
func (c *Client) Respawn(queue, query string) (int, error) {
	var answer struct {
		Count int `json:"count"`
	}
	err := c.Call(http.MethodPut, queue+"/deadletter?"+query, nil, http.StatusOK, &answer)
	return answer.Count, err
}
