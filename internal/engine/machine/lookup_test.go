package machine_test

import (
	"fmt"
	"testing"

	"millrace/internal/job"
)

// Whoever names a job that is not there costs a few reads, however many queues there are.
func TestLookupsDoNotWalk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 100 {
		b.do(&job.Push{Spec: job.Spec{Namespace: namespace, Queue: fmt.Sprint("q", i), Key: fmt.Sprint(i)}})
	}
	number := job.ByNumber(namespace, 999)
	number.ID = 999
	for name, ref := range map[string]job.Ref{
		"id alone": job.ByID(namespace, "", 999), "number and id": number, "number": job.ByNumber(namespace, 999),
		"place": job.ByPlace(namespace, 50, 999), "other place": job.ByPlace(namespace, 50, 3),
		"key":           job.ByKey(namespace, "999"),
		"id in a queue": job.ByID(namespace, "q50", 999), "serial": job.BySerial(namespace, "q50", 999),
	} {
		before := b.storage.reads
		b.m.Apply(start, 1, 0, &job.Ack{Ref: ref, By: job.Holder{Node: 1, Num: 1}, Need: job.NeedAny}, &b.res)
		if b.res.Err != job.ErrNotFound {
			t.Errorf("%s: %v", name, b.res.Err)
		}
		if got := b.storage.reads - before; got > 2 {
			t.Errorf("%s costs %d reads", name, got)
		}
	}
	push := &job.Push{Spec: job.Spec{
		Namespace: namespace, Queue: "q",
		BlockedBy: []job.Blocker{{QueueNum: 50, ID: 999}, {Number: 999}},
	}}
	if got := b.do(push); got > 4 {
		t.Errorf("a push that waits for two jobs which are not there costs %d reads", got)
	}
}
