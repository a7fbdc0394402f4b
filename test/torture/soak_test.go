package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

// sample is what the soak measures at one moment.
type sample struct {
	at       time.Duration
	resident uint64        // of the server
	disk     int64         // all files of its directory
	log      uint64        // in a cluster, the log that is kept for other nodes
	push     time.Duration // 99 of 100 pushes since the last sample took no longer
	fetch    time.Duration // the same for fetches that brought a job
	jobs     int           // pushed since the last sample
}

// The limits of the verdict: how much the last third of the samples may be above the
// first third, by the medians of both, the first tenth left out because caches fill
// in it. What is small may differ by the slack without meaning anything.
const (
	soakGrowth        = 1.25
	soakResidentSlack = 24 << 20
	soakDiskSlack     = 64 << 20
	soakLatencyGrowth = 2
	soakLatencySlack  = 10 * time.Millisecond
)

// verdict says what is not flat, nothing if everything is.
func verdict(samples []sample) []string {
	first, last := thirds(samples)
	if len(first) == 0 {
		return []string{"there are too few samples"}
	}
	var out []string
	judge := func(what string, of func(sample) float64, growth, slack float64, show func(float64) string) {
		from, to := median(first, of), median(last, of)
		if to > from*growth+slack {
			out = append(out, fmt.Sprintf("%s grew from %s to %s", what, show(from), show(to)))
		}
	}
	mebibytes := func(f float64) string { return fmt.Sprintf("%.1f MiB", f/(1<<20)) }
	duration := func(f float64) string { return time.Duration(f).Round(10 * time.Microsecond).String() }
	judge("memory", func(s sample) float64 { return float64(s.resident) }, soakGrowth, soakResidentSlack, mebibytes)
	judge("disk", func(s sample) float64 { return float64(s.disk) }, soakGrowth, soakDiskSlack, mebibytes)
	judge("log", func(s sample) float64 { return float64(s.log) }, soakGrowth, soakDiskSlack, mebibytes)
	judge("p99 of pushes", func(s sample) float64 { return float64(s.push) }, soakLatencyGrowth,
		float64(soakLatencySlack), duration)
	judge("p99 of fetches", func(s sample) float64 { return float64(s.fetch) }, soakLatencyGrowth,
		float64(soakLatencySlack), duration)
	return out
}

