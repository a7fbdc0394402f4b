package api

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// The bytes of these are written from the MessagePack specification.
func TestUnpack(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"07", "7"},
		{"7f", "127"},
		{"e0", "-32"},
		{"ff", "-1"},
		{"cc80", "128"},
		{"cdffff", "65535"},
		{"ceffffffff", "4294967295"},
		{"cfffffffffffffffff", "18446744073709551615"},
		{"d080", "-128"},
		{"d18000", "-32768"},
		{"d280000000", "-2147483648"},
		{"d38000000000000000", "-9223372036854775808"},
		{"c0", "null"},
		{"c2", "false"},
		{"c3", "true"},
		{"ca3fc00000", "1.5"},
		{"cbbff8000000000000", "-1.5"},
		{"cb7ff8000000000001", "NaN"},
		{"a3616263", `"abc"`},
		{"d903616263", `"abc"`},
		{"da0003616263", `"abc"`},
		{"db00000003616263", `"abc"`},
		{"a5225c0a0941", `"\"\\\n\tA"`},
		{"a2c3bc", `"ü"`},
		{"a200ff", `"\x00` + "\uFFFD" + `"`},
		{"c402abcd", `bin"abcd"`},
		{"c50002abcd", `bin"abcd"`},
		{"c600000002abcd", `bin"abcd"`},
		{"d4ff07", `ext-1"07"`},
		{"d5010708", `ext1"0708"`},
		{"c70205aabb", `ext5"aabb"`},
		{"c8000205aabb", `ext5"aabb"`},
		{"90", "[]"},
		{"80", "{}"},
		{"93010203", "[1, 2, 3]"},
		{"dc00020102", "[1, 2]"},
		{"dd000000020102", "[1, 2]"},
		{"82a1610102a162", `{"a": 1, 2: "b"}`},
		{"de0001a16190", `{"a": []}`},
		{"df0000000181a1780191c0", `{{"x": 1}: [null]}`},
		{"91019102", "[1]\n[2]"},
	}
	for _, tt := range tests {
		in, err := hex.DecodeString(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if got, cut, ok := unpack(in, 1000, false); got != tt.want || cut || !ok {
			t.Errorf("%s is %q (cut %v, ok %v), want %q", tt.in, got, cut, ok, tt.want)
		}
	}
	in, err := hex.DecodeString("82a16193010280a162c0")
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"a\": [\n    1,\n    2,\n    {}\n  ],\n  \"b\": null\n}"
	if got, cut, ok := unpack(in, 1000, true); got != want || cut || !ok {
		t.Errorf("%q %v %v, want %q", got, cut, ok, want)
	}
}

// What is damaged, cut off or made to be expensive takes little time and memory.
func TestUnpackHostile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in      string
		cut, ok bool
	}{
		"nothing":                  {"", false, false},
		"a byte that never occurs": {"\xc1", false, false},
		"nested too deeply":        {strings.Repeat("\x91", 100_000), true, true},
		"an array that lacks all":  {"\xdd\xff\xff\xff\xff", true, true},
		"a map that lacks all":     {"\xdf\xff\xff\xff\xff", true, true},
		"a text that lacks all":    {"\xdb\xff\xff\xff\xffab", true, true},
		"a length that is cut":     {"\xdb\xff", true, true},
		"many small values":        {strings.Repeat("\x07", 1<<20), true, true},
		"a long text":              {"\xdb\x00\x10\x00\x00" + strings.Repeat("x", 1<<20), true, true},
		"many empty arrays":        {"\xdd\x00\x10\x00\x00" + strings.Repeat("\x90", 1<<20), true, true},
		"wide and deep":            {strings.Repeat("\x91", nestingMax) + "\xdd\x00\x10\x00\x00", true, true},
	}
	if _, _, ok := unpack([]byte(strings.Repeat("\x91", 100_000)), 1<<20, true); ok {
		t.Error("there is no end to the nesting")
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 1000
			began := time.Now()
			text, cut, ok := unpack([]byte(tt.in), most, true)
			// The last value may end the text a little later, with the indentation of one line.
			if cut != tt.cut || ok != tt.ok || len(text) > most+2*nestingMax*8 || !utf8.ValidString(text) ||
				time.Since(began) > 5*time.Second {
				t.Errorf("%d bytes of text, cut %v, ok %v", len(text), cut, ok)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("\x82\xa1a\x93\x01\x02\x80\xa1b\xc0"), true)
	f.Add([]byte("\xc7\x02\x05\xaa\xbb\xdb\xff\xff\xff\xff"), false)
	f.Fuzz(func(t *testing.T, in []byte, layout bool) {
		text, cut, ok := unpack(in, 500, layout)
		if !utf8.ValidString(text) || len(text) > 500+2*nestingMax*8 {
			t.Errorf("%d bytes of text of %x", len(text), in)
		}
		if again, _, _ := unpack(in, 1<<20, layout); ok && !cut && again != text {
			t.Errorf("%q and %q", text, again)
		}
	})
}
