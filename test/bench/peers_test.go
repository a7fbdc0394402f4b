package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/internal/bench"
)

// A program is looked for among those that were built, then among those that are installed.
func TestProgram(t *testing.T) {
	t.Parallel()
	b := &peers{bins: t.TempDir()}
	if got := b.missing(&peer{programs: []string{"sh", "no-such-program"}}); got != "no-such-program" {
		t.Errorf("missing: %q", got)
	}
	built := filepath.Join(b.bins, "sh")
	if err := os.WriteFile(built, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := b.program("sh"); got != built {
		t.Errorf("program: %q, want %q", got, built)
	}
}

// A peer's processes run until they are stopped, and what one says is known when it does not come up.
func TestProcesses(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it has been asked
	s := &processes{addr: l.Addr().String()}
	if err := s.run(t.Context(), t.TempDir(), s.addr, "/bin/sh", "-c", "exec cat /dev/zero >/dev/null"); err != nil {
		t.Fatal(err)
	}
	p := &target{pids: s.pids}
	for began := time.Now(); ; {
		if d, err := p.cpu(); err != nil || d > 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("it uses no processor time")
		}
		<-time.After(peerPoll)
	}
	s.stop()
	if _, err := p.cpu(); err == nil {
		t.Error("it is still there")
	}
	if _, err := starting(s, nil); err != nil {
		t.Error(err)
	}
}

// redisDo finds the line that it looks for and tells of a refusal.
func TestRedis(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "s")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	answers := []string{"$30\r\n# Server\r\nprocess_id:4711\r\n\r\n", "+OK\r\n", "-ERR no\r\n", "$-1\r\n"}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for _, answer := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}
	}()
	for _, tt := range []struct{ prefix, want, err string }{
		{redisMarker, "process_id:4711", ""}, {"+OK", "+OK", ""}, {"+OK", "", "-ERR no"}, {"+OK", "", "no +OK"},
	} {
		got, err := redisDo(t.Context(), sock, "X", tt.prefix)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q, %v, want %q, %s", got, err, tt.want, tt.err)
		}
	}
	_ = l.Close()
	<-served
}

// Every peer is compared with Millrace through a protocol that Millrace speaks.
func TestPeers(t *testing.T) {
	t.Parallel()
	for _, p := range allPeers {
		ours := false
		for _, q := range bench.Protocols() {
			ours = ours || q == p.ours
		}
		if !ours || len(p.variants) != 2 || len(p.programs) == 0 {
			t.Errorf("%+v", p)
		}
		for _, v := range p.variants {
			if p.protocol == nil && v.protocol == nil {
				t.Errorf("%s speaks no protocol", v.name)
			}
		}
	}
}
