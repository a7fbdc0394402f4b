package testkit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestPipeDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(4)
		start := time.Now()
		_ = a.SetReadDeadline(start.Add(time.Minute))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != time.Minute {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		_ = a.SetReadDeadline(time.Time{})
		_ = b.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := b.Write([]byte("abcdef"))
		if n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write beyond the size: %d, %v", n, err)
		}
		buf := make([]byte, 8)
		if n, err := a.Read(buf); err != nil || string(buf[:n]) != "abcd" {
			t.Errorf("read %q, %v", buf[:n], err)
		}
		// A deadline moved into the past interrupts a read that waits.
		go func() { _ = a.SetReadDeadline(time.Unix(1, 0)) }()
		if _, err := a.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("interrupted read: %v", err)
		}
	})
}

func TestPipeClose(t *testing.T) {
	t.Parallel()
	a, b := Pipe(16)
	if _, err := a.Write([]byte("rest")); err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	if got, err := io.ReadAll(b); err != nil || string(got) != "rest" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write to a closed peer: %v", err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	l := Listen(0)
	c, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Read(make([]byte, 4)); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	_ = l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := l.Dial(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after close: %v", err)
	}
}

// echo serves l with lines that come back in upper case; "later" comes back
// after a minute and "bye" ends the connection.
func echo(ctx context.Context, l *Listener, count *atomic.Int64) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		count.Add(1)
		go func() {
			defer func() { _ = nc.Close() }()
			stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
			defer stop()
			for s := bufio.NewScanner(nc); s.Scan(); {
				switch s.Text() {
				case "later":
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return
					}
				case "bye":
					return
				}
				_, _ = io.WriteString(nc, strings.ToUpper(s.Text())+"\n")
			}
		}()
	}
}

// play runs a transcript against echo and returns its failure, or with update
// what it should be.
func play(t *testing.T, text string, update bool) (rewritten string, result error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := Listen(0)
		ctx, cancel := context.WithCancel(t.Context())
		var count atomic.Int64
		go echo(ctx, l, &count)
		tr := &Transcript{Dial: l.Dial}
		p := &player{Transcript: tr, t: t, eol: []byte("\n"), clients: make(map[string]*client), update: update}
		result = p.playAll(text)
		cancel()
		_ = l.Close()
		synctest.Wait()
		rewritten = p.out.String()
	})
	return rewritten, result
}

// playAll plays lines and hangs up.
func (p *player) playAll(text string) error {
	defer p.closeAll()
	for line := range strings.Lines(text) {
		if err := p.play(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return p.settled()
}

func TestTranscriptUpdate(t *testing.T) {
	t.Parallel()
	const old = "# note\na> x\na< wrong\n\na send \"y\"\na send \"z\\n\"\nb> later\nb< too early\nadvance 1m\na " +
		"recv \"old\"\na> bye\n"
	const want = "# note\na> x\na< X\n\na send \"y\"\na send \"z\\n\"\na< YZ\nb> later\nadvance 1m\nb< " +
		"LATER\na> bye\na eof\n"
	got, err := play(t, old, true)
	if err != nil || got != want {
		t.Errorf("update: %v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := play(t, want, false); err != nil {
		t.Errorf("the updated transcript fails: %v", err)
	}
}

// TestTranscriptFile plays a file.
func TestTranscriptFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.txt")
	if err := os.WriteFile(path, []byte("twice\na> x\na< X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := Listen(0)
		ctx, cancel := context.WithCancel(t.Context())
		var count atomic.Int64
		go echo(ctx, l, &count)
		verbs := 0
		tr := &Transcript{
			Path: path, Dial: l.Dial,
			Verbs: map[string]func(string) error{"twice": func(string) error { verbs++; return nil }},
		}
		tr.Run(t)
		cancel()
		_ = l.Close()
		synctest.Wait()
		if verbs != 1 || count.Load() != 1 {
			t.Errorf("%d verbs, %d connections", verbs, count.Load())
		}
	})
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, fails string }{
		"simple":          {"# note\na> hello\na< HELLO\n", ""},
		"two clients":     {"a> x\na< X\nb> y\nb< Y\na close\n", ""},
		"pipelined":       {"a>> x\na> y\na< X\na< Y\n", ""},
		"raw":             {"a send \"x\"\na send \"y\\n\"\na recv \"XY\\n\"\n", ""},
		"time":            {"a> later\nadvance 59s\nadvance 1s\na< LATER\n", ""},
		"too late":        {"a> later\nadvance 61s\nadvance 1s\na< LATER\n", "unexpectedly"},
		"wrong":           {"a> x\na< Y\n", "want \"Y\\n\""},
		"missing":         {"a> x\n", "unexpectedly"},
		"nothing":         {"a> later\na< LATER\n", "got \"\""},
		"eof":             {"a> bye\na eof\n", ""},
		"eof not told":    {"a> bye\nadvance 1s\n", "closed the connection"},
		"no eof":          {"a> x\na< X\na eof\n", "still connected"},
		"nonsense":        {"what is this\n", "not a line"},
		"bad duration":    {"advance soon\n", "advance"},
		"bad string":      {"a send x\n", "Go string"},
		"unknown client":  {"b< X\n", "has sent nothing"},
		"reconnects":      {"a> x\na< X\na close\na> z\na< Z\n", ""},
		"half close ends": {"a> x\na< X\na shut\na eof\n", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := play(t, test.text, false)
			failsWith(t, err, test.fails)
		})
	}
}

// failsWith checks the error of a transcript for a text; there must be none if that is empty.
func failsWith(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("unexpected failure: %v", err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("failure %v does not tell %q", err, text)
	}
}
