package cli

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Until the heap has grown by gcPercent of what is in use and gcSpare bytes, no garbage is collected. The larger part
// of a grown heap are memtables and the cache, which are not garbage and are not looked into: the usual 100 percent
// would let what is garbage become several times as much as what is not. A small heap, as of a server that has just
// started, would be gone through again and again with that share alone.
const (
	gcPercent = 30
	gcSpare   = 20 << 20
)

// liveHeap is the runtime's name for how many bytes of the heap the last collection found in use.
const liveHeap = "/gc/heap/live:bytes"

var paceOnce sync.Once

// paceGarbage sets from now on, after each collection of garbage, when the next one begins. It is for the whole
// process.
func paceGarbage() {
	paceOnce.Do(func() {
		runtime.GC() // what is in use is known from the first collection on
		pace()
	})
}

func pace() {
	live := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64()))
	// Nothing refers to the mark, so that the next collection finds it and calls for the one after that.
	mark := new([64]byte)
	runtime.AddCleanup(mark, func(struct{}) { pace() }, struct{}{})
}

// percentFor returns the percentage of growth that leaves live bytes in use their share and gcSpare.
func percentFor(live uint64) int {
	const least = 1 << 20
	return gcPercent + int(100*gcSpare/max(live, least)) //nolint:gosec // at most 100*gcSpare/least
}
