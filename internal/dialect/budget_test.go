package dialect

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/internal/testkit"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	s := NewShared(100 << 10)
	var a, b Claim
	if !a.Set(s, 60<<10) || !a.Set(s, 80<<10) || b.Set(s, 40<<10) || !b.Set(s, bufferMin) || !a.Set(s, 50<<10) || !b.Set(s, 40<<10) {
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
	shared := NewShared(300 << 10)
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
	if got := s.Stats().Unfinished; got != 1 {
		t.Errorf("%d connections", got)
	}
}

// TestTell tells of too much input once a minute.
func TestTell(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	now := time.Unix(1_000_000, 0)
	if !tell(&told, now) || tell(&told, now) || tell(&told, now.Add(59*time.Second)) || !tell(&told, now.Add(time.Minute)) {
		t.Error("not once a minute")
	}
}
