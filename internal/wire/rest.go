package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Rest speaks the calls of the operator API that producers and workers use, which is HTTP.
type Rest struct {
	httpLink
	path   string // of the namespace
	holder []byte // who fetches
	id     []byte // of the job fetched last, with a space and the holder behind it
}

func newRest(l *link, o Options) (Client, error) {
	headers := " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	switch {
	case strings.Contains(o.Secret, ":"):
		headers += "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(o.Secret)) + "\r\n"
	case o.Secret != "":
		headers += "Authorization: Bearer " + o.Secret + "\r\n"
	}
	return &Rest{httpLink: httpLink{link: l, headers: headers}, path: " /api/v1/namespaces/" + o.Namespace}, nil
}

// Call sends a request to something in the namespace and decodes the answer.
func (c *Rest) Call(method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	c.add(method, c.path, path)
	status, err := c.finish(0, body)
	if err := c.wants(http.StatusOK, status, err); err != nil {
		return err
	}
	return json.Unmarshal(c.answer, out)
}

// Push implements Client.
func (c *Rest) Push(queue string, jobs ...Job) error {
	b := append(c.body[:0], `{"jobs":[`...)
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRest(b, &jobs[i])
	}
	c.body = append(b, "]}"...)
	c.add("POST", c.path, "/queues/", queue, "/jobs")
	status, err := c.finish(0, c.body)
	if err := c.wants(http.StatusOK, status, err); err != nil {
		return err
	}
	if len(jobs) > 1 && !bytes.Contains(c.answer, []byte(`"refused":0`)) {
		return fmt.Errorf("refused: %s", c.answer)
	}
	return nil
}

func appendRest(b []byte, j *Job) []byte {
	b = append(b, `{"body_base64":"`...)
	b = append(base64.StdEncoding.AppendEncode(b, j.Body), '"')
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"priority", float64(j.Level)},
		{"delay_seconds", j.Delay.Seconds()},
		{"ttl_seconds", j.TTL.Seconds()},
		{"lease_seconds", j.Lease.Seconds()},
	} {
		if n.value != 0 {
			b = fmt.Appendf(b, `,%q:%v`, n.name, n.value)
		}
	}
	if j.Tries > 0 {
		b = fmt.Appendf(b, `,"retry":%d`, j.Tries-1)
	}
	if j.Group != "" {
		b = fmt.Appendf(b, `,"group":%q`, j.Group)
	}
	if j.Trace != "" {
		b = fmt.Appendf(b, `,"traceparent":%q`, j.Trace)
	}
	return append(b, '}')
}

// Fetch implements Client.
func (c *Rest) Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error) {
	b := append(c.body[:0], `{"queues":["`...)
	b = append(append(b, queue...), `"],"wait_seconds":`...)
	b = strconv.AppendFloat(b, wait.Seconds(), 'f', -1, 64)
	b = append(append(append(b, `,"holder":"`...), c.holder...), `"}`...)
	c.body = b
	c.add("POST", c.path, "/fetch")
	status, err := c.finish(wait, b)
	if err := c.wants(http.StatusOK, status, err); err != nil {
		return j, false, err
	}
	holder, err := between(c.answer, `{"holder":"`, '"')
	if err != nil {
		return j, false, err
	}
	c.holder = append(c.holder[:0], holder...)
	_, jobs, _ := bytes.Cut(c.answer, []byte(`"jobs":[`))
	if bytes.HasPrefix(jobs, []byte("]")) {
		return j, false, nil
	}
	id, err := between(jobs, `{"id":`, ',')
	if err != nil {
		return j, false, err
	}
	c.id = append(append(append(c.id[:0], id...), ' '), holder...)
	text, err := between(jobs, `"base64":"`, '"')
	if err != nil {
		return j, false, err
	}
	c.body, err = base64.StdEncoding.AppendDecode(c.body[:0], text)
	return Fetched{c.id, c.body}, err == nil, err
}

// Ack implements Client.
func (c *Rest) Ack(queue string, id []byte) error { return c.settle("/ack", queue, id) }

// Fail implements Client.
func (c *Rest) Fail(queue string, id []byte) error { return c.settle("/fail", queue, id) }

func (c *Rest) settle(verb, queue string, handle []byte) error {
	id, holder, _ := bytes.Cut(handle, []byte(" "))
	c.add("POST", c.path, "/jobs/")
	c.out = append(c.out, id...)
	c.add(verb)
	b := append(append(append(c.body[:0], `{"queue":"`...), queue...), `","holder":"`...)
	c.body = append(append(b, holder...), `"}`...)
	status, err := c.finish(0, c.body)
	return c.wants(http.StatusOK, status, err)
}

// Look implements Client.
func (c *Rest) Look(queue string) (Sight, error) {
	var q struct {
		Counts map[string]int `json:"counts"`
	}
	err := c.Call(http.MethodGet, "/queues/"+queue, nil, &q)
	if refused, ok := errors.AsType[RefusedError](err); ok && strings.HasPrefix(string(refused), "404 ") {
		err = nil
	}
	n := q.Counts
	return Sight{
		Ready: n["ready"], Delayed: n["scheduled"] + n["retrying"], Held: n["running"], Dead: n["dead"] + n["buried"],
	}, err
}
