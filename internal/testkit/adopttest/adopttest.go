// Package adopttest is what the tests of dialect.Adopter share.
package adopttest

import (
	"strings"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// Engine opens an engine in memory for the length of a test.
func Engine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() }) // in memory
	return e
}

// Do does what takes over an arrival. It returns the result, and what stays behind.
func Do(t *testing.T, e *engine.Engine, d dialect.Adopter, a *dialect.Arrival) (r job.Result, lost string) {
	t.Helper()
	cmd, lost, err := d.Adopt(a)
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	if r = e.NewCaller().Do(t.Context(), cmd)[0]; r.Err != nil {
		t.Fatalf("%+v: %v", a, r.Err)
	}
	return r, lost
}

// Take takes over a job that arrives in the namespace ns. It returns the job as it is here, and what of it stays
// behind.
func Take(t *testing.T, e *engine.Engine, d dialect.Adopter, a *dialect.Arrival) (j job.Job, lost string) {
	t.Helper()
	r, lost := Do(t, e, d, a)
	j, err := e.Get(job.ByID("ns", a.Queue, r.ID))
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	return j, lost
}

// Order fetches some jobs of the queue q in the namespace ns, and puts together what show tells of each.
func Order(t *testing.T, e *engine.Engine, jobs int, show func(*job.Job) string) (order string) {
	t.Helper()
	for range jobs {
		r := e.NewCaller().Do(t.Context(), &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1})[0]
		if r.Err != nil || len(r.Jobs) != 1 {
			t.Fatal(r.Err)
		}
		order += show(&r.Jobs[0])
	}
	return order
}

// Refusal is an arrival that cannot be taken over, and a part of the reason.
type Refusal struct {
	Arrival dialect.Arrival
	Want    string
}

// Refused checks that the reasons are told.
func Refused(t *testing.T, d dialect.Adopter, all []Refusal) {
	t.Helper()
	for i := range all {
		if _, _, err := d.Adopt(&all[i].Arrival); err == nil || !strings.Contains(err.Error(), all[i].Want) {
			t.Errorf("%+v: %v, want %s", all[i].Arrival, err, all[i].Want)
		}
	}
}
