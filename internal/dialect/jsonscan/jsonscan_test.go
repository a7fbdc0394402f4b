package jsonscan

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var jsonSeeds = []string{
	``, ` `, `null`, ` true `, `false`, `nul`, `0`, `-0`, `01`, `1.`, `1.5e+10`, `1e`, `-`, `1e3`,
	`12345678901234567890123`,
	`""`, `"a"`, `"a`, `"\u00e9"`, `"\u00g0"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\q"`,
	"\"\x01\"", "\"\xff\"", `"\b\f\n\r\t\"\\\/"`,
	`[]`, `[ ]`, `[1,2]`, `[1,]`, `[,]`, `[1 2]`, `[[],{}]`, `[`, `]`, `[}`, `[{"a":[1,{"b":null}]}]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a" : 1 , "b" : [ 1 , "x y" ] }`,
	`{"a":1}x`, `{"a":1,"a":2}`, `{"\u0041":1}`, `{"a":"}"}`, "{\"a\"\n:\t1\r}", `{]`, `{"a":1]`, `"\u12"`, `tru`,
	`truex`, `[true,false,null]`,
	strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("[", 200),
	strings.Repeat(`{"a":`, 130) + "1" + strings.Repeat("}", 130),
}

// checkJSON compares everything that is said about one text with encoding/json.
func checkJSON(t *testing.T, b []byte) {
	t.Helper()
	valid := json.Valid(b)
	if got := Valid(b); got != valid {
		t.Fatalf("Valid(%q) = %v", b, got)
	}
	var members map[string]json.RawMessage
	isObject := json.Unmarshal(b, &members) == nil
	r := ReadObject(b)
	seen := make(map[string]string)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		name := string(AppendUnquoted(nil, key))
		seen[name] = string(value)
		if !KeyIs(key, name) {
			t.Fatalf("%q is not %q", key, name)
		}
	}
	if (r.Err() == nil) != isObject {
		t.Fatalf("ReadObject(%q): %v, want object %v", b, r.Err(), isObject)
	}
	var elements []json.RawMessage
	isArray := json.Unmarshal(b, &elements) == nil
	a := ReadArray(b)
	var list []string
	for _, value, ok := a.Next(); ok; _, value, ok = a.Next() {
		list = append(list, string(value))
	}
	if (a.Err() == nil) != isArray {
		t.Fatalf("ReadArray(%q): %v, want array %v", b, a.Err(), isArray)
	}
	if isObject && len(seen) != len(members) || isArray && len(list) != len(elements) {
		t.Fatalf("%q has %d members, %d elements", b, len(seen), len(list))
	}
	for name, value := range members {
		if isObject && seen[name] != string(value) {
			t.Fatalf("member %q of %q is %q, want %q", name, b, seen[name], value)
		}
	}
	for i, value := range elements {
		if isArray && list[i] != string(value) {
			t.Fatalf("element %d of %q is %q, want %q", i, b, list[i], value)
		}
	}
	if !valid {
		return
	}
	var want bytes.Buffer
	if err := json.Compact(&want, b); err != nil {
		t.Fatal(err)
	}
	if got := Compact(nil, b); !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("compact %q is %q", b, got)
	}
	checkString(t, b)
	checkNumber(t, b)
	own := bytes.Clone(b)
	if got := Compact(own[:0], own); !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("compact %q in place is %q", b, got)
	}
}

func checkString(t *testing.T, b []byte) {
	t.Helper()
	var s string
	text := bytes.TrimSpace(b)
	isString := text[0] == '"'
	got, ok := Unquote(text, nil)
	if ok != isString {
		t.Fatalf("Unquote(%q): %v", b, ok)
	}
	if isString {
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		if string(got) != s {
			t.Fatalf("Unquote(%q) = %q, want %q", b, got, s)
		}
	}
}

func checkNumber(t *testing.T, b []byte) {
	t.Helper()
	text := bytes.TrimSpace(b)
	if c := text[0]; c != '-' && (c < '0' || c > '9') {
		return
	}
	var u uint8
	got, ok := ParseUint(text, 8)
	if want := json.Unmarshal(b, &u) == nil; ok != want || ok && got != uint64(u) {
		t.Fatalf("ParseUint(%q, 8) = %d, %v", b, got, ok)
	}
	var u64 uint64
	got, ok = ParseUint(text, 64)
	if want := json.Unmarshal(b, &u64) == nil; ok != want || ok && got != u64 {
		t.Fatalf("ParseUint(%q, 64) = %d, %v", b, got, ok)
	}
	var i int64
	signed, ok := ParseInt(text)
	if want := json.Unmarshal(b, &i) == nil; ok != want || ok && signed != i {
		t.Fatalf("ParseInt(%q) = %d, %v", b, signed, ok)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, s := range jsonSeeds {
		checkJSON(t, []byte(s))
	}
	for _, s := range []string{
		"18446744073709551615", "18446744073709551616", "9223372036854775807",
		"9223372036854775808", "-9223372036854775808", "255", "256",
	} {
		checkJSON(t, []byte(s))
	}
}

// TestJSONDepth makes sure that hostile nesting is refused without recursion.
func TestJSONDepth(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"[", `{"a":`} {
		if Valid([]byte(strings.Repeat(open, 4<<20))) {
			t.Errorf("bottomless %q is valid", open)
		}
	}
	for depth, want := range map[int]bool{depthMax: true, depthMax + 1: false} {
		if got := Valid([]byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))); got != want {
			t.Errorf("depth %d valid: %v", depth, got)
		}
	}
}

func TestAppendQuoted(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		`"quoted" \ back`:           `"quoted" \ back`,
		"a\nb\rc\td\x00\x1f\x7f":    "a\nb\rc\td\x00\x1f\x7f",
		"é µ 😀 \u2028 <&>":          "é µ 😀 \u2028 <&>",
		"bad \xff\xc3 utf \xe2\x82": "bad \ufffd\ufffd utf \ufffd\ufffd",
	} {
		text := AppendQuoted(nil, s)
		if !bytes.Equal(text, AppendQuoted(nil, []byte(s))) {
			t.Errorf("%q differs as bytes", s)
		}
		var got string
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%q became %s, %v", s, text, err)
		}
		if !utf8.Valid(text) || bytes.ContainsAny(text, "\n\r") {
			t.Errorf("%q became %q", s, text)
		}
	}
}

func TestKeyIs(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"queue": true, "QUEUE": true, "Queue": true, `\u0071ueue`: true,
		"queues": false, "": false, "qu\\u0065ue": true,
	} {
		if got := KeyIs([]byte(key), "queue"); got != want {
			t.Errorf("KeyIs(%q) = %v", key, got)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkJSON(t, b) })
}

func BenchmarkReadObject(b *testing.B) {
	text := []byte(`{"name": "send-mail", "queue": "mail", "payload": {"to": "a@example.com", "n": ` +
		strconv.Itoa(123456) + `}, "retry": 3}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r := ReadObject(text)
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}
