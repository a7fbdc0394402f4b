package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/internal/testkit"
)

// patience bounds what should happen at once, on a machine that is busy.
const patience = 2 * time.Minute

// running is a server under test.
type running struct {
	banner  string
	server  *server
	signals chan os.Signal
	done    chan error // the outcome of Run
	log     *testkit.Buffer
}

// lines hands on what is written to it, write by write.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// load makes a configuration for a test: a directory of its own, and one protocol
// on a free port.
func load(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	all := map[string]string{"data.dir": filepath.Join(t.TempDir(), "data")}
	for _, k := range Settings().Keys() {
		if k.Kind == config.KindAddresses {
			all[k.Name] = config.AddressOff
		}
	}
	all["masenko.addr"] = "127.0.0.1:0"
	maps.Copy(all, flags)
	cfg, err := Settings().Load(config.Input{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start runs a server until the end of the test and returns once it is ready.
func start(t *testing.T, cfg *config.Config, o Options) *running {
	t.Helper()
	r := &running{signals: make(chan os.Signal, 2), done: make(chan error, 1), log: new(testkit.Buffer)}
	banner, opened := make(lines, 1), make(chan *server, 1)
	o.Version, o.Out, o.Signals = "1.2.3", banner, r.signals
	o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	o.opened = func(s *server) { opened <- s }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done <- Run(ctx, cfg, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case r.banner = <-banner:
		r.server = <-opened
	case err := <-r.done:
		t.Fatalf("the server did not start: %v", err)
	}
	return r
}

// stop waits for the end of the server and returns its outcome.
func (r *running) stop(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		t.Fatalf("the server did not end:\n%s", r.log)
		return nil
	}
}

// until waits for a condition that nothing announces.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("in vain: %s", what)
		}
	}
}

// client speaks to a listener line by line.
type client struct {
	net.Conn
	r *bufio.Reader
}

// addr returns the address of the i-th listener.
func (r *running) addr(i int) string { return r.server.gates[i].Addr().String() }

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: c, r: bufio.NewReader(c)}
}

func (c *client) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (c *client) expect(t *testing.T, request, want string) {
	t.Helper()
	c.send(t, request)
	if got, err := c.r.ReadString('\n'); err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("%s: %q, %v, want %q", request, got, err, want)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"masenko.addr":         "127.0.0.1:0, 127.0.0.1:0=tenant-b",
		"masenko.metrics_addr": "127.0.0.1:0",
	})
	r := start(t, cfg, Options{})
	want := fmt.Sprintf("millrace   1.2.3\n"+
		"data       %s\n"+
		"durability fsync: what is acknowledged survives a power loss\n"+
		"masenko    %s (namespace default)\n"+
		"masenko    %s (namespace tenant-b)\n"+
		"metrics    http://%s/ (masenko, namespace default)\n", cfg.Data.Dir, r.addr(0), r.addr(1), r.addr(2))
	if r.banner != want {
		t.Errorf("banner:\n%s\nwant:\n%s", r.banner, want)
	}
	if !regexp.MustCompile(`127\.0\.0\.1:[1-9]`).MatchString(r.addr(0)) {
		t.Errorf("address %s", r.addr(0))
	}

	// The two listeners serve different namespaces of one engine.
	a, b := dial(t, r.addr(0)), dial(t, r.addr(1))
	a.expect(t, "PING", "PONG {}")
	a.expect(t, `PUSH {"name":"n"}`, `OK {"id":1}`)
	b.expect(t, `FETCH {"timeout":1}`, "EMPTY {}")
	a.expect(t, `FETCH {"timeout":1}`, `OK {"id":1,"queue":"default","name":"n"}`)

	resp, err := http.Get("http://" + r.addr(2) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "masenko_requests_total") {
		t.Errorf("metrics: %s, %v\n%s", resp.Status, err, body)
	}
	http.DefaultClient.CloseIdleConnections()

	r.signals <- syscall.SIGTERM
	if err := r.stop(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := net.Dial("tcp", r.addr(0)); err == nil {
		t.Error("the address still answers")
	}
}

// What was acknowledged is there after a restart, and the data directory is free.
func TestRestart(t *testing.T) {
	t.Parallel()
	cfg := load(t, nil)
	first := start(t, cfg, Options{})
	dial(t, first.addr(0)).expect(t, `PUSH {"name":"n"}`, `OK {"id":1}`)
	first.signals <- syscall.SIGINT
	if err := first.stop(t); err != nil {
		t.Fatal(err)
	}
	second := start(t, cfg, Options{})
	dial(t, second.addr(0)).expect(t, `FETCH {"timeout":1}`, `OK {"id":1,"queue":"default","name":"n"}`)
}

