package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// Everything that a view shows is of the moment at which it was taken.
func TestViewIsOneMoment(t *testing.T) {
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
	must(push("a", "1"), push("a", "2"), push("b", "3"))
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // closed and looked at below
	must(&job.Delete{Ref: job.ByID("ns", "a", 1), Need: job.NeedAny}, push("a", "4"), push("c", "5"),
		&job.Remove{Namespace: "ns", Queue: "b"})

	if info, ok, err := v.Queue("ns", "a"); err != nil || !ok || info.Counts[job.Ready] != 2 ||
		info.Totals[job.CountDeleted] != 0 {
		t.Errorf("queue: %+v, %v, %v", info, ok, err)
	}
	qs, err := v.Queues("ns", "", 0)
	if err != nil || len(qs) != 2 || qs[0].Name != "a" || qs[1].Name != "b" {
		t.Errorf("queues: %+v, %v", qs, err)
	}
	p, err := v.List(engine.ListOptions{Namespace: "ns", Queue: "a", State: job.Ready})
	if err != nil || !slices.Equal(ids(p.Jobs), []job.ID{1, 2}) {
		t.Errorf("list: %v, %v", ids(p.Jobs), err)
	}
	for id, body := range []string{1: "1", 2: "2", 3: "3"} {
		if id == 0 {
			continue
		}
		if j, err := v.Get(job.ByID("ns", "", job.ID(id))); err != nil || string(j.Body) != body {
			t.Errorf("job %d: %+v, %v", id, j, err)
		}
	}
	if j, err := v.Get(job.ByID("ns", "", 4)); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a later job: %+v, %v", j, err)
	}
	if p, err := e.List(engine.ListOptions{Namespace: "ns", Queue: "a", State: job.Ready}); err != nil ||
		!slices.Equal(ids(p.Jobs), []job.ID{2, 4}) {
		t.Errorf("the present: %v, %v", ids(p.Jobs), err)
	}
	for range 2 {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A view has what was answered before it was taken, and nothing of a batch that is
// not durable yet (INV-11).
func TestViewWaitsForWhatWasAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		e, err := engine.Open(engine.Options{Store: g})
		if err != nil {
			t.Fatal(err)
		}
		pushed := do(t, e, push("q", ""))
		taken := make(chan *engine.View, 1)
		go func() {
			v, err := e.View()
			if err != nil {
				t.Error(err)
			}
			taken <- v
		}()
		synctest.Wait()
		if len(taken) != 0 {
			t.Error("a view was given out while a batch was on its way")
		}
		g.openGate()
		v := <-taken
		pushed.wants(t)
		if info, ok, err := v.Queue("ns", "q"); err != nil || !ok || info.Counts[job.Ready] != 1 {
			t.Errorf("queue: %+v, %v, %v", info, ok, err)
		}
		if err := errors.Join(v.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
}

// The engine closes when the last view is closed. Meanwhile new views are
// refused rather than kept waiting, and scans on open ones end.
func TestCloseWaitsForViews(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	if r := e.NewCaller().Do(t.Context(), push("q", "")); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	for err == nil { // until Close has begun
		var other *engine.View
		if other, err = e.View(); err == nil {
			err = other.Close()
		}
	}
	if !errors.Is(err, job.ErrDraining) {
		t.Errorf("another view: %v", err)
	}
	if _, err := v.Queues("ns", "", 0); !errors.Is(err, job.ErrDraining) {
		t.Errorf("a scan: %v", err)
	}
	select {
	case <-closed:
		t.Fatal("the engine closed under a view")
	default:
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := e.View(); !errors.Is(err, job.ErrDraining) {
		t.Errorf("a view of a closed engine: %v", err)
	}
}

// counting counts what is read.
type counting struct {
	store.Reader
	gets, keys int
}

func (c *counting) Get(dst, key []byte) ([]byte, bool, error) {
	c.gets++
	return c.Reader.Get(dst, key)
}

func (c *counting) Scan(r store.Range, visit func(key, value []byte) bool) error {
	return c.Reader.Scan(r, func(key, value []byte) bool {
		c.keys++
		return visit(key, value)
	})
}

// A page costs its own jobs and, for an offset, a key for each entry passed over;
// from a cursor it costs the same wherever it is.
func TestListCost(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	e, err := engine.Open(engine.Options{Store: st, Core: engine.CoreOptions{Window: 2}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000
	cmds := make([]job.Command, n)
	for i := range cmds {
		p := push("q", "body")
		if i%3 == 0 {
			p.Spec.Group = fmt.Sprint("g", i%7)
		}
		cmds[i] = p
	}
	if r := e.NewCaller().Do(t.Context(), cmds...); r[n-1].Err != nil {
		t.Fatal(r[n-1].Err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c := &counting{Reader: st}
	q := engine.NewQuery(c)
	read := func(o engine.ListOptions) (p engine.Page, gets, keys int) {
		t.Helper()
		o.Namespace, o.Queue, o.State, o.Limit = "ns", "q", job.Ready, 10
		c.gets, c.keys = 0, 0
		p, err := q.List(o)
		if err != nil || len(p.Jobs) != 10 {
			t.Fatalf("%+v: %d jobs, %v", o, len(p.Jobs), err)
		}
		return p, c.gets, c.keys
	}
	first, gets, keys := read(engine.ListOptions{})
	if first.Jobs[0].ID != 1 || keys > 12 {
		t.Errorf("the first page starts with %d and takes %d keys", first.Jobs[0].ID, keys)
	}
	deep, deepGets, deepKeys := read(engine.ListOptions{Skip: n - 500})
	if deep.Jobs[0].ID != n-499 || deepGets != gets || deepKeys > n-500+12 {
		t.Errorf("behind %d: job %d, %d gets instead of %d, %d keys", n-500, deep.Jobs[0].ID, deepGets, gets, deepKeys)
	}
	next, nextGets, nextKeys := read(engine.ListOptions{After: deep.Next})
	if next.Jobs[0].ID != n-489 || nextGets != gets || nextKeys > 12 {
		t.Errorf("the page behind it: job %d, %d gets instead of %d, %d keys", next.Jobs[0].ID,
			nextGets, gets, nextKeys)
	}
}

// EachQueue stops where it is told to, and goes on from there.
func TestEachQueue(t *testing.T) {
	t.Parallel()
	e := openSmall(t)
	c := e.NewCaller()
	for _, name := range []string{"c", "a", "d", "b"} {
		if r := c.Do(t.Context(), push(name, "")); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // a snapshot in memory
	var got []string
	for after := ""; len(got) < 4; after = got[len(got)-1] {
		before := len(got)
		err := v.EachQueue("ns", after, func(q *job.QueueInfo) bool {
			if q.Namespace != "ns" || q.Counts[job.Ready] != 1 {
				t.Errorf("%+v", q)
			}
			got = append(got, q.Name)
			return len(got)%3 != 0
		})
		if err != nil || len(got) == before {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("visited %q", got)
	}
}

// EachQueueFrom goes through all namespaces, from any queue on, whether that is there or not.
func TestEachQueueFrom(t *testing.T) {
	t.Parallel()
	e := openSmall(t)
	c := e.NewCaller()
	var all []string
	for _, ns := range []string{"a", "a\x00b", "b"} {
		for _, name := range []string{"1", "2"} {
			if r := c.Do(t.Context(), &job.Push{Spec: job.Spec{Namespace: ns, Queue: name}}); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
			all = append(all, ns+"/"+name)
		}
	}
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // a snapshot in memory
	for _, tt := range []struct {
		namespace, name string
		want            []string
	}{
		{"", "", all},
		{"a", "1", all},
		{"a", "2", all[1:]},
		{"a", "3", all[2:]},
		{"a\x00b", "", all[2:]},
		{"b", "2", all[5:]},
		{"c", "", nil},
	} {
		var got []string
		err := v.EachQueueFrom(tt.namespace, tt.name, func(q *job.QueueInfo) bool {
			got = append(got, q.Namespace+"/"+q.Name)
			return len(got) < 4
		})
		if err != nil || !slices.Equal(got, tt.want[:min(4, len(tt.want))]) {
			t.Errorf("from %q %q: %q, %v", tt.namespace, tt.name, got, err)
		}
	}
}
