package dialect

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Shared is what the connections of all protocols of a server share: turns, and memory for input that is not whole yet.
type Shared struct {
	// turns limits the connections that have received more than they can do at once: one fewer than the processors
	// may be at work. All other connections need no turn. So the many commands of some clients do not keep the
	// single command of another waiting, and one processor always listens to the network.
	turns chan struct{}
	// alone has one place, for who makes an answer that takes long (see TakeAlone).
	alone chan struct{}
	// taken is the memory for unfinished input that connections have, most the bound on it: many connections with a
	// long command each must not add up to more memory than the machine has, whatever the limits of one of them.
	taken atomic.Int64
	most  int64
	// names are the names of queues that connections remember, beyond one of each.
	names, refused atomic.Int64
	// patience is how long a command may take from its first byte to its last.
	patience time.Duration
}

// DefaultInput is how much memory unfinished input may take, all connections together, unless NewShared is told
// otherwise.
const DefaultInput = 256 << 20

// DefaultPatience is how long a command may take to arrive unless NewShared is told otherwise.
const DefaultPatience = time.Minute

// NewShared returns what the connections of a server share. Unfinished input may take that many bytes, and a command
// that time to arrive; zero is the default of either.
func NewShared(input int64, patience time.Duration) *Shared {
	if input <= 0 {
		input = DefaultInput
	}
	if patience <= 0 {
		patience = DefaultPatience
	}
	return &Shared{
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)), alone: make(chan struct{}, 1),
		most: input, patience: patience,
	}
}

// TakeTurn waits for a turn for work that is long and does not wait. The caller calls end when it is done.
func (s *Shared) TakeTurn() (end func()) {
	s.turns <- struct{}{}
	return func() { <-s.turns }
}

// namesMost bounds the names of queues that all connections together remember: each may remember many, and there may be
// many connections.
const namesMost = 1 << 18

// HoldName remembers one more name. It reports false if there are too many; else DropNames gives it back.
func (s *Shared) HoldName() bool {
	if s.names.Add(1) > namesMost {
		s.names.Add(-1)
		s.refused.Add(1)
		return false
	}
	return true
}

// DropNames gives names back.
func (s *Shared) DropNames(n int) { s.names.Add(-int64(n)) }

// Names returns how many names are remembered, may be, and were refused.
func (s *Shared) Names() (held, most, refused int64) {
	return s.names.Load(), namesMost, s.refused.Load()
}

// Claim is a part of the memory for unfinished input. The zero Claim is none. It is for one goroutine at a time.
type Claim struct {
	of    *Shared
	bytes int64
}

// Set replaces the claim by one of n bytes. It reports false, and leaves the claim as it
// is, if all connections together would have more than they may. Little costs nothing:
// the number of connections bounds it.
func (c *Claim) Set(of *Shared, n int) bool {
	if n <= bufferMin {
		c.Drop()
		return true
	}
	more := int64(n) - c.bytes
	if of.taken.Add(more) > of.most && more > 0 {
		of.taken.Add(-more)
		return false
	}
	c.of, c.bytes = of, int64(n)
	return true
}

// Drop gives the claim back.
func (c *Claim) Drop() {
	if c.of != nil {
		c.of.taken.Add(-c.bytes)
	}
	*c = Claim{}
}
