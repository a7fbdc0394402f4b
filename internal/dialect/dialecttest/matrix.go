package dialecttest

import (
	"errors"
	"strings"
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
	b := &bench{Server: s, t: t, d: in, l: s.drive(in, 4*large, 0)}
	producer := b.client()
	b = &bench{Server: s, t: t, d: out, l: s.drive(out, 4*large, 0), keeps: in.Keeps}
	worker := b.client()

	jobs := Bodies(in, out)
	for _, body := range jobs {
		b.push(producer, body.Pushed)
		b.counts(1, 0)
		task, err := worker.Fetch(queue, time.Second)
		if err != nil || task.Body != body.Fetched {
			t.Fatalf("fetch: %.100q, %v, want body %.100q", task.Body, err, body.Fetched)
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
	all := uint64(len(jobs) + 1)
	q := s.Queue(t, namespace, queue)
	if q.Totals[job.CountPushed] != all || q.Totals[job.CountAcked] != all {
		t.Errorf("lifetime counts %v", q.Totals)
	}
	if in.Keeps && q.Counts[job.Done] != all {
		t.Errorf("%d jobs are kept, want %d", q.Counts[job.Done], all)
	}
}

// large is the length of the largest bodies, which every protocol must carry.
const large = 1 << 20

// Body is what is pushed through one protocol, and how it is fetched through
// another.
type Body struct{ Pushed, Fetched string }

// Bodies returns JSON of all sorts, and any bytes if the first protocol takes them,
// as the second shows them.
func Bodies(in, out Driver) []Body {
	var all []Body
	for _, s := range []string{
		`"text"`, `{"a":[1,2,{"b":null}]}`, `[1,2,3]`, `12.50`, `""`, `null`, `true`,
		`123456789012345678901234567890`, `[9007199254740993,-0.0,1e400]`, `"\u00e9\ud83d\ude00é"`,
		`"` + strings.Repeat("x", large-2) + `"`,
	} {
		seen := s
		if in.Seen != nil && in.Name != out.Name {
			seen = in.Seen(s)
		}
		all = append(all, Body{s, seen})
	}
	if !in.AnyBytes {
		return all
	}
	for _, s := range []string{
		"", "\r\n", "\x00\xff\r\n\x80 ", " { \"a\" : 1 }\r\n",
		strings.Repeat("\x00\r\n\xfe", large/4),
	} {
		shown := s
		if out.Show != nil {
			shown = out.Show(s)
		}
		all = append(all, Body{s, shown})
	}
	return all
}
