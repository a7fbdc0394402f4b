package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// visits is a store that counts the keys which readers are shown.
type visits struct {
	store.Store
	keys atomic.Int64
}

func (s *visits) Snapshot() (store.Snapshot, error) {
	snap, err := s.Store.Snapshot()
	return visited{snap, s}, err
}

type visited struct {
	store.Snapshot
	of *visits
}

func (v visited) Scan(r store.Range, visit func(key, value []byte) bool) error {
	return v.Snapshot.Scan(r, func(key, value []byte) bool {
		v.of.keys.Add(1)
		return visit(key, value)
	})
}

func (v visited) Get(dst, key []byte) ([]byte, bool, error) {
	v.of.keys.Add(1)
	return v.Snapshot.Get(dst, key)
}

// manyQueues opens an engine with two namespaces that have n queues of one job together.
func manyQueues(t *testing.T, n int) (*engine.Engine, *visits) {
	t.Helper()
	s := &visits{Store: memstore.New()}
	e, err := engine.Open(engine.Options{Store: s, Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	cmds := make([]job.Command, n)
	for i := range cmds {
		cmds[i] = &job.Push{Spec: job.Spec{Namespace: fmt.Sprint("ns", i%2), Queue: fmt.Sprint("q", n-i)}}
	}
	for _, res := range e.NewCaller().Do(t.Context(), cmds...) {
		if res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	return e, s
}

// What is asked for often reads no more with many queues than with few: sums nothing, namespaces one key each, the
// first queues as many as are wanted.
func TestTotalsReadNoQueues(t *testing.T) {
	t.Parallel()
	const queues = 5000
	e, s := manyQueues(t, queues)
	all, err := e.Sums("")
	if err != nil || all.Queues != queues || all.Counts[job.Ready] != queues || all.Totals[job.CountPushed] != queues {
		t.Errorf("sums %+v, %v", all, err)
	}
	list, err := e.SumsOf([]string{"ns0", "ns1", "none"})
	if err != nil || list[0].Queues != queues/2 || list[1].Queues != queues/2 || list[2] != (job.Sums{}) {
		t.Errorf("sums of namespaces %+v, %v", list, err)
	}
	active, err := e.Activity()
	if err != nil || len(active.Queues) != queues || active.Sums != all {
		t.Errorf("%d active queues, sums %+v, %v", len(active.Queues), active.Sums, err)
	}
	if n := s.keys.Swap(0); n != 0 {
		t.Errorf("sums and activity have read %d keys", n)
	}
	names, err := e.Namespaces("", 10)
	if err != nil || fmt.Sprint(names) != "[ns0 ns1]" {
		t.Errorf("namespaces %v, %v", names, err)
	}
	if names, err := e.Namespaces("ns0", 10); err != nil || fmt.Sprint(names) != "[ns1]" {
		t.Errorf("namespaces after the first %v, %v", names, err)
	}
	if n := s.keys.Swap(0); n != 3 {
		t.Errorf("three namespaces have taken %d keys", n)
	}
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	first, err := v.FirstQueues(3)
	if err == nil {
		err = v.Close()
	}
	if err != nil || len(first) != 3 || first[0].Name != "q5000" || first[1].Name != "q4999" ||
		first[2].Name != "q4998" {
		t.Errorf("first queues %+v, %v", first, err)
	}
	if n := s.keys.Swap(0); n > 6 {
		t.Errorf("three queues have taken %d keys", n)
	}
}
