package torture

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"millrace/test/harness"
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

// TestKill kills the server again and again under the load of all five protocols
// at full speed, sometimes while it is still recovering, and checks what
// docs/semantics.md promises: what was acknowledged is not lost, what a worker has
// acknowledged does not come back, nobody gets what another one holds, and every
// body is the one that was pushed.
func TestKill(t *testing.T) {
	t.Parallel()
	began := time.Now()
	dir := dataDir(t)
	y := killYard()
	rnd := random("killer")
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run()
	}()
	var ready []time.Duration
	interrupted := 0
	for number := 1; number <= *killCount; number++ {
		if number%killCutShort == 0 && cutShort(t, dir, rnd) {
			interrupted++
			continue
		}
		s := start(t, options(dir))
		ready = append(ready, s.Ready)
		if number == 1 {
			y.prepare(t, s)
		}
		l := newLife(number, s)
		y.stage.set(l)
		<-time.After(50*time.Millisecond + time.Duration(rnd.Int64N(int64(*killAfter-50*time.Millisecond))))
		close(l.ending)
		s.Kill()
	}
	s := start(t, options(dir))
	ready = append(ready, s.Ready)
	last := newLife(*killCount+1, s)
	last.last = true
	y.stage.set(last)
	y.drain(t, s)
	<-done
	if err := s.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	y.report(t, "kill", *killCount, interrupted, ready, time.Since(began))
	if y.book.acknowledged < 20**killCount {
		t.Errorf("only %d pushes were acknowledged in %d lives: this was no load", y.book.acknowledged, *killCount)
	}
}

// cutShort starts the server and kills it a moment later, while it recovers, and
// reports whether that came before the server was up.
func cutShort(t *testing.T, dir string, rnd *rand.Rand) bool {
	t.Helper()
	o := options(dir)
	o.Patience = time.Millisecond + time.Duration(rnd.Int64N(int64(60*time.Millisecond)))
	s, err := harness.Start(t.Context(), o)
	if err == nil {
		s.Kill()
		return false
	}
	if _, ended := errors.AsType[*harness.ExitError](err); ended {
		t.Error(err)
	}
	return true
}
