package dialect

import "sync/atomic"

// DefaultInput is how much memory unfinished input may take, all connections together,
// unless LimitInput says otherwise.
const DefaultInput = 256 << 20

// input is the memory that all connections have taken for input that is not whole yet,
// and the bound on it; zero is the default. It is one for the process, as the pools of
// buffers are: many connections with a long command each must not add up to more
// memory than the machine has, whatever the limits of one of them.
var input struct{ taken, most atomic.Int64 }

// LimitInput bounds the memory that unfinished input may take, all connections together.
// It is called once, before anything is served.
func LimitInput(bytes int64) { input.most.Store(bytes) }

// Claim is a part of that memory. The zero Claim is none. It is for one goroutine at a
// time.
type Claim struct{ bytes int64 }

// Set replaces the claim by one of n bytes. It reports false, and leaves the claim as it
// is, if all connections together would have more than they may. Little costs nothing:
// the number of connections bounds it.
func (c *Claim) Set(n int) bool {
	if n <= bufferMin {
		c.Drop()
		return true
	}
	most := input.most.Load()
	if most == 0 {
		most = DefaultInput
	}
	more := int64(n) - c.bytes
	if input.taken.Add(more) > most && more > 0 {
		input.taken.Add(-more)
		return false
	}
	c.bytes = int64(n)
	return true
}

// Drop gives the claim back.
func (c *Claim) Drop() {
	input.taken.Add(-c.bytes)
	c.bytes = 0
}
