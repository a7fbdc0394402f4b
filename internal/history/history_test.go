package history

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
	"millrace/internal/timing"
)

func open(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone, TimedTypes: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// work passes jobs through a queue: they wait for a second, and run for two.
func work(t *testing.T, e *engine.Engine, door job.Door, queue, typ string, jobs int) {
	t.Helper()
	do := func(cmd job.Command) job.Result {
		r := e.NewCallerAt(door).Do(t.Context(), cmd)[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r
	}
	for range jobs {
		do(&job.Push{Spec: job.Spec{Namespace: "ns", Queue: queue, Type: typ, Origin: door}})
		testkit.Advance(t, time.Second)
		j := do(&job.Fetch{
			Namespace: "ns", Queues: []string{queue}, Max: 1, Door: door, Lease: time.Hour,
			LeaseSet: true,
		}).Jobs[0]
		testkit.Advance(t, 2*time.Second)
		do(&job.Ack{Ref: j.Ref(), Need: job.NeedLeased})
	}
}

func meterOf(t *testing.T, e *engine.Engine) (read func() *Reading) {
	t.Helper()
	m := &Meter{Engine: e, DoorName: func(d job.Door) string { return fmt.Sprint("door", d) }}
	return func() *Reading {
		r, err := m.Read()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// A job counts once for everything, its protocol, its queue and its type.
func TestMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t)
		work(t, e, 3, "before", "", 1)
		read := meterOf(t, e)
		if r := read(); len(r.Parts) != 0 || r.Sums.Queues != 1 {
			t.Errorf("the first time: %+v", r)
		}
		work(t, e, 3, "q", "Mail", 2)
		work(t, e, 4, "q", "Mail", 1)
		work(t, e, 4, "q", "", 1)
		r := read()
		for name, jobs := range map[Name]uint64{
			{}: 4, {Protocol: "door3"}: 2, {Protocol: "door4"}: 2, {Namespace: "ns", Queue: "q"}: 4, {Type: "Mail"}: 3,
		} {
			f := r.Of(name)
			pushed, runs := jobs, uint64(0)
			if name.Type != "" {
				pushed, runs = 0, jobs // of a type only what workers do is known
			}
			if f.Pushed != pushed || f.Fetched != jobs || f.Acked != jobs || f.Wait == nil || f.Wait.Count != jobs ||
				f.Wait.Mean() != time.Second {
				t.Errorf("%+v: %+v", name, f)
			}
			if (f.Run != nil) != (runs > 0) || runs > 0 && (f.Run.Count != runs || f.Run.Mean() != 2*time.Second) {
				t.Errorf("%+v ran: %+v", name, f.Run)
			}
		}
		if len(r.Parts) != 5 {
			t.Errorf("%v", r.Parts)
		}
		if r := read(); len(r.Parts) != 0 {
			t.Errorf("told twice: %v", r.Parts)
		}
		work(t, e, 3, "q", "Mail", 1)
		e.NewCallerAt(5).Do(t.Context(), &job.Atomic{Ops: []job.Command{
			&job.Push{Spec: job.Spec{Namespace: "ns", Queue: "other"}},
		}})
		r = read()
		for _, name := range []Name{{}, {Protocol: "door3"}, {Namespace: "ns", Queue: "q"}, {Type: "Mail"}} {
			if f := r.Of(name); f.Fetched != 1 || f.Wait == nil || f.Wait.Count != 1 {
				t.Errorf("one more: %+v: %+v", name, f)
			}
		}
		if f := r.Of(Name{Protocol: "door5"}); f.Pushed != 1 {
			t.Errorf("an Atomic: %+v", f)
		}
	})
}

// A queue that is removed and made again begins at zero, whatever it has had before.
func TestMeterOfNewQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t)
		read := meterOf(t, e)
		read()
		for i, jobs := range []int{2, 1, 1, 3} {
			work(t, e, 3, "q", "Mail", jobs)
			r := read()
			for _, name := range []Name{{}, {Protocol: "door3"}, {Namespace: "ns", Queue: "q"}, {Type: "Mail"}} {
				if f := r.Of(name); f.Fetched != uint64(jobs) || f.Wait.Count != uint64(jobs) ||
					f.Acked != uint64(jobs) {
					t.Errorf("%d: %+v: %+v", i, name, f)
				}
			}
			if r := e.NewCaller().Do(t.Context(), &job.Remove{Namespace: "ns", Queue: "q"}); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
		}
	})
}

// More queues than fit into a slot are left out; types and protocols are not.
func TestSlotIsBounded(t *testing.T) {
	t.Parallel()
	var s Slot
	for i := range queuesOpen + 10 {
		s.add(Name{Queue: fmt.Sprint(i)}, &Figures{Pushed: 1})
	}
	for i := range kept + 5 {
		s.add(Name{Type: fmt.Sprint(i)}, &Figures{Fetched: 1})
	}
	s.add(Name{Queue: "0"}, &Figures{Pushed: 1})
	if f := s.Of(Name{Queue: "0"}); len(s.Parts) != queuesOpen+kept+5 || f.Pushed != 2 {
		t.Errorf("%d parts, %+v", len(s.Parts), f)
	}
	_, types, queues := s.Busiest()
	if len(types) != kept || len(queues) != kept || queues[0].Queue != "0" {
		t.Errorf("%d types, %d queues", len(types), len(queues))
	}
}

