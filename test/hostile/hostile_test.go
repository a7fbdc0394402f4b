//go:build linux

package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
	client "millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/tier"
)

const (
	// patience bounds everything that a test waits for.
	patience = 30 * time.Second
	// quietLeast is how long the probes are measured before each attack at the least.
	quietLeast = 700 * time.Millisecond
	// factor is how much longer a probe's p99 may be under an attack than before it, or than
	// that of a process that does nothing, if the machine has no time even for that.
	factor = 3
	// stall is the longest that a single call of a probe may take.
	stall = 5 * time.Second
	// unfinished is how much memory commands that have not arrived may have, as the server
	// is told. memoryBound is how much more memory it may have in all at the worst moment
	// of any attack than before the first: as much again is what the garbage collector has
	// not freed yet, and some is for everything else. memoryLeft is what it may keep.
	unfinished  = 128 << 20
	memoryBound = 2*unfinished + 256<<20
	memoryLeft  = 192 << 20
	// logBound is how many lines an attack may add to the log, of thousands of connections.
	logBound = 20
	// goroutineSlack is for those that the server has for itself: timers, compactions.
	goroutineSlack = 20
)

// siege is a server under attack.
type siege struct {
	t      *testing.T
	server *harness.Server
	probes []*probe // the last is the echo, which tells what the machine does
	first  state    // before the first attack
	rounds map[string][]round
}

// state is what an attack must leave as it was.
type state struct {
	connections int
	goroutines  int
	memory      uint64
}

// TestHostileClients attacks every listener at once in each of the ways, one after the
// other.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := besiege(ctx, t)
	s.pause(quiet()) // so that the probes are warm
	s.measure()
	s.first = s.state()
	for range *roundCount {
		for _, a := range tier.Pick(attacks, attacks[:3]) {
			if strings.Contains(a.name, *onlyAttack) {
				s.rounds[a.name] = append(s.rounds[a.name], s.attack(a))
			}
		}
	}
	s.conclude()
	cancel()
	if err := s.server.Stop(patience); err != nil {
		t.Error(err)
	}
}

