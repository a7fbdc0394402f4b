package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Machine is what figures depend on, of the machine that the load comes from.
type Machine struct {
	CPUs  int    `json:"cpus"`
	Model string `json:"cpu_model"`
	Go    string `json:"go"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	// Fsync is the median time of an append of 4 KiB and its fsync in FsyncDir.
	Fsync    Seconds `json:"fsync_seconds"`
	FsyncDir string  `json:"fsync_dir"`
	// Load is the load average before the run.
	Load string `json:"load_average"`
}

// ReadMachine looks at this machine. The fsync is timed in a directory.
func ReadMachine(dir string) (Machine, error) {
	sync, err := syncTime(dir)
	if err != nil {
		return Machine{}, fmt.Errorf("time an fsync: %w", err)
	}
	return Machine{
		CPUs: runtime.NumCPU(), Model: cpuModel(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Fsync: Seconds(sync), FsyncDir: dir, Load: loadAverage(),
	}, nil
}

const unknown = "unknown"

// loadAverage tells how busy the machine is with other things.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return unknown
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
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
	return Median(times), nil
}

// Median returns the middle one of some values, of which there must be one.
func Median[T int | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Server is what a Millrace server tells about itself.
type Server struct {
	Version    string `json:"version"`
	Go         string `json:"go"`
	Durability string `json:"durability"`
	// Mallocs is how many allocations there have been since it started.
	Mallocs float64 `json:"-"`
}

// metricsMax bounds what is read of the metrics.
const metricsMax = 16 << 20

// Web is where a server can be asked, and what it wants to know first.
type Web struct {
	URL      string      // of its web listener
	TLS      *tls.Config // nil: whom the machine trusts
	Token    string
	Password string
}

// ReadServer asks a server for its metrics.
func ReadServer(ctx context.Context, w Web) (Server, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(w.URL, "/")+"/metrics", nil)
	if err != nil {
		return Server{}, err
	}
	switch {
	case w.Token != "":
		req.Header.Set("Authorization", "Bearer "+w.Token)
	case w.Password != "":
		req.SetBasicAuth("bench", w.Password)
	}
	// No proxy: it is a server of one's own. No keep-alive: it is one question.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: w.TLS}}
	resp, err := client.Do(req)
	if err != nil {
		return Server{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	if resp.StatusCode != http.StatusOK {
		return Server{}, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	lines := bufio.NewScanner(http.MaxBytesReader(nil, resp.Body, metricsMax))
	return parseMetrics(lines)
}

// parseMetrics finds what is looked for among metrics in Prometheus's text format.
func parseMetrics(lines *bufio.Scanner) (s Server, err error) {
	for lines.Scan() {
		line := lines.Text()
		if labels, ok := strings.CutPrefix(line, "millrace_build_info{"); ok {
			s.Version, s.Go, s.Durability = label(labels, "version"), label(labels, "go"), label(labels, "durability")
		}
		if text, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			if s.Mallocs, err = strconv.ParseFloat(text, 64); err != nil {
				return s, err
			}
		}
	}
	return s, lines.Err()
}

// label returns the value of a label that has no escapes, or nothing.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if value, ok := strings.CutPrefix(part, name+`="`); ok {
			value, _, _ = strings.Cut(value, `"`)
			return value
		}
	}
	return ""
}

// String tells all facts in a line.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores (%s), %s, %s/%s, fsync %v in %s, load average %s", m.CPUs, m.Model, m.Go, m.OS, m.Arch,
		m.Fsync, m.FsyncDir, m.Load)
}
