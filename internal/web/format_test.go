package web

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := []struct{ got, want string }{
		{number(0), "0"},
		{number(999), "999"},
		{number(uint64(1234567)), "1,234,567"},
		{number(-1000), "-1,000"},
		{rate(0), "0"},
		{rate(0.01), "<0.1"},
		{rate(12.34), "12.3"},
		{rate(12345.6), "12,346"},
		{span(0), "0 s"},
		{span(0.02), "20 ms"},
		{span(59.4), "59 s"},
		{span(60), "1 min"},
		{span(3725), "1 h 2 min"},
		{span(90061), "1 d 1 h"},
		{span(86400 * 200), "200 d"},
		{span(1e12), "more than 100 years"},
		{span(-5), "-5 s"},
		{size(1023), "1023 B"},
		{size(1536), "1.5 KiB"},
		{size(1 << 40), "1.0 TiB"},
		{since(now, now), "now"},
		{since(now, now.Add(-90*time.Second)), "1 min 30 s ago"},
		{since(now, now.Add(2*time.Hour)), "in 2 h"},
		{plural(1, "job", "jobs"), "1 job"},
		{plural(2000, "job", "jobs"), "2,000 jobs"},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

func TestIndent(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{`1`, `1`},
		{
			` {"a" : [1, {"b":null}] ,"c":"x,y:{\"}" , "d":{ }, "e":[ ]} `,
			"{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": \"x,y:{\\\"}\",\n  \"d\": " +
				"{},\n  \"e\": []\n}",
		},
		{`"\\"`, `"\\"`},
	}
	for _, test := range tests {
		got, cut := indent([]byte(test.in))
		if got != test.want || cut {
			t.Errorf("%s: %s", test.in, got)
		}
	}
	deep := strings.Repeat("[", 200) + "1" + strings.Repeat(",1", 400_000) + strings.Repeat("]", 200)
	if got, cut := indent([]byte(deep)); !cut || len(got) > textShown+1000 {
		t.Errorf("%d bytes of %d", len(got), len(deep))
	}
}

// FuzzIndent compares the layout with the library's.
func FuzzIndent(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{}],"b":"\"\\é"}`, `[]`, ` [ [ ] , { } ] `, `"\u0000"`, `-1e5`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) || len(in) > 1000 {
			return
		}
		got, cut := indent(in)
		var a, b strings.Builder
		compactTo(t, &a, in)
		compactTo(t, &b, []byte(got))
		if cut || a.String() != b.String() {
			t.Errorf("%q became %q", in, got)
		}
	})
}

func compactTo(t *testing.T, out *strings.Builder, in []byte) {
	t.Helper()
	var v json.RawMessage
	if err := json.Unmarshal(in, &v); err != nil {
		t.Fatalf("%q: %v", in, err)
	}
	text, err := json.Marshal(v) // compacts
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
}

func TestContent(t *testing.T) {
	t.Parallel()
	text := "hello\nworld"
	plain := &api.Content{Size: len(text), Base64: []byte(text), Text: &text}
	for _, as := range []string{"", "text", "json", "nonsense"} {
		if v := viewOf(plain, as); v.As != "text" || v.Text != text || v.Cut {
			t.Errorf("%q: %+v", as, v)
		}
	}
	want := "00000000  68 65 6c 6c 6f 0a 77 6f  72 6c 64                 |hello.world|\n"
	if v := viewOf(plain, "hex"); v.As != "hex" || v.Text != want {
		t.Errorf("%q", v.Text)
	}
	long := &api.Content{Size: 1 << 20, Base64: make([]byte, 1<<20)}
	if v := viewOf(long, ""); v.As != "hex" || !v.Cut || strings.Count(v.Text, "\n") != hexShown/16 ||
		!strings.HasPrefix(v.Text[len(v.Text)-79:], "00001ff0 ") {
		t.Errorf("%.100s, cut %v", v.Text, v.Cut)
	}
	if viewOf(nil, "") != nil {
		t.Error("something of nothing")
	}
}

// TestStates holds the order in which pages show states against the states that there are.
func TestStates(t *testing.T) {
	t.Parallel()
	shown := api.ShownStates()
	slices.Sort(shown)
	all := api.StateNames()
	slices.Sort(all)
	if !slices.Equal(shown, all) {
		t.Errorf("pages show %v", shown)
	}
}
