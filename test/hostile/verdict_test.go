//go:build linux

package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/bench"
	"millrace/test/harness"
)

// round is what was measured of one attack.
type round struct {
	connections    int64
	before, during []window // of each probe
	echo           window   // of the process that does nothing, during the attack
	peak           uint64   // memory of the server at the worst moment
}

// worst returns the probe that the attack has slowed down most, and how many times: against
// its own p99 before the attack, or against the echo's during it, if the machine has no time
// even for that, or against so little that factor times as much is still below the floor.
func (r round) worst(floor time.Duration) (probe int, times float64) {
	for i, w := range r.during {
		if t := float64(w.p99) / float64(max(r.before[i].p99, r.echo.p99, floor/factor)); t > times {
			probe, times = i, t
		}
	}
	return probe, times
}

// verdict is what all rounds of an attack say together: medians, except for the times that say
// how far they are apart, the longest call and the memory.
type verdict struct {
	connections          int
	before, during, echo time.Duration // p99
	times, least, most   float64
	longest              time.Duration
	peak                 uint64
}

func judge(rounds []round, floor time.Duration) verdict {
	var v verdict
	var connections []int
	var before, during, echo []time.Duration
	var times []float64
	for _, r := range rounds {
		i, t := r.worst(floor)
		connections = append(connections, int(r.connections))
		before, during, echo = append(before, r.before[i].p99), append(during,
			r.during[i].p99), append(echo, r.echo.p99)
		times = append(times, t)
		for _, w := range r.during {
			v.longest = max(v.longest, w.most)
		}
		v.peak = max(v.peak, r.peak)
	}
	v.connections, v.times = bench.Median(connections), bench.Median(times)
	v.before, v.during, v.echo = bench.Median(before), bench.Median(during), bench.Median(echo)
	v.least, v.most = slices.Min(times), slices.Max(times)
	return v
}

// conclude fails the test for attacks that others have felt too much, and writes the report.
func (s *siege) conclude() {
	s.t.Helper()
	var b strings.Builder
	b.WriteString("| attack, on all listeners together | connections | p99 before, ms | during | echo's during | " +
		"times | of all rounds | longest call, ms | peak memory, MiB |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, a := range attacks {
		if len(s.rounds[a.name]) == 0 {
			continue
		}
		v := judge(s.rounds[a.name], *floorTime)
		fmt.Fprintf(&b, "| %s: %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f to %.1f | %.0f | %d |\n", a.name, a.does,
			v.connections, ms(v.before), ms(v.during), ms(v.echo), v.times, v.least, v.most, ms(v.longest), v.peak>>20)
		if v.times > factor {
			s.t.Errorf("%s: the p99 of others is %v, %.1f times what it is without, want at most %d", a.name,
				v.during, v.times, factor)
		}
	}
	version, err := harness.Version(s.t.Context(), program.Bin)
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n(%d rounds of %v for each attack; %s; %s; %s)\n", *roundCount, *attackTime, version,
		harness.Machine(), time.Now().UTC().Format(time.DateOnly))
	s.t.Logf("\n%s", &b)
	if *reportPath == "" {
		return
	}
	if err := harness.Publish(*reportPath, "hostile", b.String()); err != nil {
		s.t.Fatal(err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	p99 := func(n int) window { return window{p99: time.Duration(n) * time.Millisecond} }
	// Against its own before, against the echo, and the worse of two.
	rounds := []round{
		{connections: 1, before: []window{p99(2), p99(2)}, during: []window{p99(2), p99(8)}, echo: p99(1), peak: 7},
		{connections: 3, before: []window{p99(1), p99(1)}, during: []window{p99(6), p99(5)}, echo: p99(3), peak: 9},
		{connections: 2, before: []window{p99(1), p99(5)}, during: []window{p99(3), p99(1)}, echo: p99(1), peak: 8},
	}
	rounds[1].during[1].most = time.Second
	want := verdict{
		connections: 2, before: time.Millisecond, during: 6 * time.Millisecond, echo: time.Millisecond,
		times: 3, least: 2, most: 4, longest: time.Second, peak: 9,
	}
	got := judge(rounds, 0)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Below the floor nothing is too much, above it what is too much of any probe.
	floor := 12 * time.Millisecond
	quick := []round{{before: []window{p99(1), p99(2)}, during: []window{p99(9), p99(12)}}}
	if got := judge(quick, floor); got.times > factor {
		t.Errorf("below the floor: %+v", got)
	}
	quick[0].during[1] = p99(13)
	if got := judge(quick, floor); got.times <= factor || got.during != 13*time.Millisecond {
		t.Errorf("the one above the floor is not what counts: %+v", got)
	}
}
