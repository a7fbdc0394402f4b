package workq

import (
	"math"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"0": true, "9": true, "10": true, "007": true, "11": false, "": false,
		"+1": false, "-1": false, "1 ": false, "a": false, "99999999999999999999999": false,
	} {
		if n, ok := parseUint([]byte(text), 10); ok != want {
			t.Errorf("parseUint(%q, 10) = %d, %v", text, n, ok)
		}
	}
	if n, ok := parseUint[uint64]([]byte("18446744073709551615"), math.MaxUint64); !ok || n != math.MaxUint64 {
		t.Errorf("2^64-1 is %d, %v", n, ok)
	}
	if n, ok := parseUint[uint64]([]byte("18446744073709551616"), math.MaxUint64); ok {
		t.Errorf("2^64 is %d", n)
	}
	for text, want := range map[string]int{"0": 0, "+5": 5, "-0": 0, "00": 0, "8": 8} {
		if n, ok := parseSize([]byte(text), 8); !ok || n != want {
			t.Errorf("parseSize(%q) = %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "+", "-", "9", "-1", "-5", "--0", "+-0", "0x0", "1e0"} {
		if n, ok := parseSize([]byte(text), 8); ok {
			t.Errorf("parseSize(%q) = %d", text, n)
		}
	}
	for text, want := range map[string]int32{
		"-2147483648": math.MinInt32, "2147483647": math.MaxInt32,
		"+7": 7, "-0": 0,
	} {
		if n, ok := parseInt32([]byte(text)); !ok || n != want {
			t.Errorf("parseInt32(%q) = %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "-", "+", "2147483648", "-2147483649", "1.0", "- 1"} {
		if n, ok := parseInt32([]byte(text)); ok {
			t.Errorf("parseInt32(%q) = %d", text, n)
		}
	}
}

func TestExpirySaturates(t *testing.T) {
	t.Parallel()
	const now = job.Time(1_000_000)
	for ttl, want := range map[uint64]job.Time{
		1:                                  now + 1000,
		(math.MaxInt64 - 1_000_000) / 1000: now + (math.MaxInt64-1_000_000)/1000*1000,
		(math.MaxInt64-1_000_000)/1000 + 1: job.Never,
		math.MaxInt64:                      job.Never,
		math.MaxUint64:                     job.Never,
		math.MaxInt64/uint64(time.Millisecond) + 1: now + (math.MaxInt64/int64Millisecond+1)*1000,
	} {
		if got := expiry(now, ttl); got != want {
			t.Errorf("%d plus a ttl of %d is %d, want %d", now, ttl, got, want)
		}
	}
}

const int64Millisecond = job.Time(time.Millisecond)

func TestExtra(t *testing.T) {
	t.Parallel()
	for _, ttl := range []uint64{1, 127, 128, math.MaxUint64} {
		for _, fails := range []uint8{0, 255} {
			b := appendExtra(nil, ttl, fails)
			if gotTTL, gotFails, ok := readExtra(b); !ok || gotTTL != ttl || gotFails != fails {
				t.Errorf("%d, %d is read as %d, %d, %v", ttl, fails, gotTTL, gotFails, ok)
			}
		}
	}
	for _, b := range []string{"", "\x01", "\x01\xff", "\x01" + strings.Repeat("\xff", 11)} {
		if _, _, ok := readExtra([]byte(b)); ok {
			t.Errorf("%q is taken for an extra", b)
		}
	}
}

func TestRefusalCoversEveryKind(t *testing.T) {
	t.Parallel()
	for k := job.Invalid; k <= job.Lapsing; k++ {
		text := refusal(k)
		if text == "" || strings.HasSuffix(text, " ") || strings.ContainsAny(text, "\r\n") {
			t.Errorf("kind %d has the text %q", k, text)
		}
	}
	if refusal(job.Lapsing+1) != textInternal {
		t.Error("an unknown kind has no text")
	}
}

func TestShownState(t *testing.T) {
	t.Parallel()
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		fresh, used := shownState(&job.Job{State: s}), shownState(&job.Job{State: s, Attempts: 1})
		want := map[job.State][2]uint32{
			job.Scheduled: {0, 3}, job.Blocked: {0, 3}, job.Ready: {0, 3}, job.Leased: {4, 4}, job.Retrying: {3, 3},
			job.Buried: {3, 3}, job.Done: {1, 1}, job.Failed: {2, 2}, job.Dead: {2, 2},
		}[s]
		if fresh != want[0] || used != want[1] {
			t.Errorf("%s is shown as %d, after an attempt as %d", s, fresh, used)
		}
	}
}

func benchConn() *conn {
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone, Seed: 1})
	if err != nil {
		panic(err)
	}
	c := &conn{d: New(Options{Options: dialect.Options{Engine: e}})}
	c.parser.maxBlock = DefaultMaxPayload
	return c
}

// benchmarkCommand parses a line with a new id each time and takes it into a unit.
func benchmarkCommand(b *testing.B, line string) {
	b.Helper()
	c := benchConn()
	defer func() { _ = c.d.opts.Engine.Close() }()
	work, body := []byte(line), []byte("0123456789")
	at := strings.Index(line, "6ba7b810")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for k := range 8 {
			work[at+k] = "0123456789abcdef"[i>>(4*k)&15]
		}
		u := dialect.GetUnit()
		c.parser.parse(work, &c.req)
		if c.command(u, body) || len(u.Commands) != 1 {
			b.Fatal("not a command of a unit")
		}
		u.Release()
	}
}

func BenchmarkAdd(b *testing.B) {
	benchmarkCommand(b, "add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 send-mail 60000 600000 10 -priority=5 -max-fails=3")
}

func BenchmarkComplete(b *testing.B) {
	benchmarkCommand(b, "complete 6ba7b810-9dad-11d1-80b4-00c04fd430c4 10")
}

func BenchmarkDelete(b *testing.B) {
	benchmarkCommand(b, "delete 6ba7b810-9dad-11d1-80b4-00c04fd430c4")
}

func BenchmarkLease(b *testing.B) {
	c := benchConn()
	defer func() { _ = c.d.opts.Engine.Close() }()
	line := []byte("lease urgent send-mail 60000")
	j := &job.Job{
		ID: 7, Key: "6ba7b810-9dad-11d1-80b4-00c04fd430c4", Queue: "mail", Body: []byte("0123456789"),
		Lease: job.Lease{Length: time.Minute},
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		c.parser.parse(line, &c.req)
		if !c.command(u, nil) {
			b.Fatal("not a lease")
		}
		out = c.appendLease(out[:0], j)
		u.Release()
	}
	_ = out
}
