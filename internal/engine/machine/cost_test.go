package machine_test

import (
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// A job that uses nothing special writes its record and its list entries, and nothing else.
func TestPlainJobWritesNoMore(t *testing.T) {
	t.Parallel()
	core, err := engine.OpenCore(memstore.New(), start, engine.CoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var res job.Result
	changes := func(cmd job.Command) int {
		t.Helper()
		before := core.Changes()
		core.Apply(start, 1, 0, cmd, &res)
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		return core.Changes() - before
	}
	push := &job.Push{Spec: job.Spec{Namespace: namespace, Queue: "q", Body: []byte("body"), BodyKind: job.BodyBytes}}
	changes(push) // makes the queue
	if got := changes(push); got != 2 {
		t.Errorf("a push makes %d changes, want its record and its list entry", got)
	}
	if batch, _ := core.Seal(); batch == nil { // so that what follows does not cancel that out
		t.Fatal("nothing to commit")
	}
	if got := changes(&job.Fetch{Namespace: namespace, Queues: []string{"q"}}); got != 3 {
		t.Errorf("a fetch makes %d changes, want its record and two list entries", got)
	}
	if got := changes(&job.Fail{Ref: job.ByID(namespace, "q", 1), Need: job.NeedLeased}); got != 3 {
		t.Errorf("a failure makes %d changes, want its record, the failure and a list entry", got)
	}
	if got := changes(&job.Ack{Ref: job.ByID(namespace, "q", 2), Need: job.NeedAny}); got != 2 {
		t.Errorf("an ack makes %d changes, want the ends of its record and its list entry", got)
	}
}
