// Package timing counts durations and sizes in buckets, so that their quantiles can be told later. The buckets
// are those of Prometheus's native histograms, which any reader can add up and make coarser.
//
// Only Shared is safe for concurrent use: whoever counts in others has a lock already. The engine, the store and the
// protocols count, the metrics and the operator's side read copies.
package timing

import (
	"encoding/json"
	"math"
	"math/bits"
	"time"
)

const (
	// Schema says that four buckets double a duration: the upper bound of each is the one before times the
	// fourth root of two.
	Schema     = 2
	perOctave  = 1 << Schema
	firstPower = -20 // the first bucket ends at 2^-20 s, about a microsecond
	lastPower  = 22  // the last one at 2^22 s, about seven weeks

	// FirstIndex is the index of the first bucket in native histograms, where 0 ends at one second.
	FirstIndex = firstPower * perOctave
	// Buckets is how many buckets there are.
	Buckets = (lastPower-firstPower)*perOctave + 1
)

// Histogram counts durations. Those shorter than the first bucket are in it, those longer than the last in that.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	Buckets [Buckets]uint64
}

// Observe counts one duration. Negative ones, which only a clock that was set can make, count as zero.
func (h *Histogram) Observe(d time.Duration) { h.ObserveN(d, 1) }

// ObserveN counts the same duration n times.
func (h *Histogram) ObserveN(d time.Duration, n uint64) {
	d = max(d, 0)
	h.Count += n
	h.Sum += d * time.Duration(n) //nolint:gosec // n is the size of a batch
	h.Buckets[bucketOf(d)] += n
}

// bounds are where the buckets end, in nanoseconds, and starts is where the search for a duration begins, by the
// number of its bits: an octave has four buckets, so there are at most five to look at.
var bounds, starts = func() (bounds [Buckets]time.Duration, starts [65]uint8) {
	for i := range bounds {
		bounds[i] = time.Duration(Bound(i) * float64(time.Second))
	}
	for n := 1; n < len(starts); n++ {
		first := time.Duration(math.MaxInt64)
		if n < 64 {
			first = 1 << (n - 1)
		}
		at := starts[n-1]
		for int(at) < Buckets-1 && bounds[at] < first {
			at++
		}
		starts[n] = at
	}
	return bounds, starts
}()

// bucketOf returns the bucket of a duration that is not negative, without a logarithm.
func bucketOf(d time.Duration) int {
	i := int(starts[bits.Len64(uint64(d))]) //nolint:gosec // not negative
	for i < Buckets-1 && d > bounds[i] {
		i++
	}
	return i
}

// Bound returns where a bucket ends, in seconds.
func Bound(bucket int) float64 {
	return math.Exp2(firstPower + float64(bucket)/perOctave)
}

// AtMost returns how many durations were at most 2^power seconds, power being one within the buckets.
func (h *Histogram) AtMost(power int) (n uint64) {
	for _, c := range h.Buckets[:(power-firstPower)*perOctave+1] {
		n += c
	}
	return n
}

// Add adds what another histogram has counted.
func (h *Histogram) Add(o *Histogram) {
	h.Count += o.Count
	h.Sum += o.Sum
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// Sub takes away what an earlier copy of the same histogram had counted: what is left came since.
func (h *Histogram) Sub(earlier *Histogram) {
	h.Count -= earlier.Count
	h.Sum -= earlier.Sum
	for i, n := range earlier.Buckets {
		h.Buckets[i] -= n
	}
}

// Quantile returns a duration that the share q of those counted do not exceed, as exact as the buckets are: a
// fifth too long at most. Without any it returns zero.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.Count)))
	rank = min(max(rank, 1), h.Count)
	for i, n := range h.Buckets {
		if n >= rank {
			return time.Duration(Bound(i) * float64(time.Second))
		}
		rank -= n
	}
	return time.Duration(Bound(Buckets-1) * float64(time.Second))
}

// MarshalJSON writes the number and the count of each bucket that is not empty, one after the other, and then the sum.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	var list []uint64
	for i, n := range h.Buckets {
		if n > 0 {
			list = append(list, uint64(i), n)
		}
	}
	return json.Marshal(append(list, uint64(h.Sum))) //nolint:gosec // not negative
}

// UnmarshalJSON is the inverse. It leaves out what is not one of ours. Earlier versions wrote no sum.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var list []uint64
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*h = Histogram{}
	for ; len(list) > 1; list = list[2:] {
		if bucket, n := list[0], list[1]; bucket < Buckets {
			h.Buckets[bucket] += n
			h.Count += n
		}
	}
	if len(list) == 1 {
		h.Sum = time.Duration(list[0]) //nolint:gosec // as it was written
	}
	return nil
}

// Mean returns the mean of the durations counted, or zero.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count) //nolint:gosec // a count that fits
}

// SizeBuckets is how many buckets Sizes have.
const SizeBuckets = 25

// Sizes counts how large something was. Bucket i ends at 2^i; what is larger than the last is in that.
type Sizes struct {
	Count   uint64
	Sum     uint64
	Buckets [SizeBuckets]uint64
}

// Observe counts one size. Zero counts with one.
func (s *Sizes) Observe(n uint64) {
	s.Count++
	s.Sum += n
	s.Buckets[min(bits.Len64(max(n, 1)-1), SizeBuckets-1)]++
}
