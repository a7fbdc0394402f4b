package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/bench"
	"millrace/internal/config"
	"millrace/internal/server"
	"millrace/internal/testkit"
)

// writerFunc is a function that is written to.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// serveMasenko runs a server until the end of the test and returns the environment in which the
// commands find it.
func serveMasenko(t *testing.T, more map[string]string) []string {
	t.Helper()
	flags := map[string]string{"data.dir": filepath.Join(t.TempDir(), "data"), "store.durability": "interval"}
	maps.Copy(flags, more)
	for _, k := range server.Settings().Keys() {
		if k.Kind == config.KindAddresses {
			flags[k.Name] = config.AddressOff
		}
	}
	flags["masenko.addr"], flags["web.addr"] = "127.0.0.1:0", "127.0.0.1:0"
	cfg, err := server.Settings().Load(config.Input{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	banner, done := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		done <- server.Run(ctx, cfg, server.Options{Version: "1.2.3", Out: writerFunc(func(p []byte) (int, error) {
			banner <- string(p)
			return len(p), nil
		})})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	var environ []string
	select {
	case err := <-done:
		done <- err
		t.Fatal(err)
	case text := <-banner:
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			_, addr, web := strings.Cut(fields[1], "//")
			if !web {
				addr = fields[1]
			}
			switch addr = strings.TrimSuffix(addr, "/"); fields[0] {
			case "masenko":
				environ = append(environ, "MILLRACE_MASENKO_ADDR="+addr)
			case "web":
				environ = append(environ, "MILLRACE_WEB_ADDR="+addr)
			}
		}
	}
	return environ
}

func TestBench(t *testing.T) {
	t.Parallel()
	environ := serveMasenko(t, nil)
	o := run(environ, "bench", "--count", "200", "--producers", "3", "--workers", "2", "--size", "50,500")
	for _, want := range []string{
		" cores (", "millrace 1.2.3 (go1.", "durability interval", "3 producers, 2 workers", "pushed ", "200",
		"push to fetch", "P99.9",
		"0 lost, 0 duplicated.",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	if o.status != exitOK || t.Failed() {
		t.Errorf("%+v", o)
	}

	o = run(environ, "bench", "--json", "--rate", "1000", "--duration", "100ms", "--workers", "0")
	var got struct {
		Machine  bench.Machine
		Server   bench.Server
		Pushed   uint64
		Push     bench.Latency
		Checked  bool
		Lost     int
		Protocol string
	}
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || o.status != exitOK {
		t.Fatalf("%+v: %v", o, err)
	}
	if got.Protocol != "masenko" || got.Server.Durability != "interval" || got.Machine.CPUs == 0 ||
		got.Machine.Fsync == 0 ||
		got.Pushed == 0 || got.Push.Count != got.Pushed || got.Push.Max <= 0 || !got.Checked || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
}

// TLS is spoken as the configuration says, or the flags.
func TestBenchTLS(t *testing.T) {
	t.Parallel()
	cert, key := testkit.NewCertificate(t, "localhost").Files(t)
	environ := serveMasenko(t, map[string]string{
		"masenko.tls.cert": cert, "masenko.tls.key": key, "web.tls.cert": cert, "web.tls.key": key,
	})
	configured := append(slices.Clone(environ), "MILLRACE_MASENKO_TLS_CERT="+cert, "MILLRACE_MASENKO_TLS_KEY="+key,
		"MILLRACE_WEB_TLS_CERT="+cert, "MILLRACE_WEB_TLS_KEY="+key)
	o := run(configured, "bench", "--count", "20")
	if o.status != exitOK || !strings.Contains(o.stdout, " with TLS, millrace 1.2.3") ||
		!strings.Contains(o.stdout, "0 lost, 0 duplicated.") {
		t.Errorf("%+v", o)
	}
	_, port, _ := strings.Cut(environ[0], "=127.0.0.1:")
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"--tls --tls-ca " + cert, exitOK, "0 lost, 0 duplicated."},
		{"--tls --tls-insecure", exitOK, "0 lost, 0 duplicated."},
		{"--tls", exitFailure, "certificate"},
		{"--tls --tls-cert " + cert, exitUsage, "give both or none"},
	} {
		o := run(nil, append([]string{"bench", "--count", "20", "--addr", "localhost:" + port},
			strings.Fields(tt.args)...)...)
		if o.status != tt.status || !strings.Contains(o.stdout+o.stderr, tt.want) {
			t.Errorf("%s: %+v", tt.args, o)
		}
	}
}

