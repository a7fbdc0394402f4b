package engine

import (
	"testing"

	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// Of several Atomics with very many parts, one at a time asks for the lock, so that others wait for one of them.
// One with fewer parts does not wait for that.
func TestLongAtomicsTakeTurns(t *testing.T) {
	t.Parallel()
	e, err := Open(Options{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	atomic := func(parts int) <-chan *job.Error {
		c := &job.Atomic{}
		for range parts {
			c.Ops = append(c.Ops, &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q"}})
		}
		done := make(chan *job.Error, 1)
		go func() { done <- e.NewCaller().Do(t.Context(), c)[0].Err }()
		return done
	}
	e.longTurn.Lock() // another is at work
	long := atomic(partsMany + 1)
	for range 20 { // the long one has time to go wrong
		if err := <-atomic(partsMany); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-long:
		t.Error("a long one was applied beside another")
	default:
	}
	e.longTurn.Unlock()
	if err := <-long; err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A request that was under way when the engine ended is told what is durable, and nothing that may be lost.
func TestEndedBesideRequest(t *testing.T) {
	t.Parallel()
	e, err := Open(Options{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	e.NewCaller().Do(t.Context(), &job.Push{Spec: job.Spec{Namespace: "ns", Queue: "q"}})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for ahead, want := range []*job.Error{nil, job.ErrDraining} {
		r := &Request{Results: make([]job.Result, 1), needs: e.durable + uint64(ahead)}
		e.answerClosed(r)
		if got := r.Results[0].Err; got != want {
			t.Errorf("%d steps ahead of the store: %v, want %v", ahead, got, want)
		}
	}
}
