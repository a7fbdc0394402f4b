package timing

import (
	"sync/atomic"
	"time"
)

// Shared is a Histogram that many goroutines count in at once, without a lock. How many were counted is the sum
// of its buckets.
type Shared struct {
	sum     atomic.Int64
	buckets [Buckets]atomic.Uint64
}

// Observe counts one duration, as Histogram does.
func (s *Shared) Observe(d time.Duration) {
	d = max(d, 0)
	s.sum.Add(int64(d))
	s.buckets[bucketOf(d)].Add(1)
}

// Load returns what was counted. What is counted meanwhile may be in it in part.
func (s *Shared) Load() (h Histogram) {
	h.Sum = time.Duration(s.sum.Load())
	for i := range s.buckets {
		n := s.buckets[i].Load()
		h.Buckets[i] = n
		h.Count += n
	}
	return h
}
