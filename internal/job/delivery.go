package job

import "sync/atomic"

// Delivery follows the answer of a fetch on its way to the worker: while it is on its way no lease that the fetch has
// taken is ended by time. The engine and the connection share it without a lock. It may be used for one fetch after
// another, but only by one engine.
type Delivery struct {
	state atomic.Uint32

	// Told is the machine's: leases with a lower sequence number have been handed over, as far as it knows.
	Told uint64
}

const (
	deliveryOver    uint32 = iota // nothing is on its way
	deliveryBegun                 // the answer has not been handed over
	deliveryAwaited               // and the engine waits for that
)

// Begin tells that jobs have been leased for the answer. Only the engine calls it.
func (d *Delivery) Begin() { d.state.CompareAndSwap(deliveryOver, deliveryBegun) }

// Await reports whether the answer is on its way. If so, End will say that the engine waits. Only the engine calls it.
func (d *Delivery) Await() bool {
	return d.state.CompareAndSwap(deliveryBegun, deliveryAwaited) || d.state.Load() == deliveryAwaited
}

// End tells that the answer has been handed over, or never will be. It reports whether the engine waits to be told.
func (d *Delivery) End() (awaited bool) {
	return d.state.Load() != deliveryOver && d.state.Swap(deliveryOver) == deliveryAwaited
}
