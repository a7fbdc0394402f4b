package torture

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

const (
	linearQueues = 4  // histories of a round, side by side
	linearActors = 6  // clients of each
	linearOps    = 18 // what each client does, and half as much if connections break
	// linearPatience bounds the search for an explanation of one history.
	linearPatience = 5 * time.Second
)

// linearRun is what the histories of all rounds have in common.
type linearRun struct {
	t       *testing.T
	dir     string
	server  *harness.Server
	proxies [modelled]*proxy
	kills   int
	totals  tally
	checked int
	// undecided is how many histories the search gave up on.
	undecided int
	longest   time.Duration
}

// TestLinearizable records short histories of clients of all protocols and looks
// for an order of events that explains each of them, without faults, with broken
// connections, with kills, and with both.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := &linearRun{t: t, dir: suite.DataDir(t)}
	for p := range modelled {
		r.proxies[p] = newProxy(t, random("proxy", p.String()))
	}
	r.up(false)
	// A busy machine leaves more histories undecided: a few more rounds are made then.
	count := cmp.Or(*roundCount, tier.Pick(6, 3))
	for round := 0; round < count || r.vague() && round < 4*count; round++ {
		r.round(round, round%2 == 1, round%3 == 2)
	}
	if err := r.server.Stop(harness.StopPatience); err != nil {
		t.Error(err)
	}
	cuts := 0
	for _, p := range r.proxies {
		cuts += p.cutCount()
	}
	writeReport(t, "linear", [][2]string{
		{"Histories", fmt.Sprintf("%d, of %d clients each", r.checked, linearActors)},
		{"Operations attempted", strconv.Itoa(r.totals.total)},
		{"Answered yes, no", fmt.Sprintf("%d, %d", r.totals.answered, r.totals.refused)},
		{"Ambiguous", strconv.Itoa(r.totals.open)},
		{"Not linearizable", "0"},
		{"Undecided within " + linearPatience.String(), strconv.Itoa(r.undecided)},
		{"Longest search", r.longest.Round(time.Millisecond).String()},
		{"Faults", fmt.Sprintf("%d kills, %d connections cut", r.kills, cuts)},
		{"Took", time.Since(began).Round(time.Second).String()},
	})
	if r.vague() {
		t.Errorf("%d of %d histories could not be decided", r.undecided, r.checked)
	}
	if r.totals.answered < 10*r.checked {
		t.Errorf("%d operations were answered in %d histories: this was no load", r.totals.answered, r.checked)
	}
}

// vague reports whether too many histories could not be decided.
func (r *linearRun) vague() bool { return r.undecided*3 > r.checked }

// up starts the server and points the proxies to it.
func (r *linearRun) up(faulty bool) {
	r.t.Helper()
	r.server = suite.Start(r.t, options(r.dir, "--workq-default-ttr", linearLease.String()))
	r.aim(faulty)
}

func (r *linearRun) aim(faulty bool) {
	for p, x := range r.proxies {
		x.aim(proto(p).addr(r.server), faulty)
	}
}

// round makes some histories side by side and checks them.
func (r *linearRun) round(round int, cut, kill bool) {
	r.t.Helper()
	r.aim(cut)
	histories := make([]*history, linearQueues)
	tube := connect[*wire.Tarantool](r.t, tarantool, r.server)
	for i := range histories {
		histories[i] = newHistory(fmt.Sprintf("q%dx%d", round, i), kill)
		if err := tube.Create(histories[i].queue, "fifottl"); err != nil {
			r.t.Fatal(err)
		}
	}
	ops := linearOps
	if cut {
		ops /= 2 // what is open is what makes the search long
	}
	st := suite.NewStage()
	st.Begin(1, r.server, false)
	var playing sync.WaitGroup
	var actors []*actor
	for i, h := range histories {
		for k := range linearActors {
			a := &actor{
				history: h, proto: proto((i + k) % int(modelled)),
				rnd: random("actor", h.queue, strconv.Itoa(k)),
			}
			actors = append(actors, a)
			playing.Go(func() { r.play(a, st, ops) })
		}
	}
	if kill {
		<-time.After(time.Duration(random("kill", strconv.Itoa(round)).IntN(120)) * time.Millisecond)
		r.kill(st, histories, cut)
	}
	playing.Wait()
	r.aim(false)
	for _, h := range histories {
		r.finish(h)
	}
	for _, a := range actors { // not before: the end of a connection would be one more event
		if a.c != nil {
			_ = a.c.Close() // nothing is asked of it any more
		}
	}
	for _, h := range histories {
		r.check(h)
	}
}

// kill kills the server and starts it again.
func (r *linearRun) kill(st *suite.Stage, histories []*history, faulty bool) {
	r.t.Helper()
	st.After(0).Kill()
	dead := make([]int64, len(histories))
	for i, h := range histories {
		dead[i] = h.now()
	}
	r.up(faulty)
	r.kills++
	for i, h := range histories {
		h.record(input{verb: doRestart}, output{ok: true}, dead[i])
		h.died(dead[i])
	}
	st.Begin(2, r.server, false)
}

// play lets an actor act. When its connection breaks it makes another; when the
// server is gone it waits for the next one.
func (r *linearRun) play(a *actor, st *suite.Stage, ops int) {
	l := st.After(0)
	for done := 0; done < ops; {
		if a.c == nil {
			if err := a.join(r.proxies[a.proto].addr()); err != nil {
				done++
				l = r.current(l, st)
				continue
			}
		}
		err := a.act()
		done++
		if err == nil {
			continue
		}
		if next := r.current(l, st); next != l {
			_ = a.c.Close() // the server is dead
			a.c, l = nil, next
			continue
		}
		a.leave()
	}
}

// current returns the life that is on: the one given, or the next if that has ended.
func (r *linearRun) current(l *suite.Life, st *suite.Stage) *suite.Life {
	select {
	case <-l.Ending:
		return st.After(l.Number)
	default:
		return l
	}
}

// finish makes everything ready that is still held, and fetches it, so that the
// history says what was left.
func (r *linearRun) finish(h *history) {
	r.t.Helper()
	tube := connect[*wire.Tarantool](r.t, tarantool, r.server)
	call := h.now()
	if err := tube.ReleaseAll(h.queue); err != nil {
		r.t.Fatal(err)
	}
	h.record(input{verb: doReleaseAll, proto: tarantool, conn: h.newConn()}, output{ok: true}, call)
	a := &actor{history: h, proto: tarantool, c: &client{tube, tarantool}, conn: h.newConn()}
	for {
		before := len(a.holds)
		if err := a.take(); err != nil {
			r.t.Fatal(err)
		}
		if len(a.holds) == before {
			break
		}
	}
	h.close()
	h.order()
	_ = tube.Close() // what it holds is of no interest any more
}

// check lets porcupine look for an explanation. A history without one is kept as a
// page that shows it.
func (r *linearRun) check(h *history) {
	r.t.Helper()
	r.checked++
	r.totals.total += h.stats.total
	r.totals.answered += h.stats.answered
	r.totals.refused += h.stats.refused
	r.totals.open += h.stats.open
	began := time.Now()
	model := queueModel()
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, linearPatience)
	r.longest = max(r.longest, time.Since(began))
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		r.undecided++
	case porcupine.Illegal:
		path := filepath.Join(os.TempDir(), "torture-"+h.queue+".html")
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			r.t.Error(err)
		}
		r.t.Errorf("the history of %s has no explanation; see %s\n%s", h.queue, path, stuck(h.ops, info))
	}
}
