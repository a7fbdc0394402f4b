package metrics

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"millrace/internal/job"
	"millrace/internal/testkit"
	"millrace/internal/timing"
)

// buckets decodes the native buckets of a histogram, by their upper bounds.
func buckets(h *dto.Histogram) map[float64]uint64 {
	out := map[float64]uint64{}
	base := math.Exp2(math.Exp2(-float64(h.GetSchema())))
	var index int32
	var n int64
	deltas := h.PositiveDelta
	for _, s := range h.PositiveSpan {
		index += s.GetOffset()
		for range s.GetLength() {
			n += deltas[0]
			deltas = deltas[1:]
			out[math.Round(1e6*math.Pow(base, float64(index)))/1e6] = uint64(n)
			index++
		}
	}
	return out
}

func TestNative(t *testing.T) {
	t.Parallel()
	var h timing.Histogram
	h.ObserveN(0, 7)
	h.ObserveN(time.Second, 3)
	h.ObserveN(1100*time.Millisecond, 2)
	h.ObserveN(time.Hour, 5)
	var m dto.Metric
	if err := durations(descWait, &h, jobPowers, "a", "b", "c", "d").Write(&m); err != nil {
		t.Fatal(err)
	}
	v := m.GetHistogram()
	got := buckets(v)
	if v.GetZeroCount() != 7 || len(got) != 3 || got[1] != 3 || got[1.189207] != 2 || got[4096] != 5 {
		t.Errorf("%d are short, and there are %v", v.GetZeroCount(), got)
	}
	if v.GetSampleCount() != 17 || v.GetSampleSum() != 18005.2 {
		t.Errorf("%d sum up to %v", v.GetSampleCount(), v.GetSampleSum())
	}
	for _, b := range v.Bucket {
		want := uint64(7)
		switch le := b.GetUpperBound(); {
		case le >= 4096:
			want = 17
		case le >= 4:
			want = 12
		case le >= 1:
			want = 10
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d are at most %v", b.GetCumulativeCount(), b.GetUpperBound())
		}
	}
}

func TestNativeSizes(t *testing.T) {
	t.Parallel()
	var s timing.Sizes
	var m dto.Metric
	if err := sizes(descCommitBatch, &s, batchPowers).Write(&m); err != nil || len(m.GetHistogram().PositiveSpan) != 1 {
		t.Errorf("nothing is not a native histogram: %v", &m)
	}
	for _, n := range []uint64{1, 2, 3, 4, 100} {
		s.Observe(n)
	}
	if err := sizes(descCommitBatch, &s, batchPowers).Write(&m); err != nil {
		t.Fatal(err)
	}
	v := m.GetHistogram()
	if got := buckets(v); len(got) != 4 || got[1] != 1 || got[2] != 1 || got[4] != 2 || got[128] != 1 ||
		v.GetSampleSum() != 110 {
		t.Errorf("%v", got)
	}
}

// A scraper that asks for it gets native histograms.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t)
		do(t, e, push("a"))
		testkit.Advance(t, 10*time.Second)
		do(t, e, &job.Fetch{Namespace: "ns", Queues: []string{"a"}, Max: 1, DefaultLease: time.Hour})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
		w := httptest.NewRecorder()
		Handler(Options{Engine: e}).ServeHTTP(w, r)
		dec := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
		for {
			var family dto.MetricFamily
			if err := dec.Decode(&family); err != nil {
				t.Fatal("there are no wait times: ", err)
			}
			if family.GetName() == "millrace_job_wait_seconds" {
				if got := buckets(family.Metric[0].GetHistogram()); len(got) != 1 || got[11.313708] != 1 {
					t.Errorf("%v", got)
				}
				return
			}
		}
	})
}
