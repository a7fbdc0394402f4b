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

// limitInput bounds unfinished input for the length of a test. It concerns the whole
// process, so such a test is not parallel.
func limitInput(t *testing.T, bytes int64) {
	t.Helper()
	LimitInput(bytes)
	t.Cleanup(func() { LimitInput(0) })
}

func TestClaim(t *testing.T) {
	limitInput(t, 100<<10)
	before := input.taken.Load()
	var a, b Claim
	if !a.Set(60<<10) || !a.Set(80<<10) || b.Set(40<<10) || !b.Set(bufferMin) || !a.Set(50<<10) || !b.Set(40<<10) {
		t.Errorf("claims %d and %d", a.bytes, b.bytes)
	}
	if a.Set(70 << 10) {
		t.Error("a claim grows beyond the bound")
	}
	if a.bytes != 50<<10 || !a.Set(20<<10) {
		t.Errorf("a refused claim is %d", a.bytes)
	}
	a.Drop()
	b.Drop()
	b.Drop()
	if now := input.taken.Load(); now != before {
		t.Errorf("%d bytes are left of claims that were dropped", now-before)
	}
}

// TestUnfinishedInput has a connection with a long unfinished line keep another from
// receiving one, until it ends.
func TestUnfinishedInput(t *testing.T) {
	limitInput(t, 300<<10)
	before := input.taken.Load()
	long := strings.Repeat("x", 200<<10)
	peerA, a := pair(t, Limits{})
	peerB, b := pair(t, Limits{})
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
	if now := input.taken.Load(); now != before {
		t.Errorf("%d bytes are left of connections that have ended", now-before)
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
