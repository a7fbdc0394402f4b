// Package otlp makes spans of what happens to jobs that carry a trace, and sends them to an OpenTelemetry collector, as
// JSON over HTTP. It has no part in the work of the server: what a collector does not take in time is dropped and
// counted.
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"millrace/internal/job"
)

const (
	// queueMax is how many spans wait to be sent, batchMax how many are sent at a time.
	queueMax = 8192
	batchMax = 512
	// gather is how long spans are collected before they are sent.
	gather = time.Second
	// patience bounds one request; tries is how often it is made, with a pause that grows.
	patience = 5 * time.Second
	tries    = 3
	pause    = time.Second
	// farewell is how long the last spans may take when the server stops.
	farewell = 2 * time.Second
	// nameMax cuts off what clients have chosen.
	nameMax = 256
)

// Options say where spans go and who sends them.
type Options struct {
	URL      string // of the collector, with the path for traces
	Headers  map[string]string
	Service  string
	Instance string
	Version  string
	Logger   *slog.Logger
	DoorName func(job.Door) string
}

// Exporter sends spans. It is told of jobs as a tracer of the engine.
type Exporter struct {
	o             Options
	queue         chan span
	client        http.Client
	sent, dropped atomic.Uint64
	told          bool
	farewell      time.Duration
}

// New returns an exporter; nothing runs yet.
func New(o Options) *Exporter {
	return &Exporter{o: o, queue: make(chan span, queueMax), farewell: farewell, client: http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Spans returns how many spans were taken by the collector, and how many were dropped.
func (e *Exporter) Spans() (sent, dropped uint64) { return e.sent.Load(), e.dropped.Load() }

// Fetched takes the span of a job's waiting.
func (e *Exporter) Fetched(j *job.Job, since, now job.Time) { e.add(j, spanWait, since, now, 0) }

// Ended takes the span of a job's running.
func (e *Exporter) Ended(j *job.Job, how job.Counter, now job.Time) {
	e.add(j, spanRun, j.Since, now, how)
}

// add queues a span if its trace is sampled. It never waits: the engine's lock is held.
func (e *Exporter) add(j *job.Job, kind spanKind, from, to job.Time, how job.Counter) {
	if !sampled(j.Trace) {
		return
	}
	s := span{
		trace: j.Trace, kind: kind, from: from, to: to, how: how, id: j.ID, created: j.Created, attempt: j.Attempts,
		namespace: j.Namespace, queue: j.Queue, typ: j.Type, door: j.Lease.Door,
	}
	select {
	case e.queue <- s:
	default:
		e.dropped.Add(1)
	}
}

// Run sends spans until ctx ends, and then what is left. What is being sent when ctx ends has as much time as that.
func (e *Exporter) Run(ctx context.Context) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(e.farewell, cancel) })()
	for ctx.Err() == nil || len(e.queue) > 0 {
		select {
		case s := <-e.queue:
			e.send(last, e.collect(ctx, s))
		case <-ctx.Done(): // the loop ends when the queue is empty
		}
	}
	e.client.CloseIdleConnections()
}

// collect returns a batch that begins with a span.
func (e *Exporter) collect(ctx context.Context, first span) []span {
	batch := append(make([]span, 0, batchMax), first)
	over := time.NewTimer(gather)
	defer over.Stop()
	for len(batch) < batchMax {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
			continue
		default:
		}
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		case <-over.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// send sends a batch, or drops it.
func (e *Exporter) send(ctx context.Context, batch []span) {
	body, err := json.Marshal(e.request(batch))
	for n := 1; err == nil; n++ {
		var again bool
		if again, err = e.post(ctx, body); err == nil {
			e.sent.Add(uint64(len(batch)))
			return
		}
		if !again || n == tries {
			break
		}
		select {
		case <-time.After(time.Duration(n) * pause):
			err = nil
		case <-ctx.Done():
		}
	}
	e.dropped.Add(uint64(len(batch)))
	if !e.told {
		e.told = true
		e.o.Logger.Warn("otlp: spans were not taken; from now on those that are dropped are only counted",
			slog.String("url", e.o.URL), slog.Any("error", err))
	}
}

// post makes a request, and tells whether it may succeed later if it does not.
func (e *Exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "millrace/"+e.o.Version)
	for name, value := range e.o.Headers {
		r.Header.Set(name, value)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()                                       //nolint:errcheck // only read from
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	switch code := answer.StatusCode; code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	case http.StatusOK:
		return false, nil
	}
	return again, fmt.Errorf("the answer was %s", answer.Status)
}
