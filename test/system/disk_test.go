package system

import (
	"errors"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// TestDiskFloor gives the server less free disk than it wants: it must refuse
// new jobs and go on with all others.
func TestDiskFloor(t *testing.T) {
	t.Parallel()
	dir := suite.DataDir(t)
	s := suite.Start(t, options(dir))
	c := dial(t, s.Addr)
	for _, payload := range []string{"first", "second", "third"} {
		if _, err := c.Push("q", payload); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, s)

	s = suite.Start(t, options(dir, "--store-free-floor", "1024TiB"))
	c = dial(t, s.Addr)
	var no *harness.RefusedError
	if _, err := c.Push("q", "more"); !errors.As(err, &no) {
		t.Errorf("a push below the floor: %v, want it refused", err)
	}
	var held []harness.Job
	for _, payload := range []string{"first", "second", "third"} {
		j, ok, err := c.Fetch("q", time.Second)
		if err != nil || !ok || j.Payload != payload {
			t.Fatalf("fetch below the floor: %+v, %v, %v, want %s", j, ok, err, payload)
		}
		held = append(held, j)
	}
	if err := c.Ack(held[0].ID); err != nil {
		t.Errorf("an ack below the floor: %v", err)
	}
	if err := c.Nack(held[1].ID); err != nil {
		t.Errorf("a nack below the floor: %v", err)
	}
	// A transaction with a push is refused whole, and its ack with it.
	c.Queue("ATOMIC")
	c.QueueAck(held[2].ID)
	c.QueuePush("q", "more")
	if _, err := c.Do("DONE"); !errors.As(err, &no) {
		t.Errorf("a transaction with a push below the floor: %v, want it refused", err)
	}
	if err := c.Ack(held[2].ID); err != nil {
		t.Errorf("the job is no longer held after the refused transaction: %v", err)
	}
	stop(t, s)

	// With space again everything works, and what was acked is gone.
	s = suite.Start(t, options(dir))
	c = dial(t, s.Addr)
	if _, err := c.Push("other", "more"); err != nil {
		t.Errorf("a push with space again: %v", err)
	}
	left, ok, err := c.Fetch("q", 3*time.Second)
	if err != nil || !ok || left.ID != held[1].ID {
		t.Errorf("what is left: %+v, %v, %v, want job %d", left, ok, err, held[1].ID)
	}
}
