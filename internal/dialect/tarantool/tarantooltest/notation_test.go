package tarantooltest_test

import (
	"bytes"
	"testing"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

func TestNotation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nil": "\xc0", "true": "\xc3", "false": "\xc2", "5": "\x05", "-3": "\xfd", "200": "\xcc\xc8",
		"0x80":                 "\xcc\x80",
		"18446744073709551615": "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "1.5": "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00",
		"5.0": "\xcb\x40\x14\x00\x00\x00\x00\x00\x00", `"a\n"`: "\xa2a\n", `bin"\xff"`: "\xc4\x01\xff",
		"[]": "\x90", "[1, [2], \"x\"]": "\x93\x01\x91\x02\xa1x", "{}": "\x80",
		`{"k": 1, 2: {}}`: "\x82\xa1k\x01\x02\x80",
		"hex(d90161)":     "\xd9\x01a", "hex(d003)": "\xd0\x03",
	} {
		got, err := tarantooltest.Encode(text)
		if err != nil || string(got) != want {
			t.Errorf("%s: %x, %v, want %x", text, got, err, want)
		}
		if text == "0x80" {
			continue // another way to write a number
		}
		if again, err := tarantooltest.Format(got); err != nil || again != text {
			t.Errorf("%s comes back as %s, %v", text, again, err)
		}
	}
	if got, err := tarantooltest.Encode(` 1 , "a" ,[ 2 ,3] `); err != nil ||
		!bytes.Equal(got, []byte("\x01\xa1a\x92\x02\x03")) {
		t.Errorf("a list: %x, %v", got, err)
	}
	for _, text := range []string{"x", "[1", "[1 2]", `{"a"}`, `"a`, "1 2", "hex(zz)", "hex(1)"} {
		if got, err := tarantooltest.Encode(text); err == nil {
			t.Errorf("%s is %x", text, got)
		}
	}
	for _, raw := range []string{"", "\x92\x01", "\x01\x02", "\xc1"} {
		if text, err := tarantooltest.Format([]byte(raw)); err == nil {
			t.Errorf("%x is %s", raw, text)
		}
	}
}