// A client that waits for a job does not hold the server up: it is told that there
// is none.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := start(t, load(t, nil), Options{})
	waiting, idle := dial(t, r.addr(0)), dial(t, r.addr(0))
	idle.expect(t, "PING", "PONG {}")
	waiting.send(t, `FETCH {"timeout":"40s"}`)
	until(t, "the fetch waits", func() bool { return r.server.engine.Stats().Waiters == 1 })

	begun := time.Now()
	r.signals <- syscall.SIGTERM
	if got, err := waiting.r.ReadString('\n'); err != nil || got != "EMPTY {}\n" {
		t.Errorf("the waiting fetch got %q, %v", got, err)
	}
	if got, err := io.ReadAll(waiting.r); err != nil || len(got) > 0 {
		t.Errorf("after its answer: %q, %v", got, err)
	}
	if got, err := io.ReadAll(idle.r); err != nil || len(got) > 0 {
		t.Errorf("the idle connection: %q, %v", got, err)
	}
	if err := r.stop(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the drain took %s", took)
	}
	if strings.Contains(r.log.String(), "closed before they ended") {
		t.Errorf("connections were cut off:\n%s", r.log)
	}
}

// stubborn starts a server with a connection that does not end by itself: its
// client does not read the replies, which are more than the sockets can hold.
func stubborn(t *testing.T, drainTimeout string) (*running, *client) {
	t.Helper()
	r := start(t, load(t, map[string]string{"server.drain_timeout": drainTimeout}), Options{})
	c := dial(t, r.addr(0))
	const tasks = 16
	payload := strings.Repeat("x", 1<<20)
	for i := range tasks {
		c.expect(t, `PUSH {"name":"n","payload":"`+payload+`"}`, fmt.Sprintf(`OK {"id":%d}`, i+1))
	}
	c.send(t, strings.Repeat(`FETCH {"timeout":1}`+"\n", tasks-1)+`FETCH {"timeout":1}`)
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	return r, c
}

func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	r, c := stubborn(t, "50ms")
	begun := time.Now()
	r.signals <- syscall.SIGTERM
	if err := r.stop(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took < 50*time.Millisecond || took > 2*time.Second {
		t.Errorf("the drain took %s", took)
	}
	if got, err := io.Copy(io.Discard, c.r); err == nil && got > 16<<20 {
		t.Errorf("the client was sent all of the %d bytes", got)
	}
	if !strings.Contains(r.log.String(), "connections=1") {
		t.Errorf("the log does not tell of the connection that was cut off:\n%s", r.log)
	}
}

func TestSecondSignal(t *testing.T) {
	t.Parallel()
	r, c := stubborn(t, "1h")
	begun := time.Now()
	r.signals <- syscall.SIGTERM
	r.signals <- syscall.SIGTERM // the same signal once more, as timeout(1) sends it
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var err error
	for ended := false; !ended; {
		select {
		case err = <-r.done:
			ended = true
		case <-tick.C:
			select {
			case r.signals <- syscall.SIGTERM:
			default:
			}
		}
	}
	if took := time.Since(begun); !errors.Is(err, ErrInterrupted) || took < signalBounce {
		t.Errorf("Run: %v after %s, want ErrInterrupted after %s", err, took, signalBounce)
	}
	// The process would end here. The test lets the drain finish instead.
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate := testkit.NewCertificate(t, "localhost")
	cert, key := certificate.Files(t)
	r := start(t, load(t, map[string]string{"masenko.tls.cert": cert, "masenko.tls.key": key}), Options{})
	secure := tls.Client(dial(t, r.addr(0)), certificate.Client("localhost"))
	c := &client{Conn: secure, r: bufio.NewReader(secure)}
	c.expect(t, "PING", "PONG {}")
}

// A storage error stops the server, loudly; nothing is acknowledged after it.
func TestStorageFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is on fire")
	faulty := storetest.NewFaulty(memstore.New())
	r := start(t, load(t, nil), Options{openStore: func(pebblestore.Options) (store.Store, error) {
		return faulty, nil
	}})
	c := dial(t, r.addr(0))
	c.expect(t, `PUSH {"name":"n"}`, `OK {"id":1}`)
	faulty.FailAll(broken)
	c.send(t, `PUSH {"name":"n"}`)
	if got, _ := c.r.ReadString('\n'); strings.HasPrefix(got, "OK") {
		t.Errorf("a push on a broken disk was answered %q", got)
	}
	checkStorageFailure(t, r, broken)
}

// The store may also find out by itself, between two commits.
func TestStorageFailureBehindTheScenes(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is on fire")
	report := make(chan func(error), 1)
	r := start(t, load(t, nil), Options{openStore: func(o pebblestore.Options) (store.Store, error) {
		report <- o.OnFatal
		return pebblestore.Open(o)
	}})
	(<-report)(broken)
	checkStorageFailure(t, r, broken)
}

