package engine

import "millrace/internal/store"

// Stepped is an engine without goroutines: whoever has it says when batches are sealed and given to
// the store, and when time is looked at. The simulation of a cluster drives it. Everything happens
// on the goroutine of its owner; what would wait, such as View and Caller.Do, must not be used,
// because nobody else would end the wait.
type Stepped struct{ *Engine }

// OpenStepped loads the state from the store.
func OpenStepped(o Options) (Stepped, error) {
	e, err := open(o)
	if err == nil {
		e.buildingFilter = true // else a goroutine would make a filter
	}
	return Stepped{e}, err
}

// Core returns what the engine drives, to be looked at.
func (s Stepped) Core() *Core { return s.core }

// Seal closes the open batch as the committer does when it is time. Give gives it to the store, and must be called
// before the next Seal. It is nil if there is nothing to commit or no other batch may be on its way.
func (s Stepped) Seal() (give func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.Err() != nil || len(s.flights) >= s.depth || s.core.Dirty() == 0 {
		return nil
	}
	c := s.seal()
	return func() { s.commit(c) }
}

// Tick applies a bounded piece of what is due, and reports whether there is more.
func (s Stepped) Tick() (more bool) {
	wait, stopped := s.tick()
	return !stopped && wait <= 0 && s.Err() == nil
}

// Read calls done with a snapshot that has everything that was answered before, or with an error.
func (s Stepped) Read(done func(store.Snapshot, error)) {
	s.onceCommitted(func() { done(s.committedSnapshot()) })
}

// GiveUp answers whatever is left after a failure, as the clock does.
func (s Stepped) GiveUp() { s.giveUp() }
