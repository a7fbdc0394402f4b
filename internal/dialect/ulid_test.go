package dialect

import (
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/internal/job"
)

func TestULIDText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		u    ULID
		ok   bool
	}{
		"zero": {strings.Repeat("0", 26), ULID{}, true},
		"largest": {
			"7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
			ULID{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
			true,
		},
		"document": {
			"01ARZ3NDEKTSV4RRFFQ69G5FAV",
			ULID{1, 86, 62, 58, 181, 211, 214, 118, 76, 97, 239, 185, 147, 2, 189, 91},
			true,
		},
		"too large":    {"8ZZZZZZZZZZZZZZZZZZZZZZZZZ", ULID{}, false},
		"lower case":   {"01arz3ndektsv4rrffq69g5fav", ULID{}, false},
		"no digit":     {"01ARZ3NDEKTSV4RRFFQ69G5FAU", ULID{}, false},
		"too short":    {"01ARZ3NDEKTSV4RRFFQ69G5FA", ULID{}, false},
		"too long":     {"01ARZ3NDEKTSV4RRFFQ69G5FAVV", ULID{}, false},
		"empty":        {"", ULID{}, false},
		"strange byte": {"01ARZ3NDEKTSV4RRFFQ69G5FA\xff", ULID{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, ok := ParseULID(test.text)
			if u != test.u || ok != test.ok {
				t.Errorf("%q is %v, %v, want %v, %v", test.text, u, ok, test.u, test.ok)
			}
			if ok && u.String() != test.text {
				t.Errorf("%q comes back as %q", test.text, u)
			}
		})
	}
}

// TestULIDAgrees compares the text with that of a large number in base 32.
func TestULIDAgrees(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var u ULID
		binary.BigEndian.PutUint64(u[:8], rnd.Uint64())
		binary.BigEndian.PutUint64(u[8:], rnd.Uint64())
		n := new(big.Int).SetBytes(u[:])
		want := strings.Map(func(r rune) rune {
			return rune(crockford[strings.IndexRune("0123456789abcdefghijklmnopqrstuv", r)])
		}, n.Text(32))
		want = strings.Repeat("0", ULIDLen-len(want)) + want
		if got := u.String(); got != want {
			t.Fatalf("%v is %q, want %q", u[:], got, want)
		}
		if again, ok := ParseULID(want); !ok || again != u {
			t.Fatalf("%q is %v, %v", want, again, ok)
		}
		ms := rnd.Uint64() >> 16
		rest := [10]byte(u[6:])
		u.SetTime(ms)
		if u.Time() != ms || [10]byte(u[6:]) != rest {
			t.Fatalf("time %d, rest %v; want %d, %v", u.Time(), u[6:], ms, rest)
		}
	}
}

func TestULIDOfJob(t *testing.T) {
	t.Parallel()
	for _, id := range []job.ID{0, 1, 77, 1<<53 - 1, 1<<64 - 1} {
		u := ULIDOf(id)
		if got, ok := u.JobID(); !ok || got != id {
			t.Errorf("job %d comes back as %d, %v", id, got, ok)
		}
		if again, ok := ParseULID(u.String()); !ok || again != u {
			t.Errorf("%q is %v, %v", u, again, ok)
		}
	}
	if _, ok := (ULID{}).JobID(); ok {
		t.Error("a ULID without the mark names a job")
	}
}
