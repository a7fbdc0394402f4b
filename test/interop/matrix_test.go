package interop

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
)

// ready, held and none are the sights of a queue with one job, and with none.
var (
	ready = dialecttest.Sight{Ready: 1}
	held  = dialecttest.Sight{Held: 1}
	dead  = dialecttest.Sight{Dead: 1}
	none  = dialecttest.Sight{}
)

// TestPairs pushes bodies of every kind through each protocol, fetches, inspects and
// settles them through each, and watches the first of them through all.
func TestPairs(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, in := range w.drivers {
		for _, out := range w.drivers {
			queue := in.Name + "-" + out.Name
			for i, body := range dialecttest.Bodies(in, out) {
				w.pass(in, out, queue, body, i == 0)
			}
			w.empty(queue)
		}
	}
}

// pass has one job go through a cell of the matrix.
func (w *world) pass(in, out dialecttest.Driver, queue string, body dialecttest.Body, watched bool) {
	w.t.Helper()
	look := func(s dialecttest.Sight) {
		if watched {
			w.look(queue, s)
		}
	}
	producer, worker := w.clients[in.Name], w.clients[out.Name]
	w.must(in.Name+" pushes", producer.Push(queue, body.Pushed))
	look(ready)
	task, err := worker.Fetch(queue, patience)
	if err != nil || task.Body != body.Fetched {
		w.t.Fatalf("%s fetches what %s pushed: %.100q, %v, want %.100q", out.Name, in.Name, task.Body,
			err, body.Fetched)
	}
	look(held)
	if watched {
		j := w.op.only(queue)
		if j.State != "running" || j.PushedBy != door(in) || j.Lease == nil || j.Lease.FetchedBy != door(out) ||
			j.Lease.Exclusive != out.Alone {
			w.t.Errorf("%s to %s: the operator sees %+v, lease %+v", in.Name, out.Name, j, j.Lease)
		}
	}
	seen, err := worker.Inspect(task.Handle)
	if !errors.Is(err, dialecttest.ErrUnable) && (err != nil || seen != body.Fetched) {
		w.t.Errorf("%s inspects what %s pushed: %.100q, %v, want %.100q", out.Name, in.Name, seen, err, body.Fetched)
	}
	w.must(out.Name+" settles", worker.Ack(task.Handle))
	look(none)
	if watched && (out.Name != "faktory" || in.Name == out.Name) { // two seconds each
		w.nothing(out, queue)
	}
}

// nothing checks that there is no job for a worker in any of the queues. All of them
// are named in one call where each call would wait, because the protocol says how long.
func (w *world) nothing(out dialecttest.Driver, queues ...string) {
	w.t.Helper()
	if out.Name == "faktory" {
		queues = []string{strings.Join(queues, " ")}
	}
	wait := time.Duration(0)
	if out.Name == "masenko" {
		wait = time.Millisecond // none is refused
	}
	for _, queue := range queues {
		if task, err := w.clients[out.Name].Fetch(queue, wait); !errors.Is(err, dialecttest.ErrEmpty) {
			w.t.Errorf("%s fetches from %s, where nothing should be: %+v, %v", out.Name, queue, task, err)
		}
	}
}

// door is the operator's name for a driver's protocol.
func door(d dialecttest.Driver) string {
	switch d.Name {
	case "tarantool-legacy", "tarantool15":
		return "tarantool"
	case "rest":
		return "api"
	}
	return d.Name
}

// TestWaking has a worker of each protocol wait for a push through each.
func TestWaking(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, out := range w.drivers {
		for _, in := range w.drivers {
			queue := "wake-" + in.Name + "-" + out.Name
			worker := w.clients[out.Name]
			woken := make(chan error, 1)
			go func() {
				task, err := worker.Fetch(queue, patience)
				if err == nil {
					err = worker.Ack(task.Handle)
				}
				woken <- err
			}()
			producer := w.clients[in.Name]
			if in.Name == out.Name {
				producer = w.dial(in)
			}
			w.must(in.Name+" pushes", producer.Push(queue, `"wake"`))
			if err := <-woken; err != nil {
				t.Errorf("%s waits for %s: %v", out.Name, in.Name, err)
			}
		}
	}
}

// TestLevels pushes low ones first, then jobs of all protocols that say nothing, then
// high ones: every protocol fetches the high ones first, then the others in the order
// they came, then the low ones.
func TestLevels(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, out := range w.drivers {
		queue := "levels-" + out.Name
		var want []string
		for _, level := range []int{1, 0, -1} {
			for i, in := range w.drivers {
				if says(in, level) {
					want = append(want, fmt.Sprint(100*level+i))
				}
			}
		}
		for _, level := range []int{-1, 0, 1} {
			for i, in := range w.drivers {
				if says(in, level) {
					w.must(in.Name+" pushes", w.clients[in.Name].PushWith(queue, fmt.Sprint(100*level+i),
						dialecttest.Wishes{Level: level}))
				}
			}
		}
		var got []string
		for range want {
			task, err := w.clients[out.Name].Fetch(queue, patience)
			w.must(out.Name+" fetches", err)
			w.must(out.Name+" settles", w.clients[out.Name].Ack(task.Handle))
			got = append(got, number(task.Body))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s fetches %v, want %v", out.Name, got, want)
		}
	}
}

// says tells whether a protocol knows the level.
func says(d dialecttest.Driver, level int) bool {
	switch level {
	case 1:
		return d.Abilities.High
	case -1:
		return d.Abilities.Low
	}
	return true
}

// number strips what Faktory's args put around the only argument.
func number(body string) string {
	if body != "" && body[0] == '[' {
		return body[1 : len(body)-1]
	}
	return body
}

// TestOperator settles what each protocol holds from the operator's side.
func TestOperator(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, d := range w.drivers {
		c := w.clients[d.Name]
		queue := "operator-" + d.Name
		w.must(d.Name+" pushes", c.Push(queue, `1`))
		w.op.call(http.MethodPost, "/namespaces/"+namespace+"/queues/"+queue+"/pause", map[string]any{}, nil)
		w.nothing(d, queue)
		w.op.call(http.MethodPost, "/namespaces/"+namespace+"/queues/"+queue+"/resume", map[string]any{}, nil)
		w.op.act(queue, "bury")
		if counts := w.op.counts(queue); counts["buried"] != 1 {
			t.Errorf("%v, want one that is buried", counts)
		}
		w.op.act(queue, "kick")
		w.look(queue, ready)
		_, err := c.Fetch(queue, patience)
		w.must(d.Name+" fetches", err)
		w.op.act(queue, "kill")
		w.look(queue, dead)
		w.op.act(queue, "retry")
		w.look(queue, ready)
		task, err := c.Fetch(queue, patience)
		w.must(d.Name+" fetches again", err)
		w.must(d.Name+" settles", c.Ack(task.Handle))
		w.look(queue, none)
		w.empty(queue)
	}
}