// besiege starts a server and the probes. Timeouts are short, so that the attacks last
// longer than they.
func besiege(ctx context.Context, t *testing.T) *siege {
	t.Helper()
	listeners := append(client.Listeners(), "tarantool15", "admin")
	server, err := harness.Start(t.Context(), harness.Options{
		Bin: program.Bin,
		Args: []string{
			"serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--masenko-write-timeout=1s",
			"--workq-write-timeout=1s", "--beanstalkd-write-timeout=1s", "--faktory-write-timeout=1s",
			"--tarantool-write-timeout=1s", "--lmstfy-write-timeout=1s", "--lmstfy-read-timeout=1s",
			fmt.Sprintf("--listen-max-unfinished=%d", unfinished),
		},
		Env: program.Env, Listener: listeners[0], Also: listeners[1:],
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	s := &siege{t: t, server: server, rounds: map[string][]round{}}
	for _, d := range []dialecttest.Driver{dialecttest.Masenko(), dialecttest.Lmstfy(), dialecttest.TarantoolLegacy()} {
		addr := server.Addrs[d.Name]
		if addr == "" {
			addr = server.Addrs["tarantool"]
		}
		s.probes = append(s.probes, startProbe(ctx, t, d, addr, pace))
	}
	addr, err := startEcho(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.probes = append(s.probes, startControl(ctx, t, addr, pace))
	return s
}

// quiet is how long the probes are measured before each attack.
func quiet() time.Duration { return max(quietLeast, *attackTime/2) }

// pause lets some time pass while the probes work.
func (s *siege) pause(d time.Duration) {
	s.t.Helper()
	select {
	case <-time.After(d):
	case <-s.server.Done():
		s.t.Fatalf("the server has ended:\n%s", s.server.Stderr())
	}
}

// measure returns the windows of all probes.
func (s *siege) measure() []window {
	s.t.Helper()
	out := make([]window, len(s.probes))
	for i, p := range s.probes {
		// On a busy machine a call may last as long as the whole window: it counts in this one.
		for waited := time.Duration(0); p.count() == 0 && p.failure() == nil && waited < stall; waited += quietLeast {
			s.pause(quietLeast)
		}
		var err error
		if out[i], err = p.take(); errors.Is(err, errIdle) && p.name == echoName {
			out[i].p99 = stall // the machine has no time for anything
		} else if err != nil {
			s.t.Fatalf("%s is not served: %v", p.name, err)
		}
	}
	return out
}

// attack has one attack done to all listeners at the same time.
func (s *siege) attack(a attack) round {
	s.t.Helper()
	s.measure()
	s.pause(quiet())
	before := s.measure()
	lines := s.logLines()
	if err := harness.ResetPeak(s.server.Pid()); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	done, err := send(s.t.Context(), order{Attack: a.name, Time: *attackTime, Addrs: s.server.Addrs, Only: *onlyAt})
	if err != nil {
		s.t.Errorf("%s: %v", a.name, err)
	}
	during := s.measure()
	took := time.Since(began)
	memory, err := harness.ReadMemory(s.server.Pid())
	if err != nil {
		s.t.Fatal(err)
	}
	for i, w := range during {
		s.t.Logf("%-34s %-17s before %v; during %v", a.name, s.probes[i].name, before[i], w)
		if w.most > stall {
			s.t.Errorf("%s: a call of %s took %v", a.name, s.probes[i].name, w.most)
		}
	}
	if memory.Peak > s.first.memory+memoryBound {
		s.t.Errorf("%s: %d MiB of memory at the most, %d before the attacks", a.name, memory.Peak>>20,
			s.first.memory>>20)
	}
	if more := s.logLines() - lines; more > logBound {
		log := s.server.Stderr()
		s.t.Errorf("%s: %d more lines in the log, such as\n%s", a.name, more, log[max(0, len(log)-500):])
	}
	after := s.recover(a.name)
	s.t.Logf("%-34s %v; %d connections, %d answers in %v; memory %d MiB before the first, at the most %d, afterwards "+
		"%d; %d goroutines, %d connections",
		a.name, took.Round(10*time.Millisecond), done.Connections, done.Answers, done.Took.Round(time.Millisecond),
		s.first.memory>>20, memory.Peak>>20, after.memory>>20, after.goroutines, after.connections)
	last := len(during) - 1 // the echo
	return round{
		connections: done.Connections, before: before[:last], during: during[:last], echo: during[last],
		peak: memory.Peak,
	}
}

// logLines counts the lines of the log, except for those about what operators have done:
// they are kept of every such request, and only who may do it can make them.
func (s *siege) logLines() int {
	count := 0
	for line := range strings.Lines(s.server.Stderr()) {
		if !strings.Contains(line, `"operator request"`) {
			count++
		}
	}
	return count
}

// recover waits until the attack has left no trace but memory, and until enough of that
// has been given back.
func (s *siege) recover(name string) state {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		now := s.state()
		if now.connections <= s.first.connections && now.goroutines <= s.first.goroutines+goroutineSlack &&
			now.memory <= s.first.memory+memoryLeft {
			return now
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%s: afterwards %+v, before the first attack %+v", name, now, s.first)
			return now
		}
	}
}

// state asks the server, and the kernel about it.
func (s *siege) state() state {
	s.t.Helper()
	memory, err := harness.ReadMemory(s.server.Pid())
	if err != nil {
		s.t.Fatal(err)
	}
	now := state{memory: memory.Resident}
	for line := range strings.Lines(s.get("/metrics")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok &&
			strings.HasPrefix(name, "millrace_connections{") && !strings.Contains(name, `"web"`) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			now.connections += int(n)
		}
	}
	profile := s.get("/debug/pprof/goroutine?debug=1")
	if _, err := fmt.Sscanf(profile, "goroutine profile: total %d", &now.goroutines); err != nil {
		s.t.Fatalf("%v in %.100q", err, profile)
	}
	return now
}

// get asks the operator's side on a connection of its own.
func (s *siege) get(path string) string {
	s.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet,
		"http://"+s.server.Addrs["web"]+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		text, err := fetch(&client, req)
		if err == nil {
			return text
		}
		// The listener may be full of connections that the server has not yet found closed.
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v", path, err)
		}
	}
}

func fetch(client *http.Client, req *http.Request) (text string, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return string(body), err
}
