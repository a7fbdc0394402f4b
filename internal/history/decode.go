package history

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"millrace/internal/timing"
)

// earlier is what earlier versions kept otherwise: everything together as fields of the slot, with a summary of how
// long jobs waited, and the sums of times beside their buckets.
type earlier struct {
	Pushed, Fetched, Acked, Failed, Died, Expired uint64

	Wait struct {
		Jobs uint64
		Mean float64 `json:"mean_seconds"`
		P50  float64 `json:"p50_seconds"`
		P95  float64 `json:"p95_seconds"`
	}
	Parts []struct {
		Wait time.Duration `json:"s"`
		Run  time.Duration `json:"u"`
	}
}

// decode reads a slot that was kept. It reports false for what is none.
func decode(value []byte) (s Slot, ok bool) {
	if json.Unmarshal(value, &s) != nil {
		return s, false
	}
	sumless := func(h *timing.Histogram) bool { return h != nil && h.Sum == 0 }
	if s.Parts != nil && !slices.ContainsFunc(s.Parts,
		func(p *Part) bool { return sumless(p.Wait) || sumless(p.Run) }) {
		return s, true
	}
	var old earlier
	if json.Unmarshal(value, &old) != nil {
		return s, false
	}
	for i, p := range s.Parts {
		if sumless(p.Wait) {
			p.Wait.Sum = old.Parts[i].Wait
		}
		if sumless(p.Run) {
			p.Run.Sum = old.Parts[i].Run
		}
	}
	if s.Parts == nil {
		s.Parts = []*Part{{Figures: old.figures()}}
	}
	return s, true
}

// figures makes a histogram that has the mean and the quantiles of the summary.
func (o *earlier) figures() Figures {
	f := Figures{
		Pushed: o.Pushed, Fetched: o.Fetched, Acked: o.Acked, Failed: o.Failed, Died: o.Died,
		Expired: o.Expired,
	}
	if n := o.Wait.Jobs; n > 0 {
		nanoseconds := func(seconds float64) time.Duration {
			return time.Duration(math.Round(seconds * float64(time.Second)))
		}
		f.Wait = new(timing.Histogram)
		f.Wait.ObserveN(nanoseconds(o.Wait.P50), (n+1)/2)
		f.Wait.ObserveN(nanoseconds(o.Wait.P95), n/2)
		f.Wait.Sum = nanoseconds(o.Wait.Mean * float64(n))
	}
	return f
}
