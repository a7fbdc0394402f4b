package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/internal/config"
	"millrace/internal/server"
)

// announced hands on what the server prints.
type announced chan string

func (a announced) Write(p []byte) (int, error) {
	a <- string(p)
	return len(p), nil
}

// serveAll runs a server of all protocols until the end of the test. It returns their addresses and that of
// the web listener.
func serveAll(t *testing.T, more map[string]string) map[string]string {
	t.Helper()
	flags := map[string]string{"data.dir": filepath.Join(t.TempDir(), "data"), "store.durability": "interval"}
	for _, k := range server.Settings().Keys() {
		if k.Kind == config.KindAddresses {
			flags[k.Name] = config.AddressOff
		}
	}
	for _, p := range Protocols() {
		flags[p.Listener()+".addr"] = "127.0.0.1:0"
	}
	maps.Copy(flags, more)
	cfg, err := server.Settings().Load(config.Input{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	banner, done := make(announced, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- server.Run(ctx, cfg, server.Options{Version: "1.2.3", Out: banner}) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	addrs := make(map[string]string)
	select {
	case err := <-done:
		done <- err
		t.Fatal(err)
	case text := <-banner:
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			addrs[fields[0]] = fields[1]
		}
	}
	return addrs
}

// addressOf returns where a protocol is spoken, as HOST:PORT.
func addressOf(addrs map[string]string, p *Protocol) string {
	addr := addrs[p.Listener()]
	if _, rest, isURL := strings.Cut(addr, "://"); isURL {
		return strings.TrimSuffix(rest, "/")
	}
	return addr
}

// options are those of a short run that checks everything.
func options(p *Protocol, addr string) Options {
	return Options{
		Protocol: p, Addr: addr, Queue: "q", Producers: 3, Workers: 2, Batch: 1, Sizes: []int{SizeMin, 100, 5000},
		Count: 300, InFlight: 4, Patience: 20 * time.Second,
	}
}

// TestProtocols runs all kinds of load on the real server through every protocol: nothing is lost,
// nothing comes twice, nothing comes back changed.
func TestProtocols(t *testing.T) {
	t.Parallel()
	addrs := serveAll(t, nil)
	loads := []struct {
		name   string
		change func(o *Options)
		push   uint64 // requests that were measured
		fetch  uint64
	}{
		{"round trips", func(*Options) {}, 300, 300},
		{"bulks of twenty", func(o *Options) { o.Batch = 20 }, 15, 300},
		{"pushes, emptied afterwards", func(o *Options) { o.Workers = 0 }, 300, 0},
		{"a queue that was filled before", func(o *Options) { o.Producers = 0 }, 0, 300},
		{"open loop", func(o *Options) { o.Rate = 3000 }, 300, 300},
		{"no bound", func(o *Options) { o.InFlight = 0 }, 300, 300},
	}
	for _, p := range Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for i, l := range loads {
				o := options(p, addressOf(addrs, p))
				o.Queue = fmt.Sprintf("%s-%d", p.Name, i) // all protocols see the same queues
				l.change(&o)
				r, err := Run(t.Context(), o)
				if err != nil {
					t.Fatalf("%s: %v", l.name, err)
				}
				if !r.Checked || r.Lost != 0 || r.Duplicated != 0 || r.Push.Count != l.push ||
					r.Fetch.Count != l.fetch || r.Rate() <= 0 {
					t.Errorf("%s: %+v", l.name, r)
				}
				if both := o.Producers > 0 && o.Workers > 0; both != (r.PushToFetch.Count == 300) {
					t.Errorf("%s: from push to fetch: %+v", l.name, r.PushToFetch)
				}
			}
		})
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s, err := ReadServer(t.Context(), Web{URL: addrs["web"]})
		if err != nil || s.Version != "1.2.3" || s.Durability != "interval" || !strings.HasPrefix(s.Go, "go1.") ||
			s.Mallocs < 1000 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestSecrets logs in where the server wants it, and sees that it would not do without.
func TestSecrets(t *testing.T) {
	t.Parallel()
	addrs := serveAll(t, map[string]string{
		"faktory.password": "sesame", "tarantool.auth": "login", "tarantool.users": "ann:sesame",
		"lmstfy.auth":       "token",
		"lmstfy.admin_addr": "127.0.0.1:0", "web.password": "sesame",
	})
	resp, err := http.Post(addrs["admin"]+"token/bench?description=test", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Token string }
	err = json.NewDecoder(resp.Body).Decode(&made)
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err != nil {
		t.Fatal(err)
	}
	for p, secret := range map[*Protocol]string{Faktory: "sesame", Tarantool: "ann:sesame", Lmstfy: made.Token} {
		o := options(p, addressOf(addrs, p))
		o.Queue = p.Name // all protocols see the same queues
		if r, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s without a secret: %+v", p.Name, r)
		}
		o.Secret = secret
		if r, err := Run(t.Context(), o); err != nil || r.Fetched != 300 || r.Lost != 0 {
			t.Errorf("%s with %s: %+v, %v", p.Name, secret, r, err)
		}
		o.Secret = "ann:wrong"
		if r, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s with a wrong secret: %+v", p.Name, r)
		}
	}
	if s, err := ReadServer(t.Context(), Web{URL: addrs["web"], Password: "sesame"}); err != nil ||
		s.Durability != "interval" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestDuration ends runs by time and by their context.
