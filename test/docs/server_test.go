package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// listener is a line in which the server says where it listens.
var listener = regexp.MustCompile(`(?m)^\S+ +(?:\w+://)?127\.0\.0\.1:(\d+)\b.*\n`)

// lineLog collects what the server prints and tells when all listeners are in it.
type lineLog struct {
	mu   sync.Mutex // guards what follows
	all  strings.Builder
	want int
	up   chan []string
}

func newLineLog() *lineLog { return &lineLog{up: make(chan []string, 1)} }

// Write takes what the server prints.
func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	l.announce()
	return len(p), nil
}

// listening returns a channel that gets the ports, in the server's order, once there
// are that many.
func (l *lineLog) listening(count int) <-chan []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = count
	l.announce()
	return l.up
}

func (l *lineLog) announce() {
	found := listener.FindAllStringSubmatch(l.all.String(), -1)
	if l.want == 0 || len(found) < l.want {
		return
	}
	ports := make([]string, len(found))
	for i, m := range found {
		ports[i] = m[1]
	}
	select {
	case l.up <- ports:
	default: // announced before
	}
}

func (l *lineLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// portKey is an address of the example configuration that is on by default.
var portKey = regexp.MustCompile(`(?m)^# \w+ = "127\.0\.0\.1:(\d+)"$`)

// defaultPorts asks the server itself, so that no protocol is forgotten: in the order
// of the configuration, which is the one in which listeners are announced.
func defaultPorts(t *testing.T, env []string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "millrace config example")
	cmd.Env = env
	example, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range portKey.FindAllStringSubmatch(string(example), -1) {
		out = append(out, m[1])
	}
	return out
}

func TestLineLog(t *testing.T) {
	t.Parallel()
	l := newLineLog()
	up := l.listening(2)
	for _, part := range []string{
		"millrace dev\nmasenko    127.0.0.1:40", "275 (namespace default)\n",
		"admin      http://127.0.0.1:777",
	} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case ports := <-up:
		t.Fatalf("half a line was taken for a port: %v", ports)
	default:
	}
	if _, err := l.Write([]byte("8/ (lmstfy)\n")); err != nil {
		t.Fatal(err)
	}
	if ports := <-up; strings.Join(ports, " ") != "40275 7778" {
		t.Errorf("ports: %v", ports)
	}
}
