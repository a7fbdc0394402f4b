package interop

import (
	"net/http"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/dialect/lmstfy/lmstfytest"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/dialect/workq/workqtest"
	"millrace/internal/wire"
)

// failing returns the drivers whose workers can fail.
func (w *world) failing() []dialecttest.Driver {
	var out []dialecttest.Driver
	for _, d := range w.drivers {
		if d.Abilities.Fail {
			out = append(out, d)
		}
	}
	return out
}

// lapses says that workers of the protocol fail by letting go, which a job without a
// bound on its deliveries does not count.
func lapses(d dialecttest.Driver) bool { return d.Name == "lmstfy" }

// TestLastFailure has jobs of each protocol fail for the last time through each other
// one: they end where their own protocol keeps such jobs, and all see them there.
func TestLastFailure(t *testing.T) {
	t.Parallel()
	w := start(t)
	workers := w.failing()
	for _, in := range w.drivers {
		if in.End == dialecttest.EndNone {
			continue
		}
		for _, out := range workers {
			queue := "last-" + in.Name + "-" + out.Name
			w.must(in.Name+" pushes", w.clients[in.Name].PushWith(queue, `1`, dialecttest.Wishes{Last: true}))
			w.must(out.Name+" fails", w.clients[out.Name].FetchFail(queue))
			w.ended(in, out, queue)
			w.empty(queue)
		}
	}
}

// ended checks where the one job of a queue is after its last failure.
func (w *world) ended(in, out dialecttest.Driver, queue string) {
	w.t.Helper()
	w.settled(queue)
	switch {
	case in.End == dialecttest.EndDead:
		w.look(queue, dead)
	case in.End == dialecttest.EndFailed:
		w.look(queue, none)
		if counts := w.op.counts(queue); counts["failed"] != 1 {
			w.t.Errorf("%s to %s: %v, want one that has failed", in.Name, out.Name, counts)
		}
	case lapses(out):
		// A lapse is no failure of a job that does not count its deliveries.
		w.look(queue, ready)
	default:
		w.look(queue, none)
		moved := wire.DeadQueue(queue)
		w.look(moved, ready)
		for _, d := range w.drivers {
			task, err := w.clients[d.Name].Fetch(moved, patience)
			w.must(d.Name+" fetches from the dead queue", err)
			w.must(d.Name+" settles", w.clients[d.Name].Ack(task.Handle))
			w.must("the next one", w.clients["masenko"].Push(moved, `1`))
		}
		w.empty(moved)
	}
}

// settled waits until no job of the queue is held: a lease that lapses at once does so
// after the answer.
func (w *world) settled(queue string) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); w.op.counts(queue)["running"] > 0; <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("the job of %s is still held", queue)
		}
	}
}

// TestRetry has jobs with tries left fail through each protocol that can: they wait for
// their back-off or are ready at once, as their own protocol wants, and all see it.
func TestRetry(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, in := range w.drivers {
		for _, out := range w.failing() {
			queue := "retry-" + in.Name + "-" + out.Name
			w.must(in.Name+" pushes", w.clients[in.Name].Push(queue, `1`))
			w.must(out.Name+" fails", w.clients[out.Name].FetchFail(queue))
			w.settled(queue)
			counts := w.op.counts(queue)
			var want string
			switch {
			case in.Name == "faktory", in.Name == "rest": // every failure, lapses included, has a back-off
				want = "retrying"
			case in.Name == "masenko" && !lapses(out):
				want = "" // due within the second: ready soon, if it is not yet
			case in.Name == "workq" && !lapses(out): // max-fails was not asked for
				want = "failed"
			default:
				want = "ready"
			}
			if want != "" && counts[want] != 1 {
				t.Errorf("%s to %s: %v, want one that is %s", in.Name, out.Name, counts, want)
			}
			if want == "" && counts["retrying"]+counts["ready"] != 1 {
				t.Errorf("%s to %s: %v, want one that will be retried", in.Name, out.Name, counts)
			}
			w.empty(queue)
		}
	}
}

// TestRevival brings a dead job back through each protocol that can, and through the
// operator; another protocol fetches it.
func TestRevival(t *testing.T) {
	t.Parallel()
	w := start(t)
	faktory := w.dialFaktory()
	lmstfy := w.dialLmstfy()
	ways := map[string]func(queue string) error{
		"faktory": func(string) error { return faktory.OK(`MUTATE {"cmd":"requeue","target":"dead"}`) },
		"lmstfy": func(queue string) error {
			_, err := lmstfy.Respawn(queue, "limit=1&ttl=600")
			return err
		},
		"operator": func(queue string) error { w.op.act(queue, "retry"); return nil },
	}
	for _, in := range w.drivers {
		if in.End != dialecttest.EndDead {
			continue
		}
		for name, revive := range ways {
			for _, out := range w.drivers {
				queue := "revive-" + in.Name + "-" + name + "-" + out.Name
				w.must("push", w.clients[in.Name].PushWith(queue, `1`, dialecttest.Wishes{Last: true}))
				w.must("fail", w.clients["workq"].FetchFail(queue))
				w.look(queue, dead)
				w.must(name+" revives", revive(queue))
				w.look(queue, ready)
				task, err := w.clients[out.Name].Fetch(queue, patience)
				w.must(out.Name+" fetches", err)
				w.must(out.Name+" settles", w.clients[out.Name].Ack(task.Handle))
				w.empty(queue)
			}
		}
	}
}

