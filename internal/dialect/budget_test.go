package dialect

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/testkit"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	s := NewShared(100<<10, 0)
	var a, b Claim
	if !a.Set(s, 60<<10) || !a.Set(s, 80<<10) || b.Set(s, 40<<10) || !b.Set(s, bufferMin) || !a.Set(s, 50<<10) ||
		!b.Set(s, 40<<10) {
		t.Errorf("claims %d and %d", a.bytes, b.bytes)
	}
	if a.Set(s, 70<<10) {
		t.Error("a claim grows beyond the bound")
	}
	if a.bytes != 50<<10 || !a.Set(s, 20<<10) {
		t.Errorf("a refused claim is %d", a.bytes)
	}
	a.Drop()
	b.Drop()
	b.Drop()
	if left := s.taken.Load(); left != 0 {
		t.Errorf("%d bytes are left of claims that were dropped", left)
	}
}

// TestUnfinishedInput has a connection with a long unfinished line keep another from
// receiving one, until it ends.
func TestUnfinishedInput(t *testing.T) {
	t.Parallel()
	shared := NewShared(300<<10, 0)
	long := strings.Repeat("x", 200<<10)
	peerA, a := pair(t, Limits{})
	peerB, b := pair(t, Limits{})
	a.shared, b.shared = shared, shared
	go func() { _, _ = peerA.Write([]byte(long)) }() // it ends with the connection
	for a.Buffered() < len(long) {
		if err := a.Fill(DefaultMaxLine); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = peerB.Write([]byte("short\n" + long)) }() // it ends with the connection
	wantLine(t, b, "short")
	if _, err := b.ReadLine(); !errors.Is(err, ErrBusy) {
		t.Errorf("the second long line: %v", err)
	}
	a.close()
	for b.Buffered() < len(long) {
		if err := b.Fill(DefaultMaxLine); err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	if left := shared.taken.Load(); left != 0 {
		t.Errorf("%d bytes are left of connections that have ended", left)
	}
}

// A connection that ends because of too much input is counted.
func TestUnfinishedIsCounted(t *testing.T) {
	t.Parallel()
	s := NewServer(ServerOptions{})
	r := &run{server: s}
	_, nc := testkit.Pipe(0)
	r.ended(nc, fmt.Errorf("line: %w", ErrBusy))
	r.ended(nc, io.EOF)
	r.ended(nc, ErrSlow)
	if got := s.Stats(); got.Unfinished != 1 || got.Slow != 1 {
		t.Errorf("%+v", got)
	}
}

// TestTell tells of too much input once a minute.
func TestTell(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	now := time.Unix(1_000_000, 0)
	if !tell(&told, now) || tell(&told, now) || tell(&told, now.Add(59*time.Second)) ||
		!tell(&told, now.Add(time.Minute)) {
		t.Error("not once a minute")
	}
}

// TestSlowInput has commands arrive in parts: all of one has the same time, and what comes next has its own.
func TestSlowInput(t *testing.T) {
	t.Parallel()
	const patience = 10 * time.Second
	read := map[string]func(c *Conn) error{
		"line":  func(c *Conn) error { _, err := c.ReadLine(); return err },
		"block": func(c *Conn) error { _, err := c.ReadBlock(100); return err },
		"lines": func(c *Conn) error {
			c.Midway(true)
			for {
				if line, err := c.ReadLine(); err != nil || string(line) == "end" {
					c.Midway(false)
					return err
				}
			}
		},
	}
	for _, tc := range []struct {
		what, first, rest string
		after             time.Duration // when the rest comes
		want              error
	}{
		{"line", "", "x\n", time.Hour, nil}, // nothing of it has arrived: the connection is idle
		{"line", "x", "\n", patience - time.Second, nil},
		{"line", "x", "\n", patience + time.Second, ErrSlow},
		{"block", "", strings.Repeat("x", 100), patience - time.Second, nil},
		{"block", "x", strings.Repeat("x", 99), patience + time.Second, ErrSlow},
		{"lines", "x\nx\n", "end\n", patience - time.Second, nil},
		{"lines", "x\nx\n", "end\n", patience + time.Second, ErrSlow},
	} {
		t.Run(fmt.Sprintf("%s %q after %v", tc.what, tc.first, tc.after), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				peer, c := pair(t, Limits{})
				c.shared = NewShared(0, patience)
				for range 3 { // each has its own time
					send(t, peer, tc.first)
					ended := make(chan error, 1)
					go func() { ended <- read[tc.what](c) }()
					testkit.Advance(t, tc.after)
					send(t, peer, tc.rest)
					if err := <-ended; !errors.Is(err, tc.want) {
						t.Fatalf("%v, want %v", err, tc.want)
					}
					if tc.want != nil {
						return
					}
				}
			})
		})
	}
}
