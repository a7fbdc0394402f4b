package torture

import (
	"cmp"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

const (
	killProducers = 32
	killWorkers   = 32
	killQueues    = 6
	// killBacklog bounds the jobs that wait, so that the drain at the end is short.
	killBacklog = 3000
	// killCutShort: every so manieth start is killed while it recovers.
	killCutShort = 7
)

// TestKill kills the server again and again under the load of all protocols
// at full speed, sometimes while it is still recovering, and checks what
// docs/semantics.md promises: what was acknowledged is not lost, what a worker has
// acknowledged does not come back, nobody gets what another one holds, and every
// body is the one that was pushed.
func TestKill(t *testing.T) {
	t.Parallel()
	began, kills := time.Now(), cmp.Or(*killCount, tier.Pick(50, 6))
	dir := suite.DataDir(t)
	y := killYard(protoCount)
	rnd := random("killer")
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run()
	}()
	interrupted := 0
	for number := 1; number <= kills; number++ {
		if number%killCutShort == 0 && suite.CutShort(t, options(dir),
			time.Millisecond+time.Duration(rnd.Int64N(int64(60*time.Millisecond)))) {
			interrupted++
			continue
		}
		l := y.begin(t, dir, number, false)
		<-time.After(50*time.Millisecond + time.Duration(rnd.Int64N(int64(*killAfter-50*time.Millisecond))))
		l.Kill()
	}
	last := y.begin(t, dir, kills+1, true)
	y.drain(t, last.Server)
	<-done
	if err := last.Server.Stop(harness.StopPatience); err != nil {
		t.Error(err)
	}
	y.report(t, "kill", kills, interrupted, time.Since(began))
	if y.book.acknowledged < 20*kills {
		t.Errorf("only %d pushes were acknowledged in %d lives: this was no load", y.book.acknowledged, kills)
	}
}
