package dialect

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"millrace/internal/testkit"
)

func TestIsForeign(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"POST / HTTP/1.1\r": true, "GET /api HTTP/1.0": true, "PUSH / HTTP/1.1\r": true, "x HTTP/1.1": true,
		"Host: localhost:1\r": true, "HOST:x": true, "host:": true,
		"\x16\x03\x01\x02\x00": true, "\x16\x03": true,
		"": false, "\r": false, "POST": false, "GET /": false, "PING": false, "host": false, "hosts: a": false,
		" HTTP/1.": false, "HTTP/1.1": false, "x HTTP/1.1 ": false, "x HTTP/1.x": false, "x HTTP/2": false,
		`PUSH {"payload":"POST / HTTP/1.1"}`: false, `PUSH {"payload":"Host: x"}`: false, "\x16": false,
		"\x17\x03": false,
	} {
		if got := IsForeign([]byte(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// Only the first line of a connection is looked at by the connection itself: a protocol has lines that it knows nothing
// of.
func TestReadLineIsForeign(t *testing.T) {
	t.Parallel()
	client, c := pair(t, Limits{})
	send(t, client, "PING\nHost: x\n")
	wantLine(t, c, "PING")
	wantLine(t, c, "Host: x")
	client, c = pair(t, Limits{})
	send(t, client, "POST / HTTP/1.1\r\nPING\n")
	for range 2 {
		if line, err := c.ReadLine(); !errors.Is(err, ErrForeign) {
			t.Errorf("read %q, %v", line, err)
		}
	}
}

// TestForeignIsCounted has two browsers come at once, of which the operator is told one.
func TestForeignIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Listen(0)
		s := start(t, l, ServerOptions{Handler: func(c *Conn) error {
			_, err := c.ReadLine()
			return err
		}})
		for range 2 {
			c := dialMem(t, l)
			send(t, c, "GET / HTTP/1.1\r\n\r\n")
			if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
				t.Errorf("answered %q, %v", got, err)
			}
		}
		synctest.Wait()
		if got := s.Stats(); got.Foreign != 2 || got.Total != 2 {
			t.Errorf("%+v", got)
		}
		if text := s.log.String(); strings.Count(text, "another protocol") != 1 ||
			!strings.Contains(text, "dialect=echo") {
			t.Errorf("logged %q", text)
		}
		s.finish(t)
	})
}
