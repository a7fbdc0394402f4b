package faktory

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"millrace/internal/job"
)

var globCases = []struct {
	pattern, text string
	match         bool
}{
	{"", "", true},
	{"", "a", false},
	{"*", "", true},
	{"*", "anything at all", true},
	{"***", "x", true},
	{"?", "", false},
	{"?", "ä", false}, // bytes, not letters
	{"??", "ä", true},
	{"abc", "abc", true},
	{"abc", "abcd", false},
	{"abc", "ab", false},
	{"foo", "xfoox", false}, // anchored at both ends
	{"*foo*", "xfoox", true},
	{"*foo", "xfoox", false},
	{"*foo", "foofoo", true},
	{"a*b*c", "a-b-b-c", true},
	{"a*b*c", "a-c-b", false},
	{"*aab", "aaaaaaab", true},
	{"h[ae]llo", "hallo", true},
	{"h[ae]llo", "hillo", false},
	{"h[^e]llo", "hallo", true},
	{"h[^e]llo", "hello", false},
	{"h[a-c]llo", "hbllo", true},
	{"h[c-a]llo", "hbllo", true}, // a range the wrong way round
	{"h[a-c]llo", "hdllo", false},
	{"[a-]", "-", false}, // a range up to the bracket, as the original's has it
	{"[-a]", "-", true},
	{"[abc", "c", true}, // a set without an end
	{"[abc", "d", false},
	{"[", "x", false},
	{"[]", "x", false},
	{"[^]", "x", true},
	{`[\]]`, "]", true},
	{`[\-z]`, "-", true},
	{`\*`, "*", true},
	{`\*`, "x", false},
	{`\?`, "?", true},
	{`\[a]`, "[a]", true},
	{`a\`, `a\`, true},
	{`\a`, "a", true},
	{"*[0-9]", "abc7", true},
	{`*"jobtype":"X"*`, `{"jid":"1","jobtype":"X","args":[]}`, true},
	{`*"jobtype":"X"*`, `{"jid":"1","jobtype":"Y","args":[]}`, false},
	{"ABC", "abc", false},
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, g := range globCases {
		if got := glob([]byte(g.pattern), []byte(g.text)); got != g.match {
			t.Errorf("%q on %q: %t", g.pattern, g.text, got)
		}
	}
	// A pattern made to be slow is not: the work is bounded by pattern times text.
	began := time.Now()
	if glob([]byte(strings.Repeat("*a", globMax/2-1)+"*b"), []byte(strings.Repeat("a", 20_000))) {
		t.Error("no b in it")
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	job8 := `{"jid":"12345678","jobtype":"x","args":[]`
	for _, test := range []struct {
		text string
		want job.Policy
	}{
		{"", job.Policy{Lease: 1800 * time.Second, MaxFails: 26, Exhaust: job.ExhaustDead}},
		{`,"retry":0`, job.Policy{Lease: 1800 * time.Second, MaxFails: 1, Exhaust: job.ExhaustDrop}},
		{`,"retry":-3,"reserve_for":59`, job.Policy{Lease: time.Minute, MaxFails: 1, Exhaust: job.ExhaustDead}},
		{
			`,"retry":1,"reserve_for":61,"priority":1`,
			job.Policy{Priority: -4, Lease: 61 * time.Second, MaxFails: 2, Exhaust: job.ExhaustDead},
		},
		{
			`,"retry":4294967295,"reserve_for":-1,"priority":9`,
			job.Policy{Priority: 4, Lease: time.Minute, MaxFails: math.MaxUint32, Exhaust: job.ExhaustDead},
		},
		{
			`,"retry":9223372036854775807,"reserve_for":86400,"priority":0`,
			job.Policy{Lease: 24 * time.Hour, MaxFails: math.MaxUint32, Exhaust: job.ExhaustDead},
		},
		{
			`,"priority":10,"custom":{"expires_in":1.5}`,
			job.Policy{Lease: 1800 * time.Second, MaxFails: 26, Exhaust: job.ExhaustDead, Expiry: job.ExpireWaiting},
		},
	} {
		s, text := specOf(t, job8+test.text+"}")
		want := test.want
		want.Backoff, want.Lapse, want.Due, want.DeadFor, want.DeadMax = backoff, job.LapseFail, job.PlaceTail,
			deadFor, DefaultDeadMax
		if text != "" || s.Policy != want {
			t.Errorf("%s: %q\n got %+v\nwant %+v", test.text, text, s.Policy, want)
		}
	}
}

func TestFeatures(t *testing.T) {
	t.Parallel()
	custom := func(text string) job.Spec {
		t.Helper()
		s, refused := specOf(t, `{"jid":"12345678","jobtype":"x","args":[1, 2],"queue":"q","custom":`+text+`}`)
		if refused != "" {
			t.Fatalf("%s: %s", text, refused)
		}
		return s
	}
	s := custom(`{"unique_for":1.5,"unique_until":"start","expires_at":"2030-01-01T00:00:00Z","track":1,"bid":"b-12"}`)
	if len(s.Lock) != 32 || s.LockFor != 1500*time.Millisecond || s.LockUntil != job.LockUntilFetch || !s.Tracked ||
		s.Batch != 12 || s.Policy.ExpireAt.Std().Year() != 2030 {
		t.Errorf("spec %+v", s)
	}
	if again := custom(`{"a":1,"unique_for":60}`); again.Lock != s.Lock || again.LockUntil != job.LockUntilAck {
		t.Errorf("the lock of the same job is %q, not %q", again.Lock, s.Lock)
	}
	for _, other := range []string{
		`{"jid":"12345678","jobtype":"y","args":[1,2],"queue":"q","custom":{"unique_for":1}}`,
		`{"jid":"12345678","jobtype":"x","args":[1,3],"queue":"q","custom":{"unique_for":1}}`,
		`{"jid":"12345678","jobtype":"x","args":[1,2],"queue":"p","custom":{"unique_for":1}}`,
	} {
		if o, _ := specOf(t, other); o.Lock == "" || o.Lock == s.Lock {
			t.Errorf("%s has the lock %q", other, o.Lock)
		}
	}
	for _, nothing := range []string{
		`{"unique_for":0}`, `{"unique_for":-1}`, `{"unique_for":"60"}`, `{"unique_for":null}`, `{"expires_at":"soon"}`,
		`{"expires_at":5}`, `{"expires_in":"x"}`,
		`{"track":0}`, `{"track":"1"}`, `{"track":false}`, `{"bid":"12"}`, `{"bid":"b-"}`, `{"bid":"b-0"}`,
		`{"bid":"b-012"}`, `{"bid":"b-1x"}`, `{"bid":12}`, `{"bid":"b-99999999999999999999"}`,
	} {
		if s := custom(nothing); s.Lock != "" || s.LockFor != 0 || s.Tracked || s.Batch != 0 || s.TTL != 0 ||
			s.Policy.ExpireAt != 0 {
			t.Errorf("%s: %+v", nothing, s)
		}
	}
	if s := custom(`{"unique_for":1e300,"expires_in":1e300}`); s.LockFor != secondsMax*time.Second ||
		s.TTL != secondsMax*time.Second {
		t.Errorf("times %v, %v", s.LockFor, s.TTL)
	}
}

// The same args have the same lock in every spelling; no others have.
func TestLockSpelling(t *testing.T) {
	t.Parallel()
	lock := func(args string) string {
		t.Helper()
		s, refused := specOf(t, `{"jid":"12345678","jobtype":"x","args":`+args+`,"custom":{"unique_for":60}}`)
		if refused != "" {
			t.Fatalf("%s: %s", args, refused)
		}
		return s.Lock
	}
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for _, same := range [][]string{
		{`["a<b>&é"]`, `[ "a\u003cb\u003e\u0026\u00e9" ]`, `["\u0061<b>&é"]`},
		{`[{"a":1,"b":[{"d":1.5,"c":null}]}]`, `[{"b":[{"c":null,"d":15e-1}],"a":1.0}]`},
		{`[1]`, `[1.0]`, `[1e0]`},
		{`[100]`, `[1E+2]`},
		{`[1e+21]`, `[1.0e21]`},
		{deep, " " + deep},
	} {
		for _, other := range same[1:] {
			if lock(same[0]) != lock(other) {
				t.Errorf("%.60s and %.60s have different locks", same[0], other)
			}
		}
	}
	seen := map[string]string{}
	for _, args := range []string{
		`[9007199254740992]`, `[9007199254740993]`, `[1]`, `["1"]`, `[]`, `[[]]`, `[{}]`, `[null]`, `["null"]`,
		`[1e400]`, `[1e401]`,
		`[{"a":1}]`, `[{"a":[1]}]`, `[["a",1]]`, `["a",1]`, `["a\\u003c"]`, `["a<"]`,
	} {
		if before := seen[lock(args)]; before != "" {
			t.Errorf("%s and %s have the same lock", before, args)
		}
		seen[lock(args)] = args
	}
	// Args of any length have a lock.
	long := `["` + strings.Repeat("x", canonicalMax) + `"]`
	if lock(long) != lock(" "+long) || lock(long) == lock(`["y`+long[3:]) {
		t.Error("the lock of long args")
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	// Whatever was guessed about the length, the string comes out right.
	for _, guess := range []int{0, 9, 10, 99, 100, 12345} {
		for _, n := range []int{0, 1, 9, 10, 11, 99, 100, 101, 1000, 12345} {
			text := strings.Repeat("x", n)
			b, m := beginBulk([]byte("before"), guess)
			got := string(m.end(append(b, text...)))
			if want := fmt.Sprintf("before$%d\r\n%s\r\n", n, text); got != want {
				t.Errorf("guess %d, length %d: %.40q", guess, n, got)
			}
		}
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	if got := echo([]byte("a\r\n\x00\x1f\x7fb ä")); got != "a     b ä" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("ä", echoMax)
	if got := echo([]byte("x" + long)); got != "x"+long[:echoMax-2] {
		t.Errorf("%d bytes", len(got))
	}
	// Bytes that are no characters are cut as well.
	if got := echo([]byte(strings.Repeat("\x80", 2*echoMax))); len(got) > echoMax {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-15T00:15:47.893360216Z":       "2026-11-15T00:15:47.893361Z", // never early
		"2026-11-15T00:15:47Z":                 "2026-11-15T00:15:47Z",
		"2026-11-15T00:15:47.500000000000000Z": "2026-11-15T00:15:47.5Z",
		"2026-11-15T01:15:47+01:00":            "2026-11-15T00:15:47Z",
		"2026-11-14T19:15:47.1-05:00":          "2026-11-15T00:15:47.1Z",
	} {
		at, reason := parseTime([]byte(text))
		if got := string(appendTime(nil, at)); reason != "" || got != `"`+want+`"` {
			t.Errorf("%s: %s, %q", text, got, reason)
		}
	}
	for _, text := range []string{
		"", "2030-01-01", "2030-01-01 00:00:00Z", "2030-01-01T00:00:00", "2030-01-01T00:00:00+0100",
		"2030-01-01t00:00:00Z", "2030-01-01T00:00:00z",
		"2030-01-01T00:00Z", "2030-01-01T00:00:00,5Z", "2030-01-01T0:00:00Z", "2030-13-01T00:00:00Z",
		"2030-02-30T00:00:00Z", "2030-01-01T00:00:00.Z", "2030-01-01T24:00:00Z", "1893456000",
	} {
		if at, reason := parseTime([]byte(text)); reason == "" {
			t.Errorf("%s is taken as %s", text, at.Std())
		}
	}
}
