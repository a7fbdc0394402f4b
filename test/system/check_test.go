package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"millrace/test/harness"
	"millrace/test/suite"
)

// command runs the binary as an operator would and returns what it prints.
func command(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program.Bin, args...).Output()
	if err != nil {
		exit := &exec.ExitError{}
		_ = errors.As(err, &exit)
		t.Fatalf("millrace %q: %v\n%s", args, err, exit.Stderr)
	}
	return out
}

// TestCheckAfterKill verifies what kill -9 under load leaves: it is sound, it has every
// job that was acknowledged, and a copy of it serves.
func TestCheckAfterKill(t *testing.T) {
	t.Parallel()
	dir := suite.DataDir(t)
	acked := 0
	for round := range 3 {
		s := suite.Start(t, options(dir))
		const producers = 4
		pushed := make(chan int, producers)
		reached := make(chan struct{}, producers)
		for p := range producers {
			c := dial(t, s.Addr)
			go func() {
				count := 0
				for ; ; count++ {
					if _, err := c.Push("q", fmt.Sprintf("%d-%d-%d", round, p, count)); err != nil {
						break // the server was killed
					}
					if count == 100 {
						reached <- struct{}{}
					}
				}
				pushed <- count
			}()
		}
		for range producers {
			<-reached
		}
		s.Kill()
		for range producers {
			acked += <-pushed
		}
		var report struct {
			OK   bool
			Jobs map[string]int
		}
		if err := json.Unmarshal(command(t, "check", "--json", dir), &report); err != nil {
			t.Fatal(err)
		}
		if !report.OK || report.Jobs["ready"] < acked {
			t.Fatalf("round %d: %+v, but %d pushes were acknowledged", round, report, acked)
		}
	}
	restored := suite.DataDir(t)
	command(t, "restore", dir, restored)
	s := suite.Start(t, options(restored))
	if _, ok, err := dial(t, s.Addr).Fetch("q", harness.Patience); err != nil || !ok {
		t.Errorf("fetch from the restored directory: %v, %v", ok, err)
	}
	stop(t, s)
}
