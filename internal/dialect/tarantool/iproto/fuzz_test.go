package iproto

import (
	"errors"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/testkit"
)

// FuzzBody takes packets apart: what is accepted is within the packet, and well-formed.
func FuzzBody(f *testing.F) {
	for _, text := range []string{
		`{0: 10, 1: 5}, {34: "f", 33: [1, "a", {"b": nil}]}`, `{0: 8, 1: 5}, {39: "return 1", 33: []}`,
		`{0: 7}, {35: "bob", 33: ["chap-sha1", bin"x"]}`,
		`{1: 1, 0: 1, 99: [[[1]]]}, {16: 281, 17: 0, 20: 2, 32: [], 18: 10000}`,
		`{0: 74}, {87: "key"}`, `{}`, `{0: -1}`, `{0: 10}, {34: 5}`, `hex(81c1)`, `hex(8100)`,
		`{0: 10}, hex(8221dd00ffffff)`,
	} {
		f.Add(tarantooltest.MustEncode(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		var r Request
		var err error
		testkit.Bounded(t, len(data), func() { err = r.Parse(data) })
		if err != nil {
			return
		}
		rest, err := msgp.Skip(data) // the header
		if err == nil && len(rest) > 0 {
			rest, err = msgp.Skip(rest)
		}
		if err != nil || len(rest) > 0 {
			t.Fatalf("accepted %x: %v", data, err)
		}
		var a Args
		a.Set(r.Tuple)
		if got := CountValues(a.raw); got != a.n {
			t.Errorf("%d arguments in %x, not %d", got, r.Tuple, a.n)
		}
		for i := range min(a.n, 20) {
			if v := a.At(i); len(v) == 0 {
				t.Errorf("no argument %d in %x", i, r.Tuple)
			}
		}
	})
}

// FuzzSkip compares Skip with another implementation.
func FuzzSkip(f *testing.F) {
	for _, text := range []string{
		`1`, `-1`, `1.5`, `"text"`, `bin"x"`, `nil`, `true`, `[1, [2], {}]`, `{"a": {"b": [1]}}`,
		`hex(c1)`, `hex(c70305010203)`, `hex(d80500112233445566778899aabbccddeeff)`, `hex(ddffffffff)`,
		`hex(dfffffffff01)`, `hex(9191919191)`,
	} {
		f.Add(tarantooltest.MustEncode(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var n int
		var err error
		testkit.Bounded(t, len(data), func() { n, err = Skip(data) })
		if errors.Is(err, errDeep) {
			return // the other one goes deeper
		}
		rest, other := msgp.Skip(data)
		if (err == nil) != (other == nil) || err == nil && n != len(data)-len(rest) {
			t.Errorf("%x: %d, %v; another says %d, %v", data, n, err, len(data)-len(rest), other)
		}
	})
}
