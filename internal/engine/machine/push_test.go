package machine_test

import (
	"strings"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// What a job was pushed with stays its own, whether it is delivered at once or waits behind a backlog, although a push
// that is over leaves its memory to the next.
func TestPushesShareNoBuffers(t *testing.T) {
	t.Parallel()
	// One job of the backlog and one leased one are in memory.
	core, err := engine.OpenCore(memstore.New(), start, engine.CoreOptions{Window: 1, Resident: 1})
	if err != nil {
		t.Fatal(err)
	}
	var res job.Result
	apply := func(token uint64, cmd job.Command) {
		t.Helper()
		if core.Apply(start, 1, token, cmd, &res); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	const count = 8
	body := func(i int) string { return strings.Repeat(string(rune('a'+i)), 8) }
	push := func(queue string, i int) {
		t.Helper()
		b := []byte(body(i))
		apply(0, &job.Push{Spec: job.Spec{
			Namespace: namespace, Queue: queue, Body: b,
			BodyKind: job.BodyBytes, Extra: b,
		}})
		clear(b) // the caller's, which it uses again
	}
	same := func(what string, i int, j *job.Job) {
		t.Helper()
		if string(j.Body) != body(i) || string(j.Extra) != body(i) {
			t.Errorf("%s: job %d has the body %q and the extra %q, want %q", what, i, j.Body, j.Extra, body(i))
		}
	}

	var delivered []job.Job
	for i := range count {
		apply(uint64(i+1), &job.Fetch{Namespace: namespace, Queues: []string{"waited for"}, Wait: 1})
		push("waited for", i)
		for _, c := range core.Completed() {
			delivered = append(delivered, c.Result.Jobs...)
		}
	}
	if len(delivered) != count {
		t.Fatalf("%d jobs were delivered, want %d", len(delivered), count)
	}
	for i := range delivered {
		same("delivered at once", i, &delivered[i])
	}

	for i := range count {
		push("backlog", i)
	}
	for i := range count {
		if apply(0, &job.Fetch{Namespace: namespace, Queues: []string{"backlog"}}); len(res.Jobs) != 1 {
			t.Fatalf("fetch %d got %d jobs", i, len(res.Jobs))
		}
		same("backlog", i, &res.Jobs[0])
	}
}