func checkStorageFailure(t *testing.T, r *running, cause error) {
	t.Helper()
	err := r.stop(t)
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "storage failed in") {
		t.Errorf("Run: %v, want the cause", err)
	}
	if log := r.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, cause.Error()) {
		t.Errorf("the log is not loud:\n%s", log)
	}
	if _, err := net.Dial("tcp", r.addr(0)); err == nil {
		t.Error("the address still answers")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	inUse := load(t, nil)
	start(t, inUse, Options{})
	for _, c := range []struct {
		name  string
		flags map[string]string
		want  []string
	}{
		{
			"address in use",
			map[string]string{"masenko.addr": taken.Addr().String()},
			[]string{
				"masenko.addr: cannot listen on " + taken.Addr().String(), "address already in use",
				"perhaps another millrace", "masenko.addr (MILLRACE_MASENKO_ADDR, --masenko-addr)",
			},
		},
		{
			"address of another machine",
			map[string]string{"masenko.addr": "192.0.2.1:1", "listen.insecure": "true"},
			[]string{
				"masenko.addr: cannot listen on 192.0.2.1:1", "this machine does not have that address",
				"--masenko-addr",
			},
		},
		{
			"second of two addresses in use",
			map[string]string{"masenko.metrics_addr": taken.Addr().String()},
			[]string{"masenko.metrics_addr: cannot listen on", "MILLRACE_MASENKO_METRICS_ADDR"},
		},
		{"all off", map[string]string{"masenko.addr": "off"}, []string{"every listener is off", "masenko.addr"}},
		{
			"no certificate",
			map[string]string{"masenko.tls.cert": "missing.pem", "masenko.tls.key": "missing.pem"},
			[]string{"masenko.tls: tls certificate: open missing.pem"},
		},
		{
			"directory in use",
			map[string]string{"data.dir": inUse.Data.Dir},
			[]string{"data.dir:", inUse.Data.Dir, "in use by another process"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := load(t, c.flags)
			var out bytes.Buffer
			err := Run(t.Context(), cfg, Options{Out: &out})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v\nlacks %q", err, part)
				}
			}
			if out.Len() > 0 {
				t.Errorf("announced before it failed: %s", &out)
			}
		})
	}
}

// A taken port is noticed before anything is touched on disk.
func TestNothingTouched(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	cfg := load(t, map[string]string{"masenko.addr": taken.Addr().String()})
	if err := Run(t.Context(), cfg, Options{}); err == nil {
		t.Fatal("accepted")
	}
	if _, err := os.Stat(cfg.Data.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// Two protocols on one engine: what one takes in the other gives out.
func TestTwoProtocols(t *testing.T) {
	t.Parallel()
	r := start(t, load(t, map[string]string{"workq.addr": "127.0.0.1:0, 127.0.0.1:0=tenant-b"}), Options{})
	if want := fmt.Sprintf("workq      %s (namespace default)\nworkq      %s (namespace tenant-b)\n", r.addr(1),
		r.addr(2)); !strings.HasSuffix(r.banner, want) {
		t.Errorf("banner:\n%s\nwant at its end:\n%s", r.banner, want)
	}
	masenko, workq, other := dial(t, r.addr(0)), dial(t, r.addr(1)), dial(t, r.addr(2))
	workq.expect(t, "add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 q 1000 60000 4\r\n1234\r", "+OK")
	other.expect(t, "lease q 0\r", "-TIMEOUT")
	masenko.expect(t, `FETCH {"queues":["q"],"timeout":"1s"}`, `OK {"id":1,"queue":"q","name":"job","payload":1234}`)
	masenko.expect(t, `ACK {"id":1}`, "OK {}")
	workq.expect(t, "inspect queue q\r", "+OK 1")
}

// Every protocol that has listeners in the configuration is compiled in.
func TestProtocols(t *testing.T) {
	t.Parallel()
	for _, l := range load(t, map[string]string{"workq.addr": "127.0.0.1:0"}).Listeners() {
		found := slices.ContainsFunc(protocols(), func(p dialect.Spec) bool { return p.Name == l.Protocol })
		if !found && l.Protocol != config.ProtocolWeb {
			t.Errorf("%s has listeners but is not in the list of protocols", l.Protocol)
		}
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	cfg, err := Settings().Load(config.Input{
		Environ: []string{"MASENKO_LISTEN_TCP=127.0.0.1:0", "MASENKO_MAX_WAL_SIZE=1"},
		Flags: map[string]string{
			"data.dir": t.TempDir(), "workq.addr": "off", "lmstfy.addr": "off", "lmstfy.admin_addr": "off",
			"tarantool.addr": "off",
			"faktory.addr":   "off", "web.addr": "off",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, cfg, Options{})
	for _, part := range []string{
		"variable=MASENKO_LISTEN_TCP", "MILLRACE_MASENKO_ADDR",
		"variable=MASENKO_MAX_WAL_SIZE",
	} {
		if !strings.Contains(r.log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, r.log)
		}
	}
}
