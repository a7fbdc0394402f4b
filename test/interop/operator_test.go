package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"millrace/internal/dialect/dialecttest"
)

// operatorDriver drives the operator API as a sixth protocol: it pushes, fetches and
// settles, too. Bodies are bytes.
func operatorDriver() dialecttest.Driver {
	return dialecttest.Driver{
		Name: "operator",
		Client: func(conn net.Conn) (dialecttest.Client, error) {
			dial := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
			return &operatorClient{http: http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 1}}, conn: conn}, nil
		},
		AnyBytes:  true,
		Abilities: dialecttest.Abilities{High: true, Low: true, Delay: true, TTL: true, Fail: true, Group: true, Trace: true},
		End:       dialecttest.EndDead,
		Alone:     true,
	}
}

// operatorClient speaks over the one connection that it was given.
type operatorClient struct {
	http   http.Client
	conn   net.Conn
	holder string
}

func (c *operatorClient) Close() error { return c.conn.Close() }

// call posts a request and decodes the answer.
func (c *operatorClient) call(method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://localhost/api/v1/namespaces/"+namespace+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (c *operatorClient) Push(queue, body string) error {
	return c.PushWith(queue, body, dialecttest.Wishes{})
}

func (c *operatorClient) PushWith(queue, body string, w dialecttest.Wishes) error {
	j := map[string]any{
		"body_base64": []byte(body), "body_kind": "bytes", "priority": w.Level,
		"delay_seconds": w.Delay.Seconds(), "ttl_seconds": w.TTL.Seconds(), "group": w.Group, "traceparent": w.Trace,
	}
	if w.Last {
		j["retry"] = 0
	}
	return c.call(http.MethodPost, "/queues/"+queue+"/jobs", map[string]any{"jobs": []any{j}}, nil)
}

func (c *operatorClient) Fetch(queue string, wait time.Duration) (dialecttest.Task, error) {
	var work struct {
		Holder string `json:"holder"`
		Jobs   []struct {
			ID   uint64 `json:"id"`
			Body struct {
				Base64 []byte `json:"base64"`
			} `json:"body"`
		} `json:"jobs"`
	}
	in := map[string]any{"queues": []string{queue}, "wait_seconds": wait.Seconds(), "holder": c.holder}
	if err := c.call(http.MethodPost, "/fetch", in, &work); err != nil {
		return dialecttest.Task{}, err
	}
	c.holder = work.Holder
	if len(work.Jobs) == 0 {
		return dialecttest.Task{}, dialecttest.ErrEmpty
	}
	return dialecttest.Task{Handle: fmt.Sprintf("%s %d", queue, work.Jobs[0].ID), Body: string(work.Jobs[0].Body.Base64)}, nil
}

// settle ends the holding of a job.
func (c *operatorClient) settle(how, handle string) error {
	queue, id, _ := strings.Cut(handle, " ")
	return c.call(http.MethodPost, "/jobs/"+id+"/"+how, map[string]any{"queue": queue, "holder": c.holder}, nil)
}

func (c *operatorClient) Ack(handle string) error { return c.settle("ack", handle) }

func (c *operatorClient) FetchFail(queue string) error {
	task, err := c.Fetch(queue, time.Second)
	if err != nil {
		return err
	}
	return c.settle("fail", task.Handle)
}

func (c *operatorClient) Inspect(handle string) (string, error) {
	queue, id, _ := strings.Cut(handle, " ")
	var j struct {
		State string `json:"state"`
		Body  struct {
			Base64    []byte `json:"base64"`
			Truncated bool   `json:"truncated"`
		} `json:"body"`
	}
	if err := c.call(http.MethodGet, "/jobs/"+id+"?queue="+queue, nil, &j); err != nil {
		return "", err
	}
	if j.State != "running" {
		return "", fmt.Errorf("job %s is %s", handle, j.State)
	}
	if j.Body.Truncated {
		return "", dialecttest.ErrUnable
	}
	return string(j.Body.Base64), nil
}

func (c *operatorClient) Look(queue string) (dialecttest.Sight, error) {
	var page struct {
		Queues []struct {
			Name   string         `json:"name"`
			Counts map[string]int `json:"counts"`
		} `json:"queues"`
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost/api/v1/queues?namespace="+namespace+"&name="+queue, http.NoBody)
	if err != nil {
		return dialecttest.Sight{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return dialecttest.Sight{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return dialecttest.Sight{}, err
	}
	for _, q := range page.Queues {
		if n := q.Counts; q.Name == queue {
			return dialecttest.Sight{Ready: n["ready"], Delayed: n["scheduled"] + n["retrying"], Held: n["running"], Dead: n["dead"] + n["buried"]}, nil
		}
	}
	return dialecttest.Sight{}, nil
}
