package raftsim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/replica"
	"millrace/internal/store"
)

// fault is a bug planted into a cluster.
type fault struct {
	name string

	cutsApplied, keepsID, wallClock bool
	unproven, answersLost           bool
}

// faults are what the simulation must be able to find, and how what is found begins.
var faults = []struct {
	fault

	found []string
}{
	{fault{name: "nothing is confirmed", unproven: true}, []string{"R-3", "R-6", "R-7"}},
	{fault{name: "a lost leadership answers", answersLost: true}, []string{"R-3", "R-6", "R-7", "R-9"}},
	{fault{name: "the log is cut at what is applied", cutsApplied: true}, []string{"R-1", "R-2", "R-5", "node"}},
	{
		fault{name: "a node keeps its id after it has lost its data", keepsID: true},
		[]string{"R-1", "R-2", "R-3", "R-5", "R-9", "node"},
	},
	{fault{name: "a term begins with the wall clock", wallClock: true}, []string{"R-8"}},
}

// TestPlantedBugs asserts that the simulation is worth something: each of these bugs is found within a moderate number
// of runs, and as what it is.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const runs = 200
			for seed := range uint64(runs) {
				r := lifetime(t, seed, &f.fault, 15*time.Second)
				if r.err == nil {
					continue
				}
				if !slices.ContainsFunc(f.found, func(prefix string) bool {
					return strings.HasPrefix(r.err.Error(), prefix)
				}) {
					t.Errorf("found by run %d, but not as one of %q: %v", seed+1, f.found, r.err)
				}
				t.Logf("found by run %d: %.300v", seed+1, r.err)
				return
			}
			t.Errorf("not found in %d runs", runs)
		})
	}
}

// store is a term as the engine sees it, with the planted bug.
func (f *fault) store(t *replica.Term) store.Store { return &termStore{t, f} }

type termStore struct {
	*replica.Term

	fault *fault
}

// Confirm lets the engine ask for a proof.
func (s *termStore) Confirm(done func(error)) {
	if s.fault.unproven {
		go done(nil)
		return
	}
	s.Term.Confirm(done)
}

// Commit implements store.Store.
func (s *termStore) Commit(b *store.Batch, done func(error)) {
	switch {
	case s.fault.answersLost:
		s.Term.Commit(b, func(error) { done(nil) })
	default:
		s.Term.Commit(b, done)
	}
}
