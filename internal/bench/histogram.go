package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations with an error of at most one part in 128, in constant space. The longest is
// kept as it is. It is for one goroutine.
type Histogram struct {
	counts [slots]uint64
	total  uint64
	most   time.Duration
}

const (
	// subBits is how many bits behind the first of a duration tell apart: as many slots as they can have
	// values stand for each power of two.
	subBits = 6
	sub     = 1 << subBits
	expMax  = 44 // longer durations, of five hours and more, are counted together
	slots   = (expMax - subBits + 1) * sub
)

// slot returns where a duration is counted.
func slot(d time.Duration) int {
	v := uint64(max(d, 0))
	exp := bits.Len64(v)
	if exp <= subBits {
		return int(v) //nolint:gosec // of subBits bits
	}
	if exp > expMax {
		return slots - 1
	}
	shift := exp - subBits - 1
	return (shift+1)*sub + int(v>>shift) - sub //nolint:gosec // of subBits+1 bits
}

// middle returns the middle of the durations that are counted in a slot.
func middle(i int) time.Duration {
	if i < 2*sub {
		return time.Duration(i)
	}
	shift := i/sub - 1
	return time.Duration(i%sub+sub)<<shift + time.Duration(1)<<shift/2
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[slot(d)]++
	h.total++
	h.most = max(h.most, d)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.most = max(h.most, o.most)
}

// Quantile returns the duration that a part q, between 0 and 1, of all durations does not exceed:
// the smallest that is as long as that many of them. It is zero if nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(q*float64(h.total))))
	var passed uint64
	for i, n := range h.counts {
		if passed += n; passed >= rank {
			return min(middle(i), h.most)
		}
	}
	return h.most
}

// Seconds is a duration that JSON shows in seconds.
type Seconds time.Duration

// MarshalJSON writes a number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var v float64
	err := json.Unmarshal(text, &v)
	*s = Seconds(math.Round(v * float64(time.Second)))
	return err
}

// Latency sums up how long something took.
type Latency struct {
	Count uint64  `json:"count"`
	P50   Seconds `json:"p50_seconds"`
	P95   Seconds `json:"p95_seconds"`
	P99   Seconds `json:"p99_seconds"`
	P999  Seconds `json:"p99_9_seconds"`
	Max   Seconds `json:"max_seconds"`
}

// Latency returns the usual quantiles.
func (h *Histogram) Latency() Latency {
	at := func(q float64) Seconds { return Seconds(h.Quantile(q)) }
	return Latency{Count: h.total, P50: at(.5), P95: at(.95), P99: at(.99), P999: at(.999), Max: Seconds(h.most)}
}

// String shows a duration with about three digits.
func (s Seconds) String() string {
	d := time.Duration(s)
	switch {
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