func TestDuration(t *testing.T) {
	t.Parallel()
	addrs := serveAll(t, nil)
	o := options(Masenko, addrs["masenko"])
	o.Count, o.Duration = 0, 50*time.Millisecond
	r, err := Run(t.Context(), o)
	for ; errors.Is(err, ErrNothingDone); r, err = Run(t.Context(), o) {
		o.Duration *= 2 // on a busy machine even one job may take a while
	}
	if err != nil || r.Pushed == 0 || r.Fetched != r.Pushed || r.Lost != 0 {
		t.Errorf("%+v, %v", r, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Duration = time.Hour
	o.Progress = func(p Progress) {
		if p.Phase != PhaseRun {
			t.Errorf("phase %s", p.Phase)
		}
		if p.Pushed > 0 {
			cancel()
		}
	}
	if r, err = Run(ctx, o); err != nil || r.Pushed == 0 || r.Fetched != r.Pushed || r.Lost != 0 {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
}

// TestNothing measures the servers that do nothing, which must be as easy as any.
func TestNothing(t *testing.T) {
	t.Parallel()
	for _, p := range Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			o := options(p, l.Addr().String())
			o.Unchecked, o.Batch = true, 50
			served, nothing := make(chan error, 1), o.Nothing()
			go func() { served <- p.ServeNothing(l, nothing) }()
			for _, workers := range []int{0, 2} {
				for _, batch := range []int{1, 50} {
					o.Workers, o.Batch = workers, batch
					r, err := Run(t.Context(), o)
					if err != nil || r.Pushed != 300 || r.Checked || workers > 0 && r.Fetched < 300 {
						t.Errorf("%d workers, batches of %d: %+v, %v", workers, batch, r, err)
					}
				}
			}
			if err := errors.Join(l.Close(), <-served); err != nil {
				t.Error(err)
			}
		})
	}
}

// faulty is a server of Masenko that keeps payloads in memory and does not do all that it should.
type faulty struct {
	mu     sync.Mutex
	queue  []string
	pushes int
	keeps  func(nth int, payload string) []string // what becomes of a push
}

func (f *faulty) answer(in *bufio.Reader, out []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return out, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case bytes.HasPrefix(line, []byte("PUSH")):
		_, payload, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("}\n")), []byte(`"payload":`))
		f.pushes++
		f.queue = append(f.queue, f.keeps(f.pushes, string(payload))...)
		return append(out, "OK {\"id\":1}\n"...), nil
	case bytes.HasPrefix(line, []byte("FETCH")):
		if len(f.queue) == 0 {
			return append(out, "EMPTY {}\n"...), nil
		}
		payload := f.queue[0]
		f.queue = f.queue[1:]
		return append(out, `OK {"id":1,"payload":`+payload+"}\n"...), nil
	}
	return append(out, "OK {}\n"...), nil
}

