package torture

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// lmstfyClient speaks LMSTFY: HTTP/1.1 on one connection, written and read by hand.
type lmstfyClient struct {
	*link
	// lease is how long a fetch holds a job; zero means lmstfyLease.
	lease time.Duration
}

// lmstfyLease is how long jobs are held that are consumed through LMSTFY.
const lmstfyLease = 5 * time.Second

// do sends a request and returns the status and the body of the response.
func (c *lmstfyClient) do(wait time.Duration, method, path, body string) (int, string, error) {
	c.printf("%s /api/default/%s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	if body != "" {
		c.printf("Content-Length: %d\r\n", len(body))
	}
	c.printf("\r\n%s", body)
	if err := c.send(wait); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // the body has been read to its end
	var b strings.Builder
	buf := make([]byte, 4<<10)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			if err.Error() != "EOF" {
				return 0, "", err
			}
			return resp.StatusCode, b.String(), nil
		}
	}
}

// want is an error unless the status is the one wanted.
func want(wanted, status int, text string, err error) error {
	if err == nil && status != wanted {
		err = &refusedError{fmt.Sprintf("status %d: %s", status, text)}
	}
	return err
}

func (c *lmstfyClient) push(queue string, tokens ...string) error {
	bodies := make([]string, len(tokens))
	for i, t := range tokens {
		bodies[i] = `"` + bodyOf(t) + `"`
	}
	path, body := queue, bodies[0]
	if len(tokens) > 1 {
		path, body = queue+"/bulk", "["+strings.Join(bodies, ",")+"]"
	}
	status, text, err := c.do(0, http.MethodPut, path+"?tries=65535", body)
	return want(http.StatusCreated, status, text, err)
}

func (c *lmstfyClient) fetch(queue string, wait time.Duration) (delivery, bool, error) {
	lease := c.lease
	if lease == 0 {
		lease = lmstfyLease
	}
	timeout := int(wait.Seconds())
	if wait > 0 {
		timeout = max(timeout, 1) // it counts in seconds
	}
	status, text, err := c.do(wait, http.MethodGet, fmt.Sprintf("%s?ttr=%d&timeout=%d", queue, int(lease.Seconds()), timeout), "")
	if err == nil && status == http.StatusNotFound {
		return delivery{}, false, nil
	}
	if err := want(http.StatusOK, status, text, err); err != nil {
		return delivery{}, false, err
	}
	var d delivery
	if d.id, err = member(text, "job_id"); err != nil {
		return d, false, err
	}
	data, err := member(text, "data")
	if err != nil {
		return d, false, err
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return d, false, err
	}
	d.body, err = quoted(string(raw))
	return d, err == nil, err
}

func (c *lmstfyClient) ack(queue, id string) error {
	status, text, err := c.do(0, http.MethodDelete, queue+"/job/"+id, "")
	return want(http.StatusNoContent, status, text, err)
}

// fail does nothing: here a job fails when its time to run has ended.
func (c *lmstfyClient) fail(string, string) error { return nil }

// ready returns the number of ready jobs of a queue.
func (c *lmstfyClient) ready(queue string) (int, error) {
	status, text, err := c.do(0, http.MethodGet, queue+"/size", "")
	if err := want(http.StatusOK, status, text, err); err != nil {
		return 0, err
	}
	n, err := member(text, "size")
	if err != nil {
		return 0, err
	}
	return count(n)
}
