package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// lmstfyConsume asks for what is there, or waits a second for one job, and has a minute to pass it on.
const lmstfyConsume = "?ttr=60&timeout=1&count=100"

// lmstfyAnswerMax is more than the answer to it has.
const lmstfyAnswerMax = 64 << 20

// lmstfyFollower consumes from the queues that its address names: no worker can ask for them.
type lmstfyFollower struct {
	base  string // up to the namespace
	pool  string
	token string
	path  string // of the queues
	http  http.Client
}

func followLmstfy(_ context.Context, address string) (Follower, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User.Username() == "" {
		return nil, errLmstfyAddress
	}
	namespace, queues, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if namespace == "" || queues == "" || strings.Contains(queues, "/") {
		return nil, errLmstfyAddress
	}
	f := &lmstfyFollower{
		base:  u.Scheme + "://" + u.Host + "/api/" + url.PathEscape(namespace) + "/",
		pool:  lmstfyPool,
		token: u.User.Username(),
		path:  url.PathEscape(queues),
		http:  http.Client{Timeout: askTimeout},
	}
	if token, ok := u.User.Password(); ok {
		f.pool, f.token = f.token, f.token+":"+token
	}
	return f, nil
}

var errLmstfyAddress = errors.New(
	"that is no address to follow: write http://TOKEN@HOST:PORT/NAMESPACE/QUEUE, or several queues with " +
		"commas between them",
)

func (f *lmstfyFollower) Protocol() string { return "lmstfy" }

// Name is that of the Redis of the pool: jobs have the same ids.
func (f *lmstfyFollower) Name() string { return (&lmstfy{pool: f.pool}).Name() }

func (f *lmstfyFollower) Close() error { return nil }

// do sends a request. An answer of no jobs is empty.
func (f *lmstfyFollower) do(method, path string) (text []byte, err error) {
	ctx := context.Background() // a job that is handed out is to arrive
	req, err := http.NewRequestWithContext(ctx, method, f.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Token", f.token)
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask LMSTFY: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	if text, err = io.ReadAll(io.LimitReader(resp.Body, lmstfyAnswerMax)); err != nil {
		return nil, fmt.Errorf("read an answer of LMSTFY: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && strings.Contains(string(text), "no job available"):
		return nil, nil
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("LMSTFY answers %s: %s", resp.Status, clipped(string(text)))
	}
	return text, nil
}

// Fetch consumes what is there, or waits a second for one job.
func (f *lmstfyFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	text, err := f.do(http.MethodGet, f.path+lmstfyConsume)
	if err != nil || text == nil {
		return nil, err
	}
	var all []struct {
		Namespace  string            `json:"namespace"`
		Queue      string            `json:"queue"`
		ID         string            `json:"job_id"`
		Data       []byte            `json:"data"`
		TTL        int64             `json:"ttl"`
		Elapsed    int64             `json:"elapsed_ms"`
		Tries      uint32            `json:"remain_tries"`
		Attributes map[string]string `json:"attributes"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read an answer of LMSTFY: %w", err)
	}
	now := time.Now()
	for i := range all {
		j := &all[i]
		a := &dialect.Arrival{
			ID: j.ID, Pool: f.pool, Namespace: j.Namespace, Queue: j.Queue, State: job.Ready.String(), Body: j.Data,
			Tries:   j.Tries + 1, // ours does not count
			Created: job.TimeOf(now.Add(-time.Duration(max(j.Elapsed, 0)) * time.Millisecond)),
		}
		if j.TTL > 0 {
			a.ExpireAt = job.TimeOf(now.Add(time.Duration(j.TTL) * time.Second))
		}
		if len(j.Attributes) > 0 {
			if a.Text, err = json.Marshal(map[string]any{"body": j.Data, "attributes": j.Attributes}); err != nil {
				return nil, err
			}
			a.Body = nil
		}
		jobs = append(jobs, a)
	}
	return jobs, nil
}

// Settle deletes those that arrived. The others come again, until their tries are used up.
func (f *lmstfyFollower) Settle(jobs []*dialect.Arrival, arrived []bool, _ []string) (err error) {
	for i, a := range jobs {
		if arrived[i] {
			_, e := f.do(http.MethodDelete, url.PathEscape(a.Queue)+"/job/"+url.PathEscape(a.ID))
			err = cmp.Or(err, e)
		}
	}
	return err
}
