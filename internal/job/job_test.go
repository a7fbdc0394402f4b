package job_test

import (
	"math"
	"testing"
	"time"

	"millrace/internal/job"
)

func TestTimeSaturates(t *testing.T) {
	t.Parallel()
	const at = job.Time(1_700_000_000_123_456)
	for _, c := range []struct {
		name      string
		got, want job.Time
	}{
		{"a fraction of a microsecond counts as a whole one", at.Add(1), at + 1},
		{"exact", at.Add(time.Second), at + 1e6},
		{"backwards", at.Add(-time.Second), at - 1e6},
		{"never", job.Never.Add(time.Hour), job.Never},
		{"beyond", (job.Never - 5).Add(time.Second), job.Never},
		{"floor", at.FloorSecond(), 1_700_000_000_000_000},
		{"floor of a whole second", job.Time(5e6).FloorSecond(), 5e6},
		{"floor before 1970", job.Time(-1).FloorSecond(), -1e6},
		{"from a time, rounded up", job.TimeOf(time.Unix(1, 1)), 1_000_001},
		{"from a far time", job.TimeOf(time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)), job.Never},
		{"earlier of two", job.Earlier(3, 2), 2},
		{"earlier, one not set", job.Earlier(0, 2), 2},
		{"earlier, the other not set", job.Earlier(3, 0), 3},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	if d := job.Never.Sub(0); d != math.MaxInt64 {
		t.Errorf("Never - 0 is %d", d)
	}
	if d := job.Time(0).Sub(job.Never); d != math.MinInt64 {
		t.Errorf("0 - Never is %d", d)
	}
	if got := job.TimeOf(at.Std()); got != at {
		t.Errorf("there and back: %d, want %d", got, at)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	const now = job.Time(1_000_900_000) // 0.9 s past a whole second
	quartic := job.Backoff{Unit: time.Second, Power: 4, Floor: true}
	jittered := job.Backoff{Unit: time.Second, Power: 4, Skip: 1, Base: 15 * time.Second, Jitter: 30}
	for _, c := range []struct {
		name  string
		b     job.Backoff
		fails uint32
		rnd   uint64
		want  job.Time
	}{
		{"none", job.Backoff{}, 3, 7, now},
		{"first, floored", quartic, 1, 0, 1_001_000_000},
		{"second, floored", quartic, 2, 0, 1_016_000_000},
		{"third, floored", quartic, 3, 0, 1_081_000_000},
		{"255th does not overflow", quartic, 255, 0, job.Time(1_000_900_000 + 255*255*255*255*1_000_000).FloorSecond()},
		{"first, least jitter", jittered, 1, 0, now + 15e6},
		{"first, most jitter", jittered, 1, 29, now + 44e6},
		{"jitter wraps", jittered, 1, 30, now + 15e6},
		{"second, most jitter", jittered, 2, 29, now + (1+15+58)*1e6},
		{"third, most jitter", jittered, 3, 29, now + (16+15+87)*1e6},
		{"saturates", job.Backoff{Unit: time.Hour, Power: 40}, math.MaxUint32, 0, now.Add(math.MaxInt64)},
	} {
		if got := c.b.After(now, c.fails, c.rnd); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		if got, ok := job.ParseState(s.String()); !ok || got != s {
			t.Errorf("%v is parsed as %v, %v", s, got, ok)
		}
		if s.Finished() != (s == job.Done || s == job.Failed) {
			t.Errorf("%v: finished %v", s, s.Finished())
		}
	}
	if _, ok := job.ParseState("unknown"); ok {
		t.Error("an unknown state is parsed")
	}
	seen := map[string]bool{}
	for c := range job.CounterCount {
		name := job.Counter(c).String()
		if name == "" || seen[name] {
			t.Errorf("counter %d is called %q", c, name)
		}
		seen[name] = true
	}
}

func TestOrderIsTotal(t *testing.T) {
	t.Parallel()
	sorted := []job.Order{ // as in section 3 of docs/semantics.md
		{Rank: -2, Priority: -5, Seq: 9},
		{Rank: -1, At: 5, Seq: 8},
		{Rank: -1, At: 6, Seq: 7},
		{Priority: 7, Seq: 20},
		{Priority: 7, Seq: 21},
		{Priority: 7, At: 1, Seq: 1},
		{Seq: 3},
		{Priority: -1, Seq: 2},
		{Rank: 1, Priority: 100, Seq: 1},
	}
	for i := range sorted {
		for j := range sorted {
			if got := sorted[i].Before(sorted[j]); got != (i < j) {
				t.Errorf("%+v before %+v: %v", sorted[i], sorted[j], got)
			}
		}
	}
}

func TestResultReset(t *testing.T) {
	t.Parallel()
	r := job.Result{Err: job.ErrFull, ID: 5, Count: 3, IDs: []job.ID{1, 2}, Jobs: []job.Job{{Body: []byte("x")}}}
	jobs := r.Jobs
	r.Reset()
	if r.Err != nil || r.ID != 0 || r.Count != 0 || len(r.IDs) != 0 || len(r.Jobs) != 0 {
		t.Errorf("after Reset: %+v", r)
	}
	if jobs[0].Body != nil {
		t.Error("a body is kept alive")
	}
}
