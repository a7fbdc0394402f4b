//go:build linux

package faults

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"millrace/internal/dialect/workq/workqtest"
	"millrace/test/harness"
	"millrace/test/suite"
)

// TestSuspended stops the process of the server for longer than a lease, as a debugger or a suspended machine does. A
// lease that has ended meanwhile has ended: the job is given out again, once. One that has not is still held, what was
// to come in that time has come, and nothing is lost.
func TestSuspended(t *testing.T) {
	t.Parallel()
	o := server(t, "--data-dir", filepath.Join(t.TempDir(), "data"))
	o.Env = append(o.Env, "TZ=Pacific/Auckland") // no zone makes a difference
	o.Also = []string{"workq"}
	s := suite.Start(t, o)
	dial := func() *workqtest.Client {
		c, err := workqtest.Dial(s.Addrs["workq"])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // the server may have closed it first
		return c
	}
	holder, other := dial(), dial()
	add := func(name string, lease time.Duration) string {
		j := workqtest.Job{ID: workqtest.NewID(), Name: name, TTR: lease, TTL: time.Hour, Payload: []byte(name)}
		if err := holder.Add(j); err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	lease := func(c *workqtest.Client, name string) (string, error) {
		j, err := c.Lease(10*time.Millisecond, name)
		return j.ID, err
	}
	const pause = 2 * time.Second
	short, kept := add("short", pause/2), add("kept", time.Hour)
	for _, name := range []string{"short", "kept"} {
		if _, err := lease(holder, name); err != nil {
			t.Fatal(err)
		}
	}
	due := workqtest.Job{
		ID: workqtest.NewID(), Name: "due", TTR: time.Minute, TTL: time.Hour,
		Time: time.Now().Add(pause / 2), Payload: []byte("due"),
	}
	if err := holder.Schedule(due); err != nil {
		t.Fatal(err)
	}

	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(pause)
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	if id, err := lease(other, "short"); err != nil || id != short {
		t.Errorf("the job whose lease has ended: %q, %v", id, err)
	}
	if id, err := lease(holder, "short"); err == nil {
		t.Errorf("it is given out twice: %q", id)
	}
	if id, err := lease(other, "kept"); err == nil {
		t.Errorf("a job that is held is given out: %q", id)
	}
	if id, err := lease(other, "due"); err != nil || id != due.ID {
		t.Errorf("the job that has become due: %q, %v", id, err)
	}
	for _, id := range []string{short, kept, due.ID} {
		if err := other.Complete(id, nil); err != nil {
			t.Errorf("complete %s: %v", id, err)
		}
	}
	if err := s.Stop(harness.StopPatience); err != nil {
		t.Error(err)
	}
}
