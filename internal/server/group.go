package server

import (
	"sync"
	"time"
)

// group runs what serves the listeners.
type group struct {
	failed chan error    // one for each that ended with an error; never full
	ended  chan struct{} // closed when all have ended
}

// startAll runs all functions, each on a goroutine of its own.
func startAll(runs []func() error) *group {
	g := &group{failed: make(chan error, len(runs)), ended: make(chan struct{})}
	var wg sync.WaitGroup
	for _, run := range runs {
		wg.Go(func() {
			if err := run(); err != nil {
				g.failed <- err
			}
		})
	}
	go func() {
		wg.Wait()
		close(g.ended)
	}()
	return g
}

// wait reports whether all have ended within the given time.
func (g *group) wait(patience time.Duration) bool { return waitFor(g.ended, patience) }

// waitFor reports whether the channel was closed within the given time.
func waitFor(c <-chan struct{}, patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}