// A slot that was kept is read as it was.
func TestSlotIsKept(t *testing.T) {
	t.Parallel()
	wait, run := new(timing.Histogram), new(timing.Histogram)
	wait.ObserveN(time.Second, 3)
	run.ObserveN(time.Minute, 2)
	in := Slot{At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Counts: map[string]uint64{"ready": 7}}
	in.add(Name{}, &Figures{Pushed: 1, Fetched: 2, Acked: 3, Failed: 4, Died: 5, Expired: 6, Wait: wait})
	in.add(Name{Type: "Mail"}, &Figures{Fetched: 3, Wait: wait, Run: run})
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out, ok := decode(text)
	again, err := json.Marshal(out)
	if !ok || err != nil || string(again) != string(text) {
		t.Errorf("%s, %v, not %s", again, err, text)
	}
	if _, ok := decode([]byte("nonsense")); ok {
		t.Error("nonsense is a slot")
	}
}

// What earlier versions have kept is still there.
func TestEarlierSlots(t *testing.T) {
	t.Parallel()
	s, ok := decode([]byte(`{"at":"2026-11-18T00:57:00Z","pushed":9,"fetched":8,"acked":7,"failed":1,"died":1,"expired":2,
		"wait":{"jobs":9,"mean_seconds":0.5,"p50_seconds":0.25,"p95_seconds":2},"counts":{"ready":5}}`))
	f := s.Of(Name{})
	if !ok || s.At.Minute() != 57 || s.Counts["ready"] != 5 || f.Pushed != 9 || f.Fetched != 8 || f.Acked != 7 ||
		f.Failed != 1 || f.Died != 1 || f.Expired != 2 {
		t.Errorf("%v %+v %+v", ok, s, f)
	}
	if w := f.Wait; w == nil || w.Count != 9 || w.Mean() != 500*time.Millisecond ||
		w.Quantile(0.5) != 250*time.Millisecond || w.Quantile(0.95) != 2*time.Second {
		t.Errorf("%+v", f.Wait)
	}
	s, ok = decode([]byte(`{"at":"2026-11-18T00:57:00Z","parts":[{"d":"faktory","p":3},
		{"t":"Mail","f":2,"a":1,"x":1,"w":[80,2],"s":2000000000,"r":[84,2],"u":3000000000}]}`))
	f = s.Of(Name{Type: "Mail"})
	if !ok || f.Fetched != 2 || f.Wait == nil || f.Wait.Count != 2 || f.Wait.Mean() != time.Second || f.Run == nil ||
		f.Run.Mean() != 1500*time.Millisecond {
		t.Errorf("%v %+v", ok, f)
	}
}

// A recorder goes on with the slots that another has left, and what cannot be kept is told.
func TestRecorder(t *testing.T) {
	t.Parallel()
	e := open(t)
	now := time.Date(2000, 1, 1, 0, 0, 5, 0, time.UTC)
	reading := func(pushed uint64) *Reading {
		return &Reading{Parts: map[Name]*Figures{
			{}: {Pushed: pushed}, {Protocol: "p"}: {Pushed: pushed},
			{Namespace: "ns", Queue: "q"}: {Pushed: pushed},
		}}
	}
	for i := range 2 {
		c := &Recorder{Engine: e}
		if err := c.Load(now); err != nil {
			t.Fatal(err)
		}
		if err := c.Add(t.Context(), now, reading(uint64(1+i)), map[string]uint64{"ready": uint64(i)}); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, rings := range [][]Ring{All, Parts} {
		for i := range rings {
			r := &rings[i]
			if slots, err := r.Slots(e, now); err != nil || len(slots) != 0 {
				t.Errorf("%s: %v, %v while the slot is not over", r.Name, slots, err)
			}
			slots, err := r.Slots(e, now.Add(r.Step))
			if err != nil || len(slots) != 1 || Find(rings, r.Name) != r {
				t.Fatalf("%s: %v, %v", r.Name, slots, err)
			}
			all, queue := slots[0].Of(Name{}), slots[0].Of(Name{Namespace: "ns", Queue: "q"})
			if all.Pushed+queue.Pushed != 3 || all.Pushed*queue.Pushed != 0 {
				t.Errorf("%s: %+v %+v", r.Name, all, queue)
			}
			round := r.Step * time.Duration(r.slots)
			if slots, err := r.Slots(e, now.Add(round-r.Step)); err != nil || len(slots) != 1 {
				t.Errorf("%s: %v, %v before its place is needed", r.Name, slots, err)
			}
			if slots, err := r.Slots(e, now.Add(round)); err != nil || len(slots) != 0 {
				t.Errorf("%s: %v, %v after a round", r.Name, slots, err)
			}
		}
	}
	// A slot that a restart has taken up, and to which nothing was added, keeps what it tells.
	c := &Recorder{Engine: e}
	if err := c.Load(now); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), now.Add(2*All[0].Step), reading(1), nil); err != nil {
		t.Fatal(err)
	}
	if slots, err := All[0].Slots(e, now.Add(All[0].Step)); err != nil || slots[0].Counts["ready"] != 1 {
		t.Errorf("%v, %v after a restart", slots, err)
	}
	if Find(All, "hour") != nil {
		t.Error("an hour is a ring of all")
	}
	if err := c.Load(now.Add(30 * 24 * time.Hour)); err != nil || len(c.open) != 0 { // whole rounds of all rings
		t.Errorf("slots of a month ago are not over: %v, %v", c.open, err)
	}
	if err := c.Load(now); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if c.Flush(context.Background()) == nil || c.Load(now) == nil {
		t.Error("a closed engine keeps slots")
	}
}
