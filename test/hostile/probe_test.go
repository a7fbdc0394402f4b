//go:build linux

package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
)

// probe is a well-behaved client that does whole jobs, one after the other, and notes
// how long each call takes.
type probe struct {
	name string
	done chan struct{} // closed when it has stopped

	mu    sync.Mutex // guards what follows
	times []time.Duration
	err   error
}

// pace is how often a probe does a job: often enough for a p99, and seldom enough to be
// no load.
const pace = 4 * time.Millisecond

// startProbe connects and works until ctx ends.
func startProbe(ctx context.Context, t *testing.T, d dialecttest.Driver, addr string, every time.Duration) *probe {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{name: d.Name, done: make(chan struct{})}
	client, err := d.Client(conn)
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	queue := "probe-" + d.Name
	p.start(ctx, t, conn, every, func(n int) error { return p.job(client, queue, fmt.Sprint(n)) })
	return p
}

// startControl measures the echo process instead of the server.
func startControl(ctx context.Context, t *testing.T, addr string, every time.Duration) *probe {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{name: echoName, done: make(chan struct{})}
	p.start(ctx, t, conn, every, func(int) error {
		return p.note("echo", func() error {
			b := []byte{1}
			if _, err := conn.Write(b); err != nil {
				return err
			}
			_, err := io.ReadFull(conn, b)
			return err
		})
	})
	return p
}

// start does one thing after the other until ctx ends, and then closes the connection.
func (p *probe) start(ctx context.Context, t *testing.T, conn net.Conn, every time.Duration, do func(n int) error) {
	t.Helper()
	go func() {
		defer close(p.done)
		p.work(ctx, every, do)
	}()
	t.Cleanup(func() {
		<-p.done
		_ = conn.Close() // the server may have closed it first
	})
}

func (p *probe) work(ctx context.Context, every time.Duration, do func(n int) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := do(n); err != nil {
			p.mu.Lock()
			p.err = fmt.Errorf("%s, job %d: %w", p.name, n, err)
			p.mu.Unlock()
			return
		}
	}
}

// job pushes a job, fetches it and settles it.
func (p *probe) job(client dialecttest.Client, queue, body string) error {
	if err := p.note("push", func() error { return client.Push(queue, body) }); err != nil {
		return err
	}
	var task dialecttest.Task
	err := p.note("fetch", func() (err error) {
		task, err = client.Fetch(queue, time.Second)
		return err
	})
	if err != nil {
		return err
	}
	if task.Body != body {
		return fmt.Errorf("fetched %q, want %q", task.Body, body)
	}
	return p.note("ack", func() error { return client.Ack(task.Handle) })
}

// note runs a call and keeps how long it took.
func (p *probe) note(what string, call func() error) error {
	began := time.Now()
	err := call()
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = append(p.times, took)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// window is what a probe has measured in some time.
type window struct {
	calls    int
	p50, p99 time.Duration
	most     time.Duration
}

// String shows the window in a table.
func (w window) String() string {
	return fmt.Sprintf("%5d calls, p50 %.1f ms, p99 %.1f ms, most %.1f ms", w.calls, ms(w.p50), ms(w.p99), ms(w.most))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// take returns what was measured since the last take.
func (p *probe) take() (window, error) {
	p.mu.Lock()
	times, err := p.times, p.err
	p.times = nil
	p.mu.Unlock()
	if err != nil || len(times) == 0 {
		return window{}, errors.Join(err, errIdle)
	}
	slices.Sort(times)
	return window{
		calls: len(times), p50: times[len(times)/2], p99: times[len(times)*99/100], most: times[len(times)-1],
	}, nil
}

// count returns how many calls have been answered since the last take.
func (p *probe) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.times)
}

// failure returns why the probe has stopped, if it has.
func (p *probe) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// errIdle means that a probe was not served at all.
var errIdle = errors.New("no call was answered")
