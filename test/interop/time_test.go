package interop

import (
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
)

// cell is a queue for each pair of protocols, so that all pairs wait for the same
// second.
type cell struct {
	in, out dialecttest.Driver
	queue   string
}

// cells pushes a job with the wishes into a queue for each pair whose first protocol
// can say them.
func (w *world) cells(name string, wishes dialecttest.Wishes, can func(dialecttest.Abilities) bool) []cell {
	w.t.Helper()
	var all []cell
	for _, in := range w.drivers {
		for _, out := range w.drivers {
			if !can(in.Abilities) {
				continue
			}
			c := cell{in, out, name + "-" + in.Name + "-" + out.Name}
			w.must(in.Name+" pushes", w.clients[in.Name].PushWith(c.queue, `1`, wishes))
			all = append(all, c)
		}
	}
	return all
}

// lookAll is look for many queues with one job each: protocols that sum up see them all.
func (w *world) lookAll(cells []cell, want dialecttest.Sight) {
	w.t.Helper()
	all := dialecttest.Sight{
		Ready: want.Ready, Delayed: len(cells) * want.Delayed, Held: len(cells) * want.Held,
		Dead: len(cells) * want.Dead,
	}
	for _, c := range cells {
		for _, d := range w.drivers {
			s, err := w.clients[d.Name].Look(c.queue)
			w.must(d.Name+" looks", err)
			expect := want
			if d.SumsUp {
				expect = all
			}
			if !same(s.Ready, expect.Ready) || !same(s.Delayed, expect.Delayed) || !same(s.Held, expect.Held) ||
				!same(s.Dead, expect.Dead) {
				w.t.Errorf("%s says of %s %+v, want %+v", d.Name, c.queue, s, expect)
			}
		}
		if s := w.op.look(c.queue); s != want {
			w.t.Errorf("the operator sees %+v in %s, want %+v", s, c.queue, want)
		}
	}
}

// nothingIn checks that no worker gets what is in its cells.
func (w *world) nothingIn(cells []cell) {
	w.t.Helper()
	for _, out := range w.drivers {
		var queues []string
		for _, c := range cells {
			if c.out.Name == out.Name {
				queues = append(queues, c.queue)
			}
		}
		w.nothing(out, queues...)
	}
}

// TestDelays schedules jobs through each protocol that can: all see them wait, nobody
// gets one early, and each protocol fetches them when they are due.
func TestDelays(t *testing.T) {
	t.Parallel()
	w := start(t)
	// The delay is long enough for everybody to look before it ends, and times are cut to
	// whole seconds by some protocols.
	const delay = 6 * time.Second
	began := time.Now()
	cells := w.cells("delay", dialecttest.Wishes{Delay: delay}, func(a dialecttest.Abilities) bool { return a.Delay })
	w.nothingIn(cells)
	w.lookAll(cells, dialecttest.Sight{Delayed: 1})
	if took := time.Since(began); took > delay-2*time.Second {
		t.Fatalf("looking took %v: some jobs may have been due", took)
	}
	for _, c := range cells {
		task, err := w.clients[c.out.Name].Fetch(c.queue, patience)
		if err != nil {
			t.Errorf("%s waits for what %s has scheduled: %v", c.out.Name, c.in.Name, err)
			continue
		}
		if waited := time.Since(began); waited < delay-time.Second {
			t.Errorf("%s got what %s had scheduled after %v", c.out.Name, c.in.Name, waited)
		}
		w.must(c.out.Name+" settles", w.clients[c.out.Name].Ack(task.Handle))
	}
	w.lookAll(cells, none)
}

// TestTimesToLive lets jobs of each protocol that can say so expire: nobody sees or gets
// them afterwards.
func TestTimesToLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	cells := w.cells("ttl", dialecttest.Wishes{TTL: 2 * time.Second},
		func(a dialecttest.Abilities) bool { return a.TTL })
	kept := w.cells("kept", dialecttest.Wishes{TTL: time.Hour}, func(a dialecttest.Abilities) bool { return a.TTL })
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		left := 0
		for _, c := range cells {
			left += w.op.counts(c.queue)["ready"]
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs have outlived their time", left)
		}
	}
	w.lookAll(cells, none)
	w.nothingIn(cells)
	for _, c := range kept {
		task, err := w.clients[c.out.Name].Fetch(c.queue, patience)
		w.must(c.out.Name+" fetches what has not expired", err)
		w.must(c.out.Name+" settles", w.clients[c.out.Name].Ack(task.Handle))
	}
}
