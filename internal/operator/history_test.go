package operator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// through runs commands as a protocol does.
func (f *fixture) through(door job.Door, cmds ...job.Command) []job.Result {
	f.t.Helper()
	results := f.engine.NewCallerAt(door).Do(f.t.Context(), cmds...)
	for i := range results {
		if results[i].Err != nil {
			f.t.Fatalf("%T: %v", cmds[i], results[i].Err)
		}
	}
	return results
}

// passOn pushes a job through one door, lets it wait, and fetches and acks it through another.
func (f *fixture) passOn(queue string, in, out job.Door, wait time.Duration) {
	f.t.Helper()
	f.through(in, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: queue, Origin: in}})
	testkit.Advance(f.t, wait)
	j := f.through(out, &job.Fetch{
		Namespace: "ns", Queues: []string{queue}, Max: 1, Door: out, Lease: time.Hour,
		LeaseSet: true,
	})[0].Jobs[0]
	f.through(out, &job.Ack{Ref: j.Ref(), Need: job.NeedLeased})
}

// near reports whether a quantile is what it should be, within the width of a bucket.
func near(got, want float64) bool { return got >= want && got <= want*1.2 }

// Samples and history tell rates and waiting times by protocol and by queue, before and after a restart.
func TestWaitsByProtocolAndQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		f := openFixture(t, st, Options{SampleEvery: time.Second}, HandlerOptions{})
		testkit.Advance(t, 100*time.Millisecond)
		f.passOn("a", 3, 4, 200*time.Millisecond)
		f.passOn("b", 3, 3, 400*time.Millisecond)
		testkit.Advance(t, 500*time.Millisecond)
		s := f.service.Live()
		if s.Wait == nil || s.Wait.Jobs != 2 || !near(s.Wait.P95, 0.4) || !near(s.Wait.P50, 0.2) ||
			s.Wait.Mean < 0.299 || s.Wait.Mean > 0.301 {
			t.Errorf("all: %+v", s.Wait)
		}
		want := []api.ProtocolSample{
			{Protocol: "door3", Rates: api.Rates{Pushed: 2, Fetched: 1, Acked: 1, Failed: 0}},
			{Protocol: "door4", Rates: api.Rates{Pushed: 0, Fetched: 1, Acked: 1, Failed: 0}},
		}
		if len(s.Protocols) != len(want) {
			t.Fatalf("%+v", s.Protocols)
		}
		for i, p := range s.Protocols {
			if p.Protocol != want[i].Protocol || p.Rates != want[i].Rates || p.Wait == nil ||
				!near(p.Wait.P95, []float64{0.4, 0.2}[i]) {
				t.Errorf("%+v %+v, want %+v", p, p.Wait, want[i])
			}
		}
		for i, q := range s.Busiest {
			if q.Wait == nil || !near(q.Wait.P50, []float64{0.2, 0.4}[i]) {
				t.Errorf("%+v %+v", q, q.Wait)
			}
		}
		f.close()

		f = openFixture(t, st, Options{SampleEvery: time.Second}, HandlerOptions{})
		testkit.Advance(t, 1500*time.Millisecond)
		if s := f.service.Live(); s.Wait != nil || len(s.Protocols) != 0 {
			t.Errorf("nothing has happened: %+v", s)
		}
		f.passOn("a", 3, 4, 800*time.Millisecond)
		testkit.Advance(t, time.Minute)
		var parts api.Parts
		f.want(200, "GET", "/api/v1/history/parts", "", &parts)
		if parts.Seconds != 60 || len(parts.Protocols) != 2 || len(parts.Queues) != 2 {
			t.Fatalf("%+v", parts)
		}
		three, four, a := parts.Protocols[0], parts.Protocols[1], parts.Queues[0]
		if three.Protocol != "door3" || three.Pushed != 3 || three.Fetched != 1 || three.Acked != 1 ||
			four.Fetched != 2 || four.Pushed != 0 {
			t.Errorf("%+v %+v", three, four)
		}
		if a.Name != "a" || a.Namespace != "ns" || a.Pushed != 2 || a.Acked != 2 || a.Wait.Jobs != 2 ||
			!near(a.Wait.P95, 0.8) || !near(a.Wait.P50, 0.2) {
			t.Errorf("%+v %+v", a, a.Wait)
		}
		var h api.History
		f.want(200, "GET", "/api/v1/history?resolution=1m", "", &h)
		if len(h.Points) != 1 || h.Points[0].Wait == nil || !near(h.Points[0].Wait.P95, 0.8) {
			t.Errorf("%+v", h.Points)
		}
		f.want(400, "GET", "/api/v1/history/parts?period=year", "", nil)
		f.close()
	})
}

// However much happens and however long, the history of parts stays small, and old slots are left out.
func TestPartsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{SampleEvery: time.Second}, HandlerOptions{})
		testkit.Advance(t, time.Second)
		for i := range 60 {
			for range 1 + i {
				f.push(job.Spec{Queue: fmt.Sprintf("q%03d", i)})
			}
		}
		testkit.Advance(t, 2*time.Minute)
		parts, err := f.service.Parts("hour")
		if err != nil || len(parts.Queues) != 20 || parts.Queues[0].Name != "q059" || parts.Queues[0].Pushed != 60 {
			t.Errorf("%+v, %v", parts, err)
		}
		testkit.Advance(t, 2*time.Hour)
		if parts, err = f.service.Parts("hour"); err != nil || len(parts.Queues) != 0 || parts.Seconds > 3600 {
			t.Errorf("%+v, %v", parts, err)
		}
		if parts, err = f.service.Parts("day"); err != nil || len(parts.Queues) != 20 {
			t.Errorf("%+v, %v", parts, err)
		}
		values, err := f.engine.Values("admin.parts", "", 0)
		if err != nil || len(values) > 60+96+120 || len(values) < 60 {
			t.Errorf("%d slots, %v", len(values), err)
		}
		f.close()
	})
}

// The history of a queue has the slots of a period, also those in which it did nothing.
func TestQueueHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{SampleEvery: time.Second}, HandlerOptions{})
		defer f.close()
		testkit.Advance(t, 2*time.Second)
		f.push(job.Spec{Queue: "q"})
		f.push(job.Spec{Queue: "other"})
		testkit.Advance(t, 10*time.Second)
		f.do(&job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1})
		testkit.Advance(t, 3*time.Minute)
		got, err := f.service.QueueHistory("ns", "q", "hour")
		if err != nil || len(got.Points) < 2 || got.Seconds != 60 {
			t.Fatalf("%+v, %v", got, err)
		}
		var pushed, fetched uint64
		waits := 0
		for i, p := range got.Points {
			if i > 0 && !got.Points[i-1].At.Before(p.At) {
				t.Errorf("point %d is not in order", i)
			}
			pushed, fetched = pushed+p.Pushed, fetched+p.Fetched
			if p.Wait != nil {
				waits++
			}
		}
		if pushed != 1 || fetched != 1 || waits != 1 {
			t.Errorf("%d pushed, %d fetched, %d waits", pushed, fetched, waits)
		}
		if _, err := f.service.QueueHistory("ns", "q", "year"); err == nil {
			t.Error("a year is taken")
		}
	})
}
