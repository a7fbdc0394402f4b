package iproto

import (
	"errors"
	"math"
	"strings"
	"testing"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

func TestSkip(t *testing.T) {
	t.Parallel()
	nest := func(head string, n int, inner string) string { return strings.Repeat(head, n) + inner }
	for _, c := range []struct {
		name string
		in   string
		want int
		err  error
	}{
		{"nothing", "", 0, errShort},
		{"fixint", "\x05rest", 1, nil},
		{"negative fixint", "\xffrest", 1, nil},
		{"nil", "\xc0", 1, nil},
		{"the byte that is nothing", "\xc1", 0, errInvalid},
		{"fixstr", "\xa3abc", 4, nil},
		{"fixstr cut off", "\xa3ab", 0, errShort},
		{"str 8", "\xd9\x01a", 3, nil},
		{"str 8 without a length", "\xd9", 0, errShort},
		{"str 32 that is huge", "\xdb\xff\xff\xff\xffabc", 0, errShort},
		{"bin 16", "\xc5\x00\x02ab", 5, nil},
		{"ext 8", "\xc7\x02\x05ab", 5, nil},
		{"ext 8 cut off", "\xc7\x02\x05a", 0, errShort},
		{"fixext 16", "\xd8\x01" + strings.Repeat("x", 16), 18, nil},
		{"float 64 cut off", "\xcb1234567", 0, errShort},
		{"empty array", "\x90", 1, nil},
		{"array", "\x92\x01\xa1a\x05", 4, nil},
		{"array cut off", "\x92\x01", 0, errShort},
		{"array 32 that is huge", "\xdd\xff\xff\xff\xff\x01", 0, errShort},
		{"map", "\x81\x01\x92\x02\x03\x05", 5, nil},
		{"map 32 that is huge", "\xdf\xff\xff\xff\xff\x01\x01", 0, errShort},
		{"empty in array", "\x93\x90\x80\x90\x05", 4, nil},
		{"as deep as may be", nest("\x91", nestingMax, "\x05"), nestingMax + 1, nil},
		{"deeper", nest("\x91", nestingMax+1, "\x05"), 0, errDeep},
		{"a million deep", nest("\x91", 1<<20, "\x05"), 0, errDeep},
		{"deep maps", nest("\x81\x01", nestingMax+1, "\x05"), 0, errDeep},
	} {
		if got, err := Skip([]byte(c.in)); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v, want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	no := math.NaN() // stands for "is none"
	for _, c := range []struct {
		in                     string
		whole, signed, f, text float64
	}{
		{"5", 5, 5, 5, 5},
		{"hex(cc05)", 5, 5, 5, 5},
		{"hex(cd0005)", 5, 5, 5, 5},
		{"hex(ce00000005)", 5, 5, 5, 5},
		{"hex(cf0000000000000005)", 5, 5, 5, 5},
		{"hex(d005)", 5, 5, 5, 5},
		{"hex(d10005)", 5, 5, 5, 5},
		{"hex(d200000005)", 5, 5, 5, 5},
		{"hex(d30000000000000005)", 5, 5, 5, 5},
		{"hex(ca40a00000)", 5, 5, 5, 5},
		{"5.0", 5, 5, 5, 5},
		{"-5", no, -5, -5, -5},
		{"hex(d0fb)", no, -5, -5, -5},
		{"-5.0", no, -5, -5, -5},
		{"2.5", no, no, 2.5, 2.5},
		{"18446744073709551615", 1 << 64, no, 1 << 64, 1 << 64},
		{"9223372036854775807", 1 << 63, 1 << 63, 1 << 63, 1 << 63},
		{"-9223372036854775808", no, -1 << 63, -1 << 63, -1 << 63},
		{"9223372036854775808.0", no, no, 1 << 63, 1 << 63},
		{"1e30", no, no, 1e30, 1e30},
		{"hex(cb7ff8000000000001)", no, no, no, no}, // not a number
		{"hex(ca7fc00000)", no, no, no, no},
		{"hex(cb7ff0000000000000)", no, no, math.Inf(1), math.Inf(1)},
		{`"5"`, no, no, no, 5},
		{`bin"-2.5e1"`, no, no, no, -25},
		{`"1_0"`, no, no, no, no},
		{`"0x10"`, no, no, no, no},
		{`"inf"`, no, no, no, no},
		{`""`, no, no, no, no},
		{"nil", no, no, no, no},
		{"true", no, no, no, no},
		{"[]", no, no, no, no},
		{"{}", no, no, no, no},
	} {
		v := Value(tarantooltest.MustEncode(c.in))
		check := func(method string, got float64, ok bool, want float64) {
			t.Helper()
			if ok == math.IsNaN(want) || ok && got != want {
				t.Errorf("%s.%s: %g, %v, want %g", c.in, method, got, ok, want)
			}
		}
		u, ok := v.Uint()
		check("uint", float64(u), ok, c.whole)
		i, ok := v.Int()
		check("int", float64(i), ok, c.signed)
		f, ok := v.Number()
		check("number", f, ok, c.f)
		f, ok = v.NumberOrText()
		check("numberOrText", f, ok, c.text)
	}
	if _, ok := Value(tarantooltest.MustEncode(`"` + strings.Repeat("1", 1000) + `"`)).NumberOrText(); ok {
		t.Error("a thousand digits are a number")
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"nil": "", "[]": "", "{}": "", `{"a": 1, "b": [2, 3]}`: `"a"=1;"b"=[2, 3];`,
		"[1]": "none", "5": "none", `"x"`: "none", "true": "none",
	} {
		f, ok := Value(tarantooltest.MustEncode(in)).Fields()
		got := ""
		if !ok {
			got = "none"
		}
		for key, val, more := f.Next(); more; key, val, more = f.Next() {
			k, err := tarantooltest.Format(key)
			if err != nil {
				t.Fatal(err)
			}
			v, err := tarantooltest.Format(val)
			if err != nil {
				t.Fatal(err)
			}
			got += k + "=" + v + ";"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if f, ok := Value(nil).Fields(); !ok || f.left != 0 {
		t.Error("what is not there is no empty map")
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	var a Args
	a.Set(Value(tarantooltest.MustEncode(`["a", [1, 2], nil, 3, 4, 5, 6, 7, "i", {"j": 1}, "k"]`)))
	if a.Count() != 11 {
		t.Errorf("%d arguments", a.Count())
	}
	for i, want := range []string{`"a"`, "[1, 2]", "nil", "3", "4", "5", "6", "7", `"i"`, `{"j": 1}`, `"k"`} {
		if got, err := tarantooltest.Format(a.At(i)); err != nil || got != want {
			t.Errorf("argument %d: %s, %v, want %s", i, got, err, want)
		}
		if rest := a.From(i); CountValues(rest) != 11-i || string(rest[:len(a.At(i))]) != string(a.At(i)) {
			t.Errorf("from %d: %x", i, rest)
		}
	}
	for _, i := range []int{-1, 11, 100} {
		if v := a.At(i); v != nil || !v.IsNil() {
			t.Errorf("argument %d: %x", i, v)
		}
	}
	if rest := a.From(11); rest != nil {
		t.Errorf("behind the last: %x", rest)
	}
	a.Set(nil)
	if a.Count() != 0 || a.At(0) != nil || a.From(0) != nil {
		t.Error("no array is not no arguments")
	}
}
