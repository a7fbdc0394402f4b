package masenko

import (
	"strings"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// command takes a line into a unit.
func command(c *conn, u *dialect.Unit, line []byte) (later bool) {
	c.line = line
	later, _ = c.Take(u) // an error is of a line of another protocol
	return later
}

// FuzzParse feeds one request line to the parsers: whatever it is, nothing
// panics, the body parsers agree with the Go decoder, and the line gives at most
// one reply and one command whose parts are no larger than the line.
func FuzzParse(f *testing.F) {
	for _, s := range bodySeeds {
		f.Add("PUSH " + s)
	}
	for _, s := range []string{
		"", "PING", "ping \r", "FETCH", "FETCH {}", "ACK", "NACK {\"id\":1}", "INFO", "QUIT",
		"ATOMIC", "DONE", "\x00", "what ever",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		_, body := splitLine([]byte(line))
		checkParse(t, body)

		for _, inside := range []bool{false, true} {
			c := &conn{d: New(Options{MaxPayload: 64})}
			u := new(dialect.Unit)
			testkit.Bounded(t, len(line), func() {
				if inside {
					command(c, u, []byte("ATOMIC"))
				}
				command(c, u, []byte(line))
				if inside && c.tx != nil {
					command(c, u, []byte("DONE"))
				}
			})
			if len(u.Replies) > 2 || len(u.Commands) > 1 {
				t.Fatalf("%q gives %d replies, %d commands", line, len(u.Replies), len(u.Commands))
			}
			for _, cmd := range u.Commands {
				checkSize(t, cmd, len(line))
			}
			for _, r := range u.Replies {
				if strings.Contains(string(appendError(nil, r.Text)[:len(appendError(nil, r.Text))-1]), "\n") {
					t.Fatalf("%q gives the reply %q", line, r.Text)
				}
			}
		}
	})
}

func checkSize(t *testing.T, cmd job.Command, size int) {
	t.Helper()
	p, ok := cmd.(*job.Push)
	if !ok {
		return
	}
	s := &p.Spec
	// Invalid UTF-8 may treble in size when it is replaced.
	if len(s.Body) > min(64, size) || len(s.Queue)+len(s.Type) > len(defaultQueue)+3*size ||
		len(s.BlockedBy) > blockersMax || s.Queue == "" || s.Type == "" {
		t.Fatalf("push %+v from %d bytes", s, size)
	}
}
