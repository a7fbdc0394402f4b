package dialecttest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/job"
	"millrace/internal/testkit"
)

// Matrix pushes a job through each protocol, fetches and settles it through each,
// and watches the engine's counts.
func Matrix(t *testing.T, drivers []Driver) {
	t.Helper()
	for _, in := range drivers {
		for _, out := range drivers {
			t.Run(in.Name+" to "+out.Name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { pass(t, in, out) })
			})
		}
	}
}

// pass is one cell of the matrix.
func pass(t *testing.T, in, out Driver) {
	t.Helper()
	s := Start(t)
	defer s.Stop(t)
	listen := func(d Driver) *testkit.Listener {
		return s.Serve(d.New(Settings{Engine: s.Engine, Namespace: namespace, MaxCommand: maxCommand, WriteTimeout: writing}), 0)
	}
	b := &bench{Server: s, t: t, d: in, l: listen(in)}
	producer := b.client()
	b = &bench{Server: s, t: t, d: out, l: listen(out)}
	worker := b.client()

	for _, body := range []string{`"text"`, `{"a":[1,2,{"b":null}]}`, `[1,2,3]`, `12.50`} {
		b.push(producer, body)
		b.counts(1, 0)
		task, err := worker.Fetch(queue, time.Second)
		if err != nil || task.Body != body {
			t.Fatalf("fetch: %+v, %v, want body %s", task, err, body)
		}
		b.counts(0, 1)
		if err := worker.Ack(task.Handle); err != nil {
			t.Fatalf("ack: %v", err)
		}
		b.counts(0, 0)
	}

	// A worker that waits is woken by a push through the other door.
	woken := make(chan error, 1)
	go func() {
		task, err := worker.Fetch(queue, 10*time.Second)
		if err == nil {
			err = worker.Ack(task.Handle)
		}
		woken <- err
	}()
	testkit.Advance(t, time.Second)
	b.push(producer, `"wake"`)
	if err := <-woken; err != nil {
		t.Errorf("the waiting worker got %v", err)
	}
	b.counts(0, 0)
	if _, err := worker.Fetch(queue, time.Millisecond); !errors.Is(err, ErrEmpty) {
		t.Errorf("fetch from the empty queue: %v", err)
	}
	if q := s.Queue(t, namespace, queue); q.Totals[job.CountPushed] != 5 || q.Totals[job.CountAcked] != 5 {
		t.Errorf("lifetime counts %v", q.Totals)
	}
}