func TestBenchRefused(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	if o := run([]string{"MILLRACE_WORKQ_ADDR=off"}, "bench", "-p", "workq"); o.status != exitUsage ||
		!strings.Contains(o.stderr, "name the address with --addr") {
		t.Errorf("no listener: %+v", o)
	}
	nowhere := []string{"--api", "http://" + free.Addr().String(), "--addr", free.Addr().String()}
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"no such protocol", []string{"-p", "gopher"}, exitUsage, "choose one of masenko, workq"},
		{"a rate of the ceiling", []string{"--ceiling", "--rate", "5"}, exitUsage, "omit --rate"},
		{"an endless ceiling", []string{"--ceiling", "--in-flight", "0"}, exitUsage, "without end"},
		{"no secret", []string{"--secret-file", filepath.Join(t.TempDir(), "none")}, exitUsage, "--secret-file"},
		{"no server", nowhere, exitFailure, "connect to masenko at 127.0.0.1:"},
		{"nobody", []string{"--producers", "0", "--workers", "0"}, exitUsage, "producers or workers"},
		{"a tiny ceiling", []string{"ceiling", "--size", "5"}, exitUsage, "at least"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := run(nil, append([]string{"bench"}, tt.args...)...)
			if o.status != tt.status || !strings.Contains(o.stderr, tt.stderr) {
				t.Errorf("%+v, want %d and %q", o, tt.status, tt.stderr)
			}
		})
	}
}

// The server that does nothing serves until its input ends, and is no server to check anything with.
func TestBenchCeiling(t *testing.T) {
	t.Parallel()
	stdin, hold := io.Pipe()
	said, stdout := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- Main([]string{"bench", "ceiling", "-p", "workq"},
			Process{Stdin: stdin, Stdout: stdout, Stderr: io.Discard})
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	name, addr, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok || name != "workq" {
		t.Fatalf("%q, %v", line, err)
	}
	o := run(nil, "bench", "-p", "workq", "--addr", addr, "--count", "10")
	if o.status != exitFailure || !strings.Contains(o.stderr, "did not push") {
		t.Errorf("%+v", o)
	}
	_ = hold.Close()
	if got := <-status; got != exitOK {
		t.Errorf("status %d", got)
	}
}

func TestBenchLine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := newBenchLine(&b, bench.Options{Duration: time.Minute})
	for _, p := range []bench.Progress{
		{Phase: bench.PhaseRun, Elapsed: time.Second, Pushed: 100, Fetched: 90},
		{Phase: bench.PhaseRun, Elapsed: 5 * time.Second, Pushed: 500, Fetched: 400},
		{Phase: bench.PhaseRun, Elapsed: 11 * time.Second, Pushed: 2100, Fetched: 1090},
		{Phase: bench.PhaseDrain, Elapsed: time.Second, Pushed: 2100, Fetched: 1090},
		{Phase: bench.PhaseDrain, Elapsed: 11 * time.Second, Pushed: 2100, Fetched: 2100},
	} {
		l.show(p)
	}
	l.clear()
	want := "run: 11s of 1m0s, 2100 pushed (200/s), 1090 fetched (100/s)\ndrain: 11s, 2100 pushed (0/s), " +
		"2100 fetched (101/s)\n"
	if got := b.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.Reset()
	l.terminal = true
	l.show(bench.Progress{Phase: bench.PhaseDrain, Elapsed: 12 * time.Second, Pushed: 2100, Fetched: 2200})
	l.clear()
	if got := b.String(); !strings.HasPrefix(got, "\r\x1b[Kdrain: 12s") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("on a terminal: %q", got)
	}
}