// dialFaktory, dialLmstfy and dialTarantool are for calls that only one protocol has.
func (w *world) dialFaktory() *faktorytest.Client {
	w.t.Helper()
	c, err := faktorytest.New(w.conn("faktory"), "")
	w.must("faktory", err)
	return c
}

func (w *world) dialLmstfy() *lmstfytest.Client {
	w.t.Helper()
	return lmstfytest.New(w.conn("lmstfy"), namespace, "")
}

func (w *world) dialTarantool() *tarantooltest.Client {
	w.t.Helper()
	c, err := tarantooltest.New(w.conn("tarantool"))
	w.must("tarantool", err)
	return c
}

// TestForeignSettling pushes a job whose key is a UUID, which three protocols can name,
// fetches it through each protocol and settles it through another: what is held for
// one connection alone stays with it.
func TestForeignSettling(t *testing.T) {
	t.Parallel()
	w := start(t)
	workq := workqtest.New(w.conn("workq"))
	faktory := w.dialFaktory()
	lmstfy := w.dialLmstfy()
	ways := map[string]func(queue, id string) error{
		"workq":   func(_, id string) error { return workq.Complete(id, []byte("done")) },
		"faktory": func(_, id string) error { return faktory.Ack(id) },
		"lmstfy":  lmstfy.Delete,
	}
	for _, out := range w.drivers {
		for name, settle := range ways {
			queue := "foreign-" + out.Name + "-" + name
			id := workqtest.NewID()
			w.must("add", workq.Add(workqtest.Job{
				ID: id, Name: queue, TTR: time.Minute, TTL: time.Hour,
				Payload: []byte(`1`),
			}))
			task, err := w.clients[out.Name].Fetch(queue, patience)
			w.must(out.Name+" fetches", err)
			err = settle(queue, id)
			if !out.Alone {
				w.must(name+" settles what "+out.Name+" holds", err)
				w.look(queue, none)
				w.empty(queue)
				continue
			}
			// LMSTFY answers 204 in any case.
			if err == nil && name != "lmstfy" {
				t.Errorf("%s settles what %s holds for itself", name, out.Name)
			}
			w.look(queue, held)
			w.must(out.Name+" settles", w.clients[out.Name].Ack(task.Handle))
			w.look(queue, none)
			w.empty(queue)
		}
	}
}

// TestHangingUp ends the connection of a worker of each protocol: what it held is ready,
// has failed, or is still held, as the fetching protocol wants.
func TestHangingUp(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, out := range w.drivers {
		for _, in := range w.drivers {
			queue := "gone-" + in.Name + "-" + out.Name
			w.must(in.Name+" pushes", w.clients[in.Name].PushWith(queue, `1`, dialecttest.Wishes{Last: true}))
			worker := w.dial(out)
			_, err := worker.Fetch(queue, patience)
			w.must(out.Name+" fetches", err)
			w.must(out.Name+" hangs up", worker.Close())
			if !out.Alone || out.Name == "rest" { // the lease outlives the connection
				w.look(queue, held)
				w.empty(queue)
				continue
			}
			w.settled(queue)
			if out.Name != "masenko" {
				w.look(queue, ready) // nothing is counted: it has its one try left
			} else if in.End != dialecttest.EndNone {
				w.ended(in, out, queue)
			}
			w.empty(queue)
		}
	}
}

// TestBuried buries what each protocol has pushed through Tarantool's procedures; all
// see it set aside, and a kick brings it back.
func TestBuried(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.dialTarantool()
	for _, in := range w.drivers {
		queue := "bury-" + in.Name
		w.must("create", c.CreateTube(queue, "fifottl"))
		w.must(in.Name+" pushes", w.clients[in.Name].Push(queue, `1`))
		task, ok, err := c.Take(queue, 1)
		if err != nil || !ok {
			t.Fatalf("take what %s put: %v, %v", in.Name, ok, err)
		}
		_, err = c.CallRaw("queue.tube."+queue+":bury", tarantooltest.MustEncode(decimal(task.ID)))
		w.must("bury", err)
		if counts := w.op.counts(queue); counts["buried"] != 1 {
			t.Errorf("%v, want one that is buried", counts)
		}
		_, err = c.CallRaw("queue.tube."+queue+":kick", tarantooltest.MustEncode("1"))
		w.must("kick", err)
		w.look(queue, ready)
		w.op.call(http.MethodDelete, "/namespaces/"+namespace+"/queues/"+queue, nil, nil)
	}
}
