package timing

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// The bucket of a duration is the first that ends at it or after it.
func TestBuckets(t *testing.T) {
	t.Parallel()
	tests := []time.Duration{
		0, 1, 900, time.Microsecond, 2 * time.Microsecond, 999999, time.Millisecond, 250 * time.Millisecond,
		time.Second - 1, time.Second, time.Second + 1, 1189207115, 1189207116, 1414213562, 1681792831, 2 * time.Second,
		time.Minute, time.Hour, 24 * time.Hour, 40 * 24 * time.Hour,
	}
	for n := uint64(1); n < 1<<51; n = n*5/4 + 1 {
		tests = append(tests, time.Duration(n))
	}
	for _, d := range tests {
		i := bucketOf(d)
		s := d.Seconds()
		// Bounds that are no powers of two are rounded.
		if s > Bound(i)*(1+1e-15) {
			t.Errorf("%v is in bucket %d, which ends at %v", d, i, Bound(i))
		}
		if i > 0 && s <= Bound(i-1)*(1-1e-15) {
			t.Errorf("%v is in bucket %d, and the one before ends at %v", d, i, Bound(i-1))
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for power := firstPower; power <= lastPower; power++ {
		seconds := math.Exp2(float64(power))
		if got := Bound((power - firstPower) * perOctave); got != seconds {
			t.Errorf("2^%d: %v", power, got)
		}
	}
	// A bound that is a whole number of nanoseconds is in the bucket that it ends.
	for power := -9; power <= lastPower; power++ {
		d := time.Duration(math.Exp2(float64(power)) * float64(time.Second))
		if got := bucketOf(d); got != (power-firstPower)*perOctave {
			t.Errorf("%v is in bucket %d", d, got)
		}
		if got := bucketOf(d + 1); got != min((power-firstPower)*perOctave+1, Buckets-1) {
			t.Errorf("%v is in bucket %d", d+1, got)
		}
	}
	if got := bucketOf(math.MaxInt64); got != Buckets-1 {
		t.Errorf("the longest is in bucket %d", got)
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 {
		t.Error("nothing has a quantile")
	}
	for i := range 100 {
		h.Observe(time.Duration(i+1) * time.Millisecond)
	}
	h.Observe(-time.Second)
	if h.Count != 101 || h.Sum != 5050*time.Millisecond || h.Mean() != 50*time.Millisecond {
		t.Errorf("%d, %v, %v", h.Count, h.Sum, h.Mean())
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		exact := time.Duration(math.Ceil(q*101)-1) * time.Millisecond
		if got := h.Quantile(q); got < exact || float64(got) > 1.2*float64(exact)+float64(time.Microsecond) {
			t.Errorf("quantile %v is %v, not %v", q, got, exact)
		}
	}
	if got := h.AtMost(-4); got != 63 { // 62.5 ms, and the one of no length
		t.Errorf("%d up to a sixteenth of a second", got)
	}
	earlier := h
	h.ObserveN(time.Hour, 3)
	since := h
	since.Sub(&earlier)
	if since.Count != 3 || since.Sum != 3*time.Hour || since.Buckets[bucketOf(time.Hour)] != 3 {
		t.Errorf("%+v", since)
	}
	since.Add(&earlier)
	if since != h {
		t.Error("what was taken away and added again differs")
	}
}

// A histogram is kept as it is, and what is not one of ours does no harm.
func TestJSON(t *testing.T) {
	t.Parallel()
	var h, got Histogram
	h.ObserveN(0, 3)
	h.Observe(time.Second)
	text, err := json.Marshal(&h)
	if err != nil || string(text) != "[0,3,80,1,1000000000]" {
		t.Errorf("%s, %v", text, err)
	}
	if err := json.Unmarshal(text, &got); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte("[3,2,169,1,7]"), &got); err != nil || got.Count != 2 ||
		got.Buckets[3] != 2 || got.Sum != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`["x"]`), &got); err == nil {
		t.Error("a text is a histogram")
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	var s Sizes
	for _, n := range []uint64{0, 1, 2, 3, 4, 5, 8, 9, 1 << 24, 1<<24 + 1, math.MaxUint32} {
		s.Observe(n)
	}
	want := [SizeBuckets]uint64{2, 1, 2, 2, 1}
	want[SizeBuckets-1] = 3
	if s.Buckets != want || s.Count != 11 {
		t.Errorf("%v", s)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Observe(time.Duration(i) * 977)
	}
}
