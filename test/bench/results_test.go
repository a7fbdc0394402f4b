package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/internal/bench"
)

// sampleResults are results with figures that cannot be mistaken for each other.
func sampleResults() results {
	r := results{
		Version: "millrace 1.2.3", Date: "2026-01-02", Rounds: 3, Duration: "1s",
		Backlog: backlogFigures{
			Jobs: 10_000_000, Body: 200, Fill: 204_321, Drain: 15_890, Peak: 249 << 20,
			DrainPeak: 310 << 20, Disk: 6 << 30,
			AfterStop: bench.Seconds(420 * time.Millisecond), AfterKill: bench.Seconds(400 * time.Millisecond),
		},
		Fair: fairFigures{
			Large: 1_000_000, Small: 999, Each: 10, Rounds: 3, P50: bench.Seconds(250 * time.Millisecond),
			P99: bench.Seconds(480 * time.Millisecond), AloneP50: bench.Seconds(200 * time.Millisecond),
			AloneP99: bench.Seconds(400 * time.Millisecond), Drain: 17_940, Plain: 19_933,
		},
	}
	for i, scenario := range []string{scenarioPush, scenarioRoundTrip, scenarioBulk} {
		for k, server := range []string{ceiling, "fsync", "interval", "none"} {
			rate := float64(100_000*(i+1)) / float64(k+1)
			r.Socket = append(r.Socket, socketFigures{
				Protocol: "masenko", Scenario: scenario, Conns: shownConns, Server: server, OfCeiling: 1 / float64(k+1),
				figures: figures{
					Rate: rate, P50: bench.Seconds(700 * time.Microsecond),
					P99: bench.Seconds(2100 * time.Microsecond),
				},
			})
		}
	}
	for k, server := range []string{serverSingle, serverLeader, serverStandby} {
		for _, scenario := range []string{scenarioPush, scenarioRoundTrip} {
			r.Cluster = append(r.Cluster, socketFigures{
				Protocol: "masenko", Scenario: scenario, Conns: shownConns, Server: server,
				figures: figures{Rate: 10_000 / float64(k+1)},
			})
		}
	}
	r.Changes = changeFigures{
		Kills: 100, FailoverMedian: bench.Seconds(1200 * time.Millisecond),
		FailoverWorst: bench.Seconds(2 * time.Second), Transfers: 20,
	}
	r.Peers = []peerFigures{
		{Server: "Millrace through X", Ours: true, Push: 900, Cycle: 800},
		{Server: "X", Push: 300, Cycle: 200, PushRatio: 3, CycleRatio: 4},
	}
	return r
}

// TestResults writes results, reads them again, and puts their tables into documents.
func TestResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "results.json")
	text, err := json.Marshal(sampleResults())
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text))
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o750); err != nil {
		t.Fatal(err)
	}
	performance, readme := filepath.Join(dir, "docs", "performance.md"), filepath.Join(dir, "README.md")
	write(t, performance, "a\n<!-- socket -->\nold\n<!-- /socket -->\nb\n<!-- scale -->\nold\n<!-- /scale -->\n<!-- "+
		"cluster -->\n<!-- /cluster -->\n<!-- peers -->\n<!-- /peers -->\n<!-- fair -->\n<!-- /fair -->\n")
	write(t, readme, "<!-- speed -->\nold\n<!-- /speed -->\n<!-- backlog -->\nold\n<!-- /backlog -->\nend\n")
	if err := runResults(t.Context(), report{&bytes.Buffer{}}, &resultsOptions{in: file, publish: dir}); err != nil {
		t.Fatal(err)
	}
	wants(t, performance, "| Masenko | 50,000 | 0.7, 2.1 ms | 100,000 | 150,000 | 33,300, 66,700 |\n",
		"(millrace 1.2.3; ", "medians of 3 runs of 1s)", "<!-- /socket -->\nb\n",
		"| 10,000,000 jobs of 200 bytes", "| pushed in transactions | 204,000/s, 249 MiB of memory at most, 6.0 GiB "+
			"on disk |\n", "| 0.42 s, 0.40 s |\n",
		"| worked off, order checked | 15,900/s, 310 MiB at most |\n<!-- /scale -->\n",
		"| 999 small tenants with 10 jobs each in one fair queue | beside one with 1,000,000 jobs | alone | ratio |\n",
		"| p99 wait of their jobs | 480.0 ms | 400.0 ms | 1.20 |\n",
		"drained at 17,900 jobs/s, which is 0.90 of the rate of a plain queue with the same jobs.\n<!-- /fair -->\n",
		"| Masenko | 5,000, 3,330 | 5,000, 3,330 | 0.50, 0.33 | 0.50, 0.33 |\n",
		"after 1.20 s (median of 100 kills), 2.00 s at worst",
		"| X | 300, 200 | 900, 800, X | 3.00 and 4.00 times as fast |\n")
	wants(t, readme, "| `fsync` (default) | 50,000 | 100,000 | nothing | nothing |\n",
		"| `none` | 25,000 | 50,000 | up to the last 100 ms |",
		"With 64 jobs in a request, 150,000 synced pushes/s. 10,000,000 jobs take 249 MiB of memory while "+
			"they are pushed and\n"+
			"310 MiB while they are worked off; a server with them is ready 0.42 s after its start.\n<!-- "+
			"/backlog -->\nend\n")

	// What proves nothing is not published, and what is incomplete makes no table.
	short := sampleResults()
	short.Short = true
	incomplete := sampleResults()
	incomplete.Socket = incomplete.Socket[:4]
	for says, r := range map[string]results{"not published": short, "have no roundtrip through masenko": incomplete} {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		if err := runResults(t.Context(), report{&bytes.Buffer{}},
			&resultsOptions{in: file, publish: dir}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want that it says %q", err, says)
		}
	}
}

// The documents have the places that results are put into.
func TestResultsHavePlaces(t *testing.T) {
	t.Parallel()
	for document, names := range map[string][]string{
		"README.md":           {"speed", "backlog"},
		"docs/performance.md": {"socket", "peers", "scale", "fair", "cluster"},
	} {
		for _, name := range names {
			wants(t, filepath.Join("..", "..", document), "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n")
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, path string, texts ...string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if !strings.Contains(string(got), text) {
			t.Errorf("%s lacks %q:\n%.1000s", path, text, got)
		}
	}
}

func TestRounded(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0.126: "0.13", 7: "7", 99.6: "100", 1234: "1,230", 48_651: "48,700",
		2_743_082: "2,740,000",
	} {
		if got := rounded(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}
