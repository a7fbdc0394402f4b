package main

import (
	"bytes"
	"strings"
	"testing"

	"millrace/test/harness"
	"millrace/test/tier"
)

// TestFair has the tenants of a real server take turns. Draining fails if a job is lost, comes twice or too early.
func TestFair(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin, err := tier.Pick(harness.Build, harness.BuildPlain)(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := harness.FreePorts(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := &scale{body: 20, out: report{&out}, bin: bin, ports: ports}
	s.fair = fair{tenants: tenants{large: 3000, small: 20, each: 10}, rounds: 1}
	if err := s.fairness(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	f := s.fair.found
	if f.P99 < f.P50 || f.AloneP50 <= 0 || f.WaitRatio() <= 0 || f.DrainRatio() <= 0 ||
		!strings.Contains(out.String(), "| p99 wait of their jobs |") {
		t.Errorf("%+v\n%s", f, out.String())
	}
}

// A job that comes before its tenant's turn is found, and so is one that overtakes another of its tenant.
func TestFairFindsUnfairness(t *testing.T) {
	t.Parallel()
	r := &running{body: 20}
	for name, test := range map[string]struct {
		jobs []int
		want string
	}{
		"turns":                   {[]int{0, 4, 6, 1, 5, 7, 2, 3}, ""},
		"the large one goes on":   {[]int{0, 1}, "out of order: job 1 of tenant 0"},
		"a small one goes on":     {[]int{0, 4, 5}, "out of order: job 5 of tenant 1"},
		"not first in, first out": {[]int{0, 4, 6, 1, 5, 7, 3, 2}, "out of order: job 3 of tenant 0"},
		"twice":                   {[]int{0, 4, 4}, "out of order: job 4"},
		"a stranger":              {[]int{9}, "none of the 8"},
	} {
		d := &draining{
			r: r, n: 8, tenants: &tenants{large: 4, small: 2, each: 2}, seen: make([]uint64, 1),
			progress: r.progress("drain", 8),
		}
		last := map[int]int{}
		var err error
		for i, number := range test.jobs {
			d.asked = i + 1
			if err = d.take(harness.Job{Payload: r.numbered(number)}, true, last); err != nil {
				break
			}
		}
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
