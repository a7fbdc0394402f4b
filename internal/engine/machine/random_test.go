package machine_test

import (
	"fmt"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// PickRandom is uniform over the queues that have a job, however many jobs they have
// and however often they are named.
func TestPickRandomIsUniform(t *testing.T) {
	t.Parallel()
	core, err := engine.OpenCore(memstore.New(), start, engine.CoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var res job.Result
	apply := func(rnd uint64, cmd job.Command) {
		t.Helper()
		core.Apply(start, rnd, 0, cmd, &res)
		if res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	const fetches = 3000
	for q := range 3 {
		for range fetches / (q + 1) { // the more the earlier
			apply(0, &job.Push{Spec: job.Spec{Namespace: namespace, Queue: fmt.Sprint("q", q)}})
		}
	}
	got := map[string]int{}
	fetch := &job.Fetch{
		Namespace: namespace, Queues: []string{"q0", "q0", "q1", "empty", "q2", "q0"},
		Pick: job.PickRandom, Max: 1,
	}
	for i := range uint64(fetches / 2) {
		apply(i*0x9e3779b97f4a7c15, fetch)
		j := &res.Jobs[0]
		got[j.Queue]++
		apply(0, &job.Release{Ref: job.ByID(namespace, j.Queue, j.ID), Need: job.NeedLeased})
	}
	for q, n := range got {
		// A third of 1500 with a standard deviation of 18.
		if n < 420 || n > 580 {
			t.Errorf("%s was picked %d times of %d", q, n, fetches/2)
		}
	}
}
