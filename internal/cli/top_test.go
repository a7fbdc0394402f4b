package cli

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTopOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := s.ok("top --once"); !strings.Contains(got, "there are no queues") {
		t.Errorf("%s", got)
	}
	s.ok("push mails x")
	s.ok("push mails y")
	s.ok("queue pause mails")
	frame := s.ok("top --once")
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "millrace ") || !strings.Contains(lines[0], s.url) ||
		!strings.HasPrefix(lines[3], "QUEUE ") {
		t.Errorf("%s", frame)
	}
	if cells := strings.Fields(lines[4]); strings.Join(cells[:4], " ") != "mails (paused) 2 0" {
		t.Errorf("%q", lines[4])
	}
	if strings.Contains(frame, "\x1b") {
		t.Errorf("colours in a pipe: %q", frame)
	}
	var look struct {
		Queues []struct {
			Name   string
			Paused bool
		}
		Server struct{ Ready bool }
	}
	if err := json.Unmarshal([]byte(s.ok("top --once --json")), &look); err != nil {
		t.Fatal(err)
	}
	if len(look.Queues) != 1 || look.Queues[0].Name != "mails" || !look.Queues[0].Paused || !look.Server.Ready {
		t.Errorf("%+v", look)
	}
	s.fails(exitUsage, "--once", "top")
	s.fails(exitUsage, "--once", "top --json")
	s.fails(exitUsage, "--every", "top --every never")
	s.fails(exitUnreachable, "no answer", "top --once --api http://127.0.0.1:1")
}

// screen collects what a program writes to a terminal.
type screen struct {
	mu      sync.Mutex // guards what follows
	text    strings.Builder
	changed chan struct{} // closed when more has been written
}

// read copies from the terminal until that is closed.
func (s *screen) read(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until a text has been written, and forgets all up to now.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	for {
		s.mu.Lock()
		all, changed := s.text.String(), s.changed
		if strings.Contains(all, text) {
			s.text.Reset()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(30 * time.Second):
			t.Fatalf("%q does not come: %q", text, all)
		}
	}
}
