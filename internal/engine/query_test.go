package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// openSmall opens an engine that keeps little in memory and purges in large.
func openSmall(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Options{
		Store: memstore.New(),
		Core:  engine.CoreOptions{Window: 2, Few: 2, SweepStep: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func ids(jobs []job.Job) []job.ID {
	out := make([]job.ID, len(jobs))
	for i := range jobs {
		out[i] = jobs[i].ID
	}
	return out
}

// pages reads a list page by page.
func pages(t *testing.T, e *engine.Engine, o engine.ListOptions) []job.ID {
	t.Helper()
	var out []job.ID
	for range 100 {
		p, err := e.List(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Jobs) > o.Limit {
			t.Fatalf("%d jobs on a page of %d", len(p.Jobs), o.Limit)
		}
		out = append(out, ids(p.Jobs)...)
		if p.Next == "" {
			return out
		}
		o.After, o.Skip = p.Next, 0
	}
	t.Fatal("the list does not end")
	return nil
}

// Every list can be read in pages of any size, both ways, from any position.
func TestListPages(t *testing.T) {
	t.Parallel()
	e := openSmall(t)
	c := e.NewCaller()
	must := func(cmds ...job.Command) {
		t.Helper()
		for i, r := range c.Do(t.Context(), cmds...) {
			if r.Err != nil {
				t.Fatalf("command %d: %v", i, r.Err)
			}
		}
	}
	const n = 12
	var queue string
	ref := func(id job.ID) job.Ref { return job.ByID("ns", queue, id) }
	id := job.ID(0)
	each := func(s job.State, p *job.Push, then func(id job.ID) job.Command) {
		queue = s.String()
		for i := range n {
			q := *p
			q.Spec.Namespace, q.Spec.Queue = "ns", queue
			q.Spec.Policy.Priority = int64(i % 3)
			id++
			must(&q)
			if then != nil {
				must(then(id))
			}
		}
	}
	each(job.Scheduled, &job.Push{Spec: job.Spec{Delay: time.Hour}}, nil)
	must(push("blocker", ""))
	id++
	blocker := id
	each(job.Blocked, &job.Push{Spec: job.Spec{BlockedBy: []job.Blocker{{QueueNum: 2, ID: blocker}}}}, nil)
	each(job.Leased, &job.Push{}, func(job.ID) job.Command {
		return &job.Fetch{
			Namespace: "ns", Queues: []string{"leased"}, Max: 1, OnEnd: job.OnEnd(id % 2),
			Holder: job.Holder{Num: 1},
		}
	})
	each(job.Retrying, &job.Push{Spec: job.Spec{Policy: job.Policy{Backoff: job.Backoff{Unit: time.Hour, Power: 1}}}},
		func(id job.ID) job.Command { return &job.Fail{Ref: ref(id), Need: job.NeedAny} })
	each(job.Buried, &job.Push{}, func(id job.ID) job.Command { return &job.Bury{Ref: ref(id), Need: job.NeedAny} })
	each(job.Done, &job.Push{}, func(id job.ID) job.Command {
		return &job.Ack{Ref: ref(id), Need: job.NeedAny, Keep: true}
	})
	each(job.Failed, &job.Push{Spec: job.Spec{Policy: job.Policy{MaxFails: 1, Exhaust: job.ExhaustKeep}}},
		func(id job.ID) job.Command { return &job.Fail{Ref: ref(id), Need: job.NeedAny} })
	each(job.Dead, &job.Push{}, func(id job.ID) job.Command { return &job.Kill{Ref: ref(id)} })
	// Ready jobs with and without a group are one list.
	for i := range n {
		p := push("ready", "")
		p.Spec.Policy.Priority = int64(i % 3)
		if i%2 == 0 {
			p.Spec.Group = fmt.Sprint("g", i%4)
		}
		must(p)
	}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		o := engine.ListOptions{Namespace: "ns", Queue: s.String(), State: s, Limit: n + 1}
		want := pages(t, e, o)
		if len(want) != n {
			t.Fatalf("%v: %d of %d jobs are listed", s, len(want), n)
		}
		backwards := slices.Clone(want)
		slices.Reverse(backwards)
		for _, limit := range []int{1, 2, 5, n, n + 1} {
			o := o
			o.Limit = limit
			for _, o.Reverse = range []bool{false, true} {
				all := want
				if o.Reverse {
					all = backwards
				}
				for _, o.Skip = range []int{0, 1, 7, n, n + 5} {
					if got := pages(t, e, o); !slices.Equal(got, all[min(o.Skip, n):]) {
						t.Errorf("%v, %+v: %v, want %v", s, o, got, all[min(o.Skip, n):])
					}
				}
			}
		}
	}
	// The order of ready jobs is that in which they are fetched.
	queue = "ready"
	want := pages(t, e, engine.ListOptions{Namespace: "ns", Queue: "ready", State: job.Ready, Limit: 5})
	priority := int64(2)
	for _, id := range want {
		j, err := e.Get(ref(id))
		if err != nil || j.Policy.Priority > priority {
			t.Fatalf("job %d: %+v, %v", id, j, err)
		}
		priority = j.Policy.Priority
	}
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	info, _, err := v.Queue("ns", "ready")
	if above, looked, err := v.ReadyAbove(&info, 1, 2*n); above != n/3 || looked != n || err != nil {
		t.Errorf("%d of %d jobs are above priority 1, %v", above, looked, err)
	}
	if err := errors.Join(err, v.OldestReady(&info), v.Close()); err != nil || info.Counts[job.Ready] != n ||
		info.OldestReady == 0 {
		t.Errorf("queue is %+v, %v", info, err)
	}
}

func TestListRefusals(t *testing.T) {
	t.Parallel()
	e := openSmall(t)
	if r := e.NewCaller().Do(t.Context(), push("q", "body")); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	var refusal *job.Error
	if _, err := e.List(engine.ListOptions{Namespace: "ns", Queue: "nowhere", State: job.Ready}); !errors.As(err,
		&refusal) || refusal.Kind != job.NotFound {
		t.Errorf("an unknown queue: %v", err)
	}
	if _, err := e.List(engine.ListOptions{
		Namespace: "ns", Queue: "q", State: job.Ready,
		After: "no hex",
	}); !errors.As(err, &refusal) || refusal.Kind != job.Invalid {
		t.Errorf("a malformed cursor: %v", err)
	}
	// A cursor that is hex and nonsense reads from somewhere, without harm.
	if p, err := e.List(engine.ListOptions{Namespace: "ns", Queue: "q", State: job.Ready, After: "00"}); err != nil ||
		len(p.Jobs) != 1 || p.Jobs[0].Body != nil {
		t.Errorf("a strange cursor: %+v, %v", p, err)
	}
	if p, err := e.List(engine.ListOptions{Namespace: "ns", Queue: "q", State: job.Ready, Bodies: true}); err != nil ||
		string(p.Jobs[0].Body) != "body" {
		t.Errorf("with bodies: %+v, %v", p, err)
	}
	if p, err := e.List(engine.ListOptions{Namespace: "ns", Queue: "q", State: job.Dead}); err != nil ||
		len(p.Jobs) != 0 || p.Next != "" {
		t.Errorf("an empty list: %+v, %v", p, err)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	e := openSmall(t)
	c := e.NewCaller()
	spec := job.Spec{
		Namespace: "ns", Queue: "q", Key: "k", Numbered: true, Type: "type", Body: []byte("body"),
		BodyKind: job.BodyJSON,
		Extra:    []byte("extra"), Origin: 3, Policy: job.Policy{MaxFails: 2, Exhaust: job.ExhaustKeep},
	}
	for i, r := range c.Do(t.Context(), &job.Configure{
		Namespace: "ns", Queue: "q",
		Settings: job.Settings{Serials: true},
	},
		push("other", ""), &job.Push{Spec: spec},
		&job.Fail{
			Ref: job.ByKey("ns", "k"), Need: job.NeedAny,
			Failure: job.Failure{Type: "T", Message: "m", Backtrace: []string{"a", "b"}},
		},
		&job.Fail{Ref: job.ByKey("ns", "k"), Need: job.NeedAny, Result: []byte("result")},
		&job.Push{Spec: job.Spec{Namespace: "ns", Queue: "another", Key: "k"}},
		&job.Push{Spec: job.Spec{Namespace: "elsewhere", Queue: "q", Key: "x"}},
		&job.Push{Spec: job.Spec{Namespace: "ns", Queue: "slots", Policy: job.Policy{DeadSlots: true}}},
		&job.Kill{Ref: job.ByID("ns", "slots", 5)},
		&job.Delete{Ref: job.ByID("ns", "slots", 5), Need: job.NeedAny}) {
		if r.Err != nil {
			t.Fatalf("command %d: %v", i, r.Err)
		}
	}
	for name, ref := range map[string]job.Ref{
		"id":               job.ByID("ns", "q", 2),
		"id alone":         job.ByID("ns", "", 2),
		"place":            job.ByPlace("ns", 1, 2),
		"place and queue":  {Kind: job.RefPlace, Namespace: "ns", Queue: "q", QueueNum: 1, ID: 2},
		"key, the oldest":  job.ByKey("ns", "k"),
		"serial":           job.BySerial("ns", "q", 0),
		"number":           job.ByNumber("ns", 2),
		"number and queue": {Kind: job.RefNumber, Namespace: "ns", Queue: "q", Number: 2},
		"key and queue":    {Kind: job.RefKey, Namespace: "ns", Queue: "q", Key: "k"},
	} {
		j, err := e.Get(ref)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if j.ID != 2 || j.Namespace != "ns" || j.Queue != "q" || j.QueueNum != 1 || j.Key != "k" ||
			j.State != job.Failed || string(j.Body) != "body" ||
			j.BodyKind != job.BodyJSON || string(j.Extra) != "extra" || j.Type != "type" || j.Origin != 3 ||
			string(j.Result) != "result" || len(j.Failures) != 2 || j.Failures[0].Backtrace[1] != "b" || j.Fails != 2 {
			t.Errorf("%s: %+v", name, j)
		}
	}
	for name, ref := range map[string]job.Ref{
		"unknown id":        job.ByID("ns", "", 99),
		"an empty slot":     job.ByID("ns", "", 5),
		"other place":       job.ByPlace("ns", 2, 2),
		"no place":          job.ByPlace("ns", 99, 2),
		"place elsewhere":   job.ByPlace("elsewhere", 1, 2),
		"place, other name": {Kind: job.RefPlace, Namespace: "ns", Queue: "other", QueueNum: 1, ID: 2},
		"id in a queue":     job.ByID("ns", "other", 2),
		"unknown queue":     job.ByID("ns", "nowhere", 2),
		"other namespace":   job.ByID("elsewhere", "", 2),
		"unknown key":       job.ByKey("ns", "x"),
		"key elsewhere":     job.ByKey("elsewhere", "k"),
		"key, other queue":  {Kind: job.RefKey, Namespace: "ns", Queue: "other", Key: "k"},
		"unknown serial":    job.BySerial("ns", "q", 1),
		"serial nowhere":    job.BySerial("ns", "nowhere", 0),
		"not numbered":      job.ByNumber("ns", 1),
		"number elsewhere":  job.ByNumber("elsewhere", 2),
		"number in a queue": {Kind: job.RefNumber, Namespace: "ns", Queue: "other", Number: 2},
	} {
		var refusal *job.Error
		if j, err := e.Get(ref); !errors.As(err, &refusal) || refusal.Kind != job.NotFound {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	e := openSmall(t)
	c := e.NewCaller()
	for _, name := range [][2]string{
		{"a", "q2"},
		{"b", "q1"},
		{"a", "q10"},
		{"a", "q1"},
		{"a\x00", "q"},
		{"ab", "q"},
		{"a", "q1\x00"},
		{"a", "é"},
	} {
		if r := c.Do(t.Context(), &job.Configure{Namespace: name[0], Queue: name[1]}); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	names := func(namespace, after string, limit int) (out []string) {
		t.Helper()
		qs, err := e.Queues(namespace, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for i := range qs {
			out = append(out, qs[i].Namespace+"/"+qs[i].Name)
		}
		return out
	}
	all := []string{"a/q1", "a/q1\x00", "a/q10", "a/q2", "a/é"}
	if got := names("a", "", 0); !slices.Equal(got, all) {
		t.Errorf("queues of a: %q", got)
	}
	for limit := 1; limit < 6; limit++ {
		var got []string
		for after := ""; ; {
			page := names("a", after, limit)
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			after = page[len(page)-1][len("a/"):]
		}
		if !slices.Equal(got, all) {
			t.Errorf("queues of a in pages of %d: %q", limit, got)
		}
	}
	if got := names("a", "q15", 0); !slices.Equal(got, all[3:]) {
		t.Errorf("after a name that is not there: %q", got)
	}
	if got := names("", "", 0); !slices.Equal(got, append(slices.Clone(all), "a\x00/q", "ab/q", "b/q1")) {
		t.Errorf("all queues: %q", got)
	}
	if got := names("", "", 3); !slices.Equal(got, all[:3]) {
		t.Errorf("the first three: %q", got)
	}
	if got := names("nowhere", "", 0); len(got) != 0 {
		t.Errorf("of an unknown namespace: %q", got)
	}
}

// Purged jobs are invisible from the moment of the purge, whatever of them is left.
func TestPurgedJobsAreInvisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		e, err := engine.Open(engine.Options{Store: g, Core: engine.CoreOptions{Few: 2, SweepStep: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			g.openGate()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		var cmds []job.Command
		for i := range 20 {
			p := push("q", "")
			p.Spec.Key, p.Spec.Numbered = fmt.Sprint("k", i), true
			cmds = append(cmds, p)
		}
		do(t, e, cmds...)
		g.let(1)
		purged := do(t, e, &job.Purge{Namespace: "ns", Queue: "q", State: job.Ready})
		g.let(1)
		purged.wants(t)
		for i := range 20 {
			id := job.ID(i + 1)
			for _, ref := range []job.Ref{
				job.ByID("ns", "q", id), job.ByID("ns", "", id),
				job.ByKey("ns", fmt.Sprint("k", i)), job.ByNumber("ns", id.Number()),
			} {
				q := engine.NewQuery(g.Store)
				if j, err := q.Get(ref); !errors.Is(err, job.ErrNotFound) {
					t.Fatalf("a purged job is there: %+v, %v", j, err)
				}
			}
		}
		p, err := engine.NewQuery(g.Store).List(engine.ListOptions{Namespace: "ns", Queue: "q", State: job.Ready})
		if err != nil || len(p.Jobs) != 0 {
			t.Errorf("listed: %+v, %v", p, err)
		}
		if info, _, err := engine.NewQuery(g.Store).Queue("ns", "q"); err != nil || info.Total() != 0 ||
			info.Totals[job.CountDeleted] != 20 {
			t.Errorf("queue is %+v, %v", info, err)
		}
	})
}
