package main

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// facts prints what the figures depend on.
func (r report) facts(dir string) error {
	sync, err := syncTime(dir)
	if err != nil {
		return err
	}
	r.printf("Machine: %d cores (%s), %s, %s/%s, fsync %v (median) in %s, load average before the run %s.",
		runtime.NumCPU(), cpuModel(), runtime.Version(), runtime.GOOS, runtime.GOARCH, sync.Round(time.Microsecond), dir, loadAverage())
	return nil
}

// loadAverage tells how busy the machine is with other things.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// syncTime returns the median time of an append of 4 KiB and its fsync.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "millrace-fsync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // a temporary file
	defer f.Close()           //nolint:errcheck // nothing in it matters
	block := make([]byte, 4<<10)
	times := make([]time.Duration, 101)
	for i := range times {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	return median(times), nil
}

func median[T int | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
