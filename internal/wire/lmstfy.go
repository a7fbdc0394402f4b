package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Lmstfy speaks LMSTFY, which is HTTP.
type Lmstfy struct {
	httpLink
	// Lease is how long a fetch holds a job.
	Lease time.Duration
	path  string // of the namespace
	id    []byte // of the job consumed last
}

const (
	lmstfyLease = time.Minute
	// lmstfyTries is how often a job is delivered that says nothing about it.
	lmstfyTries = 3
)

func newLmstfy(l *link, o Options) (Client, error) {
	headers := " HTTP/1.1\r\nHost: localhost\r\n"
	if o.Secret != "" {
		headers += "X-Token: " + o.Secret + "\r\n"
	}
	h := httpLink{link: l, headers: headers}
	return &Lmstfy{httpLink: h, Lease: lmstfyLease, path: " /api/" + o.Namespace + "/"}, nil
}

// Push implements Client. Several jobs have the wishes of the first, and their bodies are JSON.
func (c *Lmstfy) Push(queue string, jobs ...Job) error {
	c.add("PUT", c.path, queue)
	if len(jobs) > 1 {
		c.add("/bulk")
	}
	c.addQuery(&jobs[0])
	if len(jobs) == 1 {
		status, err := c.finish(0, jobs[0].Body)
		return c.wants(http.StatusCreated, status, err)
	}
	c.body = append(c.body[:0], '[')
	for i := range jobs {
		if i > 0 {
			c.body = append(c.body, ',')
		}
		c.body = append(c.body, jobs[i].Body...)
	}
	c.body = append(c.body, ']')
	status, err := c.finish(0, c.body)
	return c.wants(http.StatusCreated, status, err)
}

func (c *Lmstfy) addQuery(j *Job) {
	tries := j.Tries
	if tries == 0 {
		tries = lmstfyTries
	}
	c.add("?tries=")
	c.out = strconv.AppendInt(c.out, int64(tries), 10)
	if j.Delay > 0 {
		c.out = fmt.Appendf(c.out, "&delay=%d", seconds(j.Delay))
	}
	if j.TTL > 0 {
		c.out = fmt.Appendf(c.out, "&ttl=%d", seconds(j.TTL))
	}
	if j.Group != "" {
		c.add("&group=", j.Group)
	}
}

// Fetch implements Client.
func (c *Lmstfy) Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error) {
	c.add("GET", c.path, queue, "?ttr=")
	c.out = strconv.AppendInt(c.out, seconds(c.Lease), 10)
	c.add("&timeout=")
	c.out = strconv.AppendInt(c.out, seconds(wait), 10)
	status, err := c.finish(wait+time.Second, nil)
	if err == nil && status == http.StatusNotFound {
		return j, false, nil
	}
	if err := c.wants(http.StatusOK, status, err); err != nil {
		return j, false, err
	}
	id, err := between(c.answer, `"job_id":"`, '"')
	if err != nil {
		return j, false, err
	}
	c.id = append(c.id[:0], id...)
	data, err := between(c.answer, `"data":"`, '"')
	if err != nil {
		return j, false, err
	}
	c.body, err = base64.StdEncoding.AppendDecode(c.body[:0], data)
	return Fetched{c.id, c.body}, err == nil, err
}

// Ack implements Client.
func (c *Lmstfy) Ack(queue string, id []byte) error {
	c.add("DELETE", c.path, queue, "/job/")
	c.out = append(c.out, id...)
	status, err := c.finish(0, nil)
	return c.wants(http.StatusNoContent, status, err)
}

// Fail implements Client. It does nothing: here a job fails when its time to run has ended.
func (*Lmstfy) Fail(string, []byte) error { return nil }

// Call sends a request to something in the namespace and decodes the answer, which must have a status.
func (c *Lmstfy) Call(method, path string, body []byte, want int, into any) error {
	c.add(method, c.path, path)
	status, err := c.finish(0, body)
	if err := c.wants(want, status, err); err != nil || into == nil {
		return err
	}
	return json.Unmarshal(c.answer, into)
}

// Look implements Client.
func (c *Lmstfy) Look(queue string) (Sight, error) {
	var answer struct {
		Ready int `json:"size"`
		Dead  int `json:"deadletter_size"`
	}
	err := c.Call(http.MethodGet, queue+"/size", nil, http.StatusOK, &answer)
	if err == nil {
		err = c.Call(http.MethodGet, queue+"/deadletter", nil, http.StatusOK, &answer)
	}
	return Sight{Ready: answer.Ready, Delayed: Untold, Held: Untold, Dead: answer.Dead}, err
}