// TestFaulty sees that loss, duplicates and damage are found.
func TestFaulty(t *testing.T) {
	t.Parallel()
	once := func(payload string) []string { return []string{payload} }
	tests := []struct {
		name       string
		keeps      func(nth int, payload string) []string
		workers    int
		lost       int
		duplicated uint64
		err        string
	}{
		{"sound", func(_ int, p string) []string { return once(p) }, 2, 0, 0, ""},
		{"loses", func(nth int, p string) []string {
			if nth%10 == 0 {
				return nil
			}
			return once(p)
		}, 2, 10, 0, ""},
		{"loses what is not fetched while it is measured", func(nth int, p string) []string {
			if nth == 100 {
				return nil
			}
			return once(p)
		}, 0, 1, 0, ""},
		{"duplicates", func(nth int, p string) []string {
			if nth%20 == 0 {
				return []string{p, p}
			}
			return once(p)
		}, 2, 0, 5, ""},
		{"both", func(nth int, p string) []string {
			switch nth % 50 {
			case 0:
				return []string{p, p, p}
			case 1:
				return nil
			}
			return once(p)
		}, 2, 2, 4, ""},
		{"changes", func(_ int, p string) []string { return once(p[:len(p)-2] + `!"`) }, 2, 0, 0, "came back changed"},
		{"of someone else", func(int, string) []string { return once(string(Blank(100))) }, 2, 0, 0, "did not push"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			f := &faulty{keeps: tt.keeps}
			served := make(chan error, 1)
			go func() { served <- serveTCP(l, Nothing{}, "", func() answerFunc { return f.answer }) }()
			o := options(Masenko, l.Addr().String())
			o.Workers, o.Count, o.Sizes, o.Linger, o.Patience = tt.workers, 100, []int{100}, true, time.Second
			o.InFlight = 100 // what is lost stays in flight
			r, err := Run(t.Context(), o)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%+v, %v, want %s", r, err, tt.err)
				}
			case err != nil:
				t.Error(err)
			case !r.Checked || r.Pushed != 100 || r.Lost != tt.lost || r.Duplicated != tt.duplicated:
				t.Errorf("%+v, want %d lost and %d duplicated", r, tt.lost, tt.duplicated)
			}
			if err := errors.Join(l.Close(), <-served); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSilent gives up a server that does not answer, and tells of one that hangs up or is not there.
func TestSilent(t *testing.T) {
	t.Parallel()
	l := listen(t)
	quit := make(chan struct{})
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				<-quit
				_ = c.Close()
			})
		}
	})
	o := options(Masenko, l.Addr().String())
	o.Patience = 200 * time.Millisecond
	if r, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "answered nothing") {
		t.Errorf("a silent server: %+v, %v", r, err)
	}
	close(quit)
	if r, err := Run(t.Context(), o); !errors.Is(err, io.EOF) && !isReset(err) {
		t.Errorf("a server that hangs up: %+v, %v", r, err)
	}
	_ = l.Close()
	conns.Wait()
	if r, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "connect to masenko") {
		t.Errorf("no server: %+v, %v", r, err)
	}
}

func isReset(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// TestOpenLoop counts the wait that a slow server causes, for the pushes too that it holds up.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	l := listen(t)
	const pause = 300 * time.Millisecond
	pushes := 0
	slow := func(in *bufio.Reader, out []byte) ([]byte, error) {
		if _, err := in.ReadSlice('\n'); err != nil {
			return out, err
		}
		if pushes++; pushes == 1 {
			<-time.After(pause)
		}
		return append(out, "OK {\"id\":1}\n"...), nil
	}
	served := make(chan error, 1)
	go func() { served <- serveTCP(l, Nothing{}, "", func() answerFunc { return slow }) }()
	o := options(Masenko, l.Addr().String())
	o.Producers, o.Workers, o.Rate, o.Count, o.Keep = 1, 0, 100, 30, true
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// Pushes are due every 10 ms. All that were due in the first half of the pause had to wait for its
	// second half at least, although only one of them met it on the wire.
	if time.Duration(r.Push.P50) < pause/3 || r.Push.Count != 30 || r.Checked {
		t.Errorf("%+v", r)
	}
	if err := errors.Join(l.Close(), <-served); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *Options){
		"nobody":               func(o *Options) { o.Producers, o.Workers = 0, 0 },
		"nothing to work on":   func(o *Options) { o.Producers, o.Count, o.Duration = 0, 0, time.Second },
		"a rate of nothing":    func(o *Options) { o.Producers, o.Rate = 0, 1 },
		"no batch":             func(o *Options) { o.Batch = 0 },
		"no end":               func(o *Options) { o.Count = 0 },
		"less than nothing":    func(o *Options) { o.Rate = -1 },
		"no body":              func(o *Options) { o.Sizes = nil },
		"a body too small":     func(o *Options) { o.Sizes = []int{100, SizeMin - 1} },
		"unbounded nothing":    func(o *Options) { o.Unchecked, o.InFlight = true, 0 },
		"nothing but a filler": func(o *Options) { o.Unchecked, o.Producers = true, 0 },
	} {
		o := options(Masenko, "127.0.0.1:1")
		change(&o)
		if err := o.Check(); err == nil {
			t.Errorf("%s is accepted: %+v", name, o)
		}
	}
	if _, err := Find("gopher"); err == nil || !strings.Contains(err.Error(), "masenko, workq") {
		t.Errorf("Find: %v", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