// thirds returns the first and the last third of the samples, without the first tenth.
func thirds(samples []sample) (first, last []sample) {
	samples = samples[len(samples)/10:]
	third := len(samples) / 3
	return samples[:third], samples[len(samples)-third:]
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// TestVerdict gives the verdict samples that are known to be flat or not.
func TestVerdict(t *testing.T) {
	t.Parallel()
	flat := func(i int) sample {
		s := sample{resident: 100 << 20, disk: 200 << 20, push: 5 * time.Millisecond, fetch: 6 * time.Millisecond}
		if i < 6 {
			s.resident, s.disk = s.resident/4, s.disk/4 // it has just begun
		}
		s.resident += uint64(i%7) << 20
		s.disk += int64(i%11) << 21
		if i%9 == 0 {
			s.push *= 20 // a spike is no trend
		}
		return s
	}
	tests := []struct {
		name   string
		change func(i int, s *sample)
		want   []string
	}{
		{"flat", func(int, *sample) {}, nil},
		{"memory", func(i int, s *sample) { s.resident += uint64(i) << 21 }, []string{"memory"}},
		{"disk", func(i int, s *sample) { s.disk += int64(i) << 22 }, []string{"disk"}},
		{"log", func(i int, s *sample) { s.log += uint64(i) << 22 }, []string{"log"}},
		{"pushes", func(i int, s *sample) { s.push += time.Duration(i) * time.Millisecond }, []string{"p99 of pushes"}},
		{
			"fetches", func(i int, s *sample) { s.fetch += time.Duration(i) * time.Millisecond },
			[]string{"p99 of fetches"},
		},
		{"shrinking", func(i int, s *sample) { s.disk -= int64(i) << 20 }, nil},
		{
			"memory and disk", func(i int, s *sample) { s.resident *= uint64(1 + i/20); s.disk *= int64(1 + i/20) },
			[]string{"memory", "disk"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			samples := make([]sample, 60)
			for i := range samples {
				samples[i] = flat(i)
				tt.change(i, &samples[i])
			}
			got := verdict(samples)
			same := slices.EqualFunc(got, tt.want, func(g, w string) bool { return strings.HasPrefix(g, w+" grew") })
			if !same {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := verdict([]sample{{}, {}}); len(got) != 1 {
		t.Errorf("of two samples: %q", got)
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	var l latency
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	got, n := l.quantile(0.99)
	if n != 1000 || got < 990*time.Millisecond || got > 1120*time.Millisecond {
		t.Errorf("p99 of 1 to 1000 ms: %v of %d", got, n)
	}
	if got, n := l.quantile(0.99); got != 0 || n != 0 {
		t.Errorf("afterwards there are %d left, %v", n, got)
	}
}

// TestSoak runs the load of the kill loop for as long as it is told, kills the
// server every minute, and asks whether memory, latency and disk stay flat.
func TestSoak(t *testing.T) {
	t.Parallel()
	// Short of ten minutes there is no trend to speak of, and in a test run there is
	// a moment only, to see that all parts work.
	length, judged := *soakTime, *soakTime >= 10*time.Minute
	if length == 0 {
		length = tier.Pick(4*time.Second, time.Second)
	}
	every := min(10*time.Second, length/8)
	killEvery := max(min(time.Minute, length/5), 2*time.Second)
	began := time.Now()
	dir := suite.DataDir(t)
	y := killYard(protoCount)
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run()
	}()
	var samples []sample
	number := 0
	for time.Since(began) < length {
		number++
		l := y.begin(t, dir, number, false)
		until := time.Now().Add(killEvery)
		for time.Now().Before(until) {
			<-time.After(every)
			samples = append(samples, y.sample(t, l.Server, dir, time.Since(began)))
		}
		l.Kill()
	}
	last := y.begin(t, dir, number+1, true)
	y.drain(t, last.Server)
	<-done
	if err := last.Server.Stop(harness.StopPatience); err != nil {
		t.Error(err)
	}
	tellSamples(t, samples)
	y.report(t, "soak", number, 0, time.Since(began), tellVerdict(t, samples, every, judged)...)
}

// tellVerdict returns the rows of a report about samples, and fails the test if they are to be judged and not flat.
func tellVerdict(t *testing.T, samples []sample, every time.Duration, judged bool) [][2]string {
	t.Helper()
	says := "too short for one"
	if judged {
		says = "flat"
		if trends := verdict(samples); len(trends) > 0 {
			says = strings.Join(trends, "; ")
			t.Errorf("not flat: %s", says)
		}
	}
	rows := [][2]string{{"Samples", fmt.Sprintf("%d, one every %v", len(samples), every)}}
	if early, late := thirds(samples); len(early) > 0 {
		both := func(what string, of func(sample) float64, show func(float64) string) {
			if !slices.ContainsFunc(samples, func(s sample) bool { return of(s) > 0 }) {
				return // not measured here
			}
			rows = append(rows, [2]string{what + ", median", fmt.Sprintf("%s in the first third, %s in the last",
				show(median(early, of)), show(median(late, of)))})
		}
		mebibytes := func(f float64) string { return fmt.Sprintf("%.1f MiB", f/(1<<20)) }
		duration := func(f float64) string { return millis(time.Duration(f)).String() }
		both("Memory", func(s sample) float64 { return float64(s.resident) }, mebibytes)
		both("Disk", func(s sample) float64 { return float64(s.disk) }, mebibytes)
		both("Log", func(s sample) float64 { return float64(s.log) }, mebibytes)
		both("p99 of pushes", func(s sample) float64 { return float64(s.push) }, duration)
		both("p99 of fetches", func(s sample) float64 { return float64(s.fetch) }, duration)
	}
	return append(rows, [2]string{"Limits", fmt.Sprintf("medians of the last third against the first: memory and "+
		"disk %v times, latency %v times", soakGrowth, soakLatencyGrowth)}, [2]string{"Verdict", says})
}

func millis(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// sample measures.
func (y *yard) sample(t *testing.T, s *harness.Server, dir string, at time.Duration) sample {
	t.Helper()
	m, err := harness.ReadMemory(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	disk, err := harness.DirSize(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := sample{at: at, resident: m.Resident, disk: disk}
	y.pace(&out)
	return out
}

// pace puts what clients have waited for since the last sample into one.
func (y *yard) pace(s *sample) {
	s.push, s.jobs = y.push.quantile(0.99)
	s.fetch, _ = y.fetch.quantile(0.99)
}

// tellSamples logs about twenty of the samples.
func tellSamples(t *testing.T, samples []sample) {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(samples); i += max(1, len(samples)/20) {
		s := samples[i]
		fmt.Fprintf(&b, "%8v %8.1f MiB %8.1f MiB on disk, p99 of pushes %10v, of fetches %10v, %d pushes\n",
			s.at.Round(time.Second), float64(s.resident)/(1<<20), float64(s.disk)/(1<<20), millis(s.push),
			millis(s.fetch), s.jobs)
	}
	t.Logf("samples:\n%s", &b)
}
