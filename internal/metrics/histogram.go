package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"millrace/internal/timing"
)

// powers are the bounds of classic buckets: every few powers of two, which are bounds of the buckets that are
// counted, so that nothing has to be guessed.
type powers struct{ first, last, step int }

var (
	jobPowers     = powers{-10, 18, 2} // of seconds: a millisecond to three days
	commandPowers = powers{-16, 6, 1}  // of seconds: 15 microseconds to a minute
	batchPowers   = powers{0, 14, 1}
)

// histogram is a metric with classic buckets, for the text format, and with native ones, which Prometheus takes
// in their stead if it is told to scrape them.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  *dto.Histogram
}

// Desc describes the metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write hands over the values.
func (h *histogram) Write(m *dto.Metric) error {
	m.Label, m.Histogram = h.labels, h.value
	return nil
}

// durations makes a metric of durations, in seconds.
func durations(d *prometheus.Desc, h *timing.Histogram, p powers, labels ...string) prometheus.Metric {
	v := classic(h.Count, h.Sum.Seconds(), p, h.AtMost)
	v.Schema, v.ZeroThreshold, v.ZeroCount = new(int32(timing.Schema)), new(timing.Bound(0)), new(h.Buckets[0])
	v.PositiveSpan, v.PositiveDelta = native(h.Buckets[1:], timing.FirstIndex+1)
	return &histogram{d, prometheus.MakeLabelPairs(d, labels), v}
}

// sizes makes a metric of sizes.
func sizes(d *prometheus.Desc, s *timing.Sizes, p powers, labels ...string) prometheus.Metric {
	v := classic(s.Count, float64(s.Sum), p, func(power int) (n uint64) {
		for _, c := range s.Buckets[:power+1] {
			n += c
		}
		return n
	})
	v.Schema, v.ZeroThreshold, v.ZeroCount = new(int32(0)), new(0.0), new(uint64(0))
	v.PositiveSpan, v.PositiveDelta = native(s.Buckets[:], 0)
	return &histogram{d, prometheus.MakeLabelPairs(d, labels), v}
}

func classic(count uint64, sum float64, p powers, atMost func(power int) uint64) *dto.Histogram {
	v := &dto.Histogram{SampleCount: &count, SampleSum: &sum}
	for power := p.first; power <= p.last; power += p.step {
		v.Bucket = append(v.Bucket, &dto.Bucket{
			UpperBound:      new(math.Exp2(float64(power))),
			CumulativeCount: new(atMost(power)),
		})
	}
	return v
}

// native encodes the buckets that are not empty: runs of them, each with the distance from the one before, and
// counts as differences.
func native(buckets []uint64, index int32) (spans []*dto.BucketSpan, deltas []int64) {
	var next int32 // the index behind the last span
	var last int64
	for i, n := range buckets {
		if n == 0 {
			continue
		}
		at := index + int32(i)
		if len(spans) == 0 || at != next {
			spans = append(spans, &dto.BucketSpan{Offset: new(at - next), Length: new(uint32(0))})
		}
		*spans[len(spans)-1].Length++
		deltas = append(deltas, int64(n)-last) //nolint:gosec // a count
		next, last = at+1, int64(n)            //nolint:gosec // a count
	}
	if len(spans) == 0 {
		// Without a span it would not be taken for a native histogram.
		spans = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
	}
	return spans, deltas
}
