package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"millrace/internal/bench"
	"millrace/internal/testkit"
	"millrace/test/harness"
	"millrace/test/tier"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// serveNothing runs a server that does nothing. The function that it returns ends it.
func serveNothing(t *testing.T, p *bench.Protocol) (addr string, stop func()) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.ServeNothing(l, bench.Nothing{Body: payload}) }()
	return l.Addr().String(), func() {
		t.Helper()
		if err := errors.Join(l.Close(), <-served); err != nil {
			t.Error(err)
		}
	}
}

// TestScenarios runs every scenario against every server that does nothing.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, p := range bench.Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			addr, stop := serveNothing(t, p)
			defer stop()
			for _, scenario := range []string{scenarioPush, scenarioBulk, scenarioRoundTrip} {
				l := &load{
					addr: addr, scenario: scenario, queue: "q", conns: 3,
					duration: 100 * time.Millisecond, nothing: true,
				}
				f, err := l.run(t.Context(), p)
				for ; errors.Is(err, bench.ErrNothingDone) && l.duration < time.Minute; f, err = l.run(t.Context(), p) {
					l.duration *= 2 // on a busy machine even one job may take a while
				}
				if err != nil || f.Jobs == 0 || f.Rate <= 0 || f.P50 <= 0 || f.P99 < f.P50 || f.P999 < f.P99 {
					t.Errorf("%s: %+v, %v", scenario, f, err)
				}
				if scenario == scenarioBulk && f.Jobs%bulkSize != 0 {
					t.Errorf("%d jobs in bulks of %d", f.Jobs, bulkSize)
				}
			}
		})
	}
}

// TestSubqueues fills sub-queues and drains what the server that does nothing delivers.
func TestSubqueues(t *testing.T) {
	t.Parallel()
	addr, stop := serveNothing(t, bench.Tarantool)
	defer stop()
	l := &load{addr: addr, scenario: "fill", queue: "q", conns: 2, duration: 10 * time.Second, keys: 3, tasks: 600}
	if f, err := l.run(t.Context(), bench.Tarantool); err != nil || f.Jobs != 600 {
		t.Errorf("fill: %+v, %v", f, err)
	}
	l.scenario, l.duration = "drain", 50*time.Millisecond
	if f, err := l.run(t.Context(), bench.Tarantool); err != nil || f.Jobs == 0 {
		t.Errorf("drain: %+v, %v", f, err)
	}
	l.scenario = "gopher"
	if _, err := l.run(t.Context(), bench.Tarantool); err == nil {
		t.Error("any scenario is accepted")
	}
}

func TestMedians(t *testing.T) {
	t.Parallel()
	got := medians([]figures{
		{Jobs: 1, Rate: 5, P50: 3, P99: 9, P999: 10, CPU: 2, Allocs: 7},
		{Jobs: 3, Rate: 1, P50: 2, P99: 7, P999: 30, CPU: 9, Allocs: 8},
		{Jobs: 2, Rate: 3, P50: 1, P99: 8, P999: 20, CPU: 4, Allocs: 6},
	})
	if want := (figures{Jobs: 2, Rate: 3, P50: 2, P99: 8, P999: 20, CPU: 4, Allocs: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	r := report{&b}
	tab := r.table("a", "b", "c", "d")
	tab.row("x", 1500*time.Microsecond, bench.Seconds(time.Second), allocs(-1))
	if got, want := b.String(), "| a | b | c | d |\n| --- | --- | --- | --- |\n| x | 1.50 ms | 1000.0 ms | - "+
		"|\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBinary has the real binary measure a real server, and its own server that does nothing.
func TestBinary(t *testing.T) {
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
	s, err := harness.Start(t.Context(), harness.Options{
		Bin: bin, Env: ports,
		Args: serveArgs(filepath.Join(dir, "data")), Also: []string{"web"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	cmd := exec.CommandContext(t.Context(), bin, "bench", "--addr", s.Addr, "--api", "http://"+s.Addrs["web"],
		"--count", "500", "--batch", "5", "--ceiling", "--json")
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var got struct {
		bench.Result
		Server  bench.Server
		Ceiling bench.Result
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Server.Durability != "fsync" || !got.Checked || got.Lost != 0 || got.Fetched != 500 ||
		got.Ceiling.Fetched < 500 || got.Ceiling.Addr == got.Addr {
		t.Errorf("%s", text)
	}
	ours := &target{name: "ours", protocol: bench.Protocols()[0], web: "http://" + s.Addrs["web"]}
	w, err := ours.mallocs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w(); err != nil || n < 0 || n > 100_000 {
		t.Errorf("%v allocations of a server that has nothing to do, %v", n, err)
	}
	b := &wire{profiles: filepath.Join(dir, "profiles")}
	if err := <-b.profile(t.Context(), ours,
		load{scenario: scenarioPush, conns: 1, duration: time.Second}); err != nil {
		t.Fatal(err)
	}
	profiles, err := filepath.Glob(filepath.Join(b.profiles, "*-ours-"+scenarioPush+"-1-0.prof"))
	if err != nil || len(profiles) != 1 {
		t.Fatalf("profiles %q, %v", profiles, err)
	}
	if p, err := os.ReadFile(profiles[0]); err != nil || !bytes.HasPrefix(p, []byte("\x1f\x8b")) {
		t.Errorf("a profile of %d bytes that is not compressed, %v", len(p), err)
	}
}
