package beanstalkd

import (
	"bytes"
	"strings"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// FuzzParse feeds one line to the parser and to the unit: whatever it is, nothing panics, it gives at most one reply
// and one command, and what it names is a part of the line.
func FuzzParse(f *testing.F) {
	for _, w := range words {
		f.Add([]byte(w.text), []byte("body"))
		f.Add([]byte(w.text+" default 1 2 3 4"), []byte("body"))
		f.Add([]byte(w.text+"1 2 3 4"), []byte("body"))
		f.Add([]byte(w.text+"tube"), []byte(""))
	}
	for _, s := range []string{
		"", "put 0 0 1 4", "kick -5x", "delete 4611687117939015681", "watch \xff",
		"release  1  2  3", "put 4294967296 0 1 1", "\x00",
	} {
		f.Add([]byte(s), []byte("body"))
	}
	f.Fuzz(func(t *testing.T, line, body []byte) {
		d := New(Options{})
		c := &conn{d: d, used: d.tubes.use(defaultTube)}
		c.watch(defaultTube)
		u := new(dialect.Unit)
		var later bool
		testkit.Bounded(t, len(line)+len(body), func() {
			parse(line, &c.req)
			later = c.command(u, body)
		})
		r := &c.req
		if (r.text == "") == (r.verb == verbUnknown) {
			t.Fatalf("%q is %+v", line, r)
		}
		if (len(u.Replies) == 1) == later || len(u.Replies) > 1 || len(u.Commands) > 1 {
			t.Fatalf("%q gives %d replies, %d commands, and is for later: %v", line, len(u.Replies),
				len(u.Commands), later)
		}
		if len(r.tube) > 0 && (!isTube(r.tube) || !bytes.Contains(line, r.tube)) {
			t.Fatalf("%q names the tube %q", line, r.tube)
		}
		for _, cmd := range u.Commands {
			if p, ok := cmd.(*job.Push); ok && (!bytes.Equal(p.Spec.Body, body) || p.Spec.Queue != defaultTube ||
				p.Spec.Policy.Lease <= 0) {
				t.Fatalf("%q pushes %+v", line, p.Spec)
			}
		}
		for _, r := range u.Replies {
			if r.Text != "" && (!strings.HasSuffix(r.Text, crlf) || strings.Count(r.Text, crlf) != 1) {
				t.Fatalf("%q is answered %q", line, r.Text)
			}
		}
	})
}
