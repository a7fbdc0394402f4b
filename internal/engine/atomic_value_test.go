package engine_test

import (
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// A value in an Atomic is set together with its pushes, or not at all. Jobs can be looked up by a key that several
// have.
func TestAtomicValue(t *testing.T) {
	t.Parallel()
	e := open(t, memstore.New(), engine.DurabilityFsync)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	first, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	if id, err := first.NextID(); id != 1 || err != nil {
		t.Errorf("the first job would get %d, %v", id, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{Namespace: "ns", Queue: "q", Key: "k"}
	unique := spec
	unique.Unique = true
	set := &job.SetValue{Space: "s", Name: "n", Value: []byte("v")}
	do := func(want job.Kind, cmd job.Command) {
		t.Helper()
		var got job.Kind
		if err := e.NewCaller().Do(t.Context(), cmd)[0].Err; err != nil {
			got = err.Kind
		}
		if got != want {
			t.Errorf("%+v is refused with %v, want %v", cmd, got, want)
		}
	}
	value := func() string {
		v, _, err := e.Value("s", "n")
		if err != nil {
			t.Fatal(err)
		}
		return string(v)
	}
	do(job.Duplicate, &job.Atomic{Ops: []job.Command{&job.Push{Spec: spec}, set, &job.Push{Spec: unique}}})
	do(job.Invalid, &job.Atomic{Ops: []job.Command{&job.SetValue{Space: "s", Name: "n", IfAbsent: true}}})
	if got := value(); got != "" {
		t.Errorf("a command that was refused has set %q", got)
	}
	do(0, &job.Atomic{Ops: []job.Command{&job.Push{Spec: spec}, &job.Push{Spec: spec}, set}})
	if got := value(); got != "v" {
		t.Errorf("the value is %q", got)
	}
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = v.Close() }() // it was only read
	jobs, err := v.Keyed("ns", "k")
	if err != nil || len(jobs) != 2 || jobs[0].ID != 1 || jobs[1].ID != 2 || jobs[0].Queue != "q" {
		t.Errorf("%+v, %v", jobs, err)
	}
	if id, err := v.NextID(); id != 3 || err != nil {
		t.Errorf("the next job would get %d, %v", id, err)
	}
}
