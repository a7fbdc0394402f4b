package kit

import (
	"slices"
	"testing"
)

func TestParseTAP(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []result
		bad        bool
	}{
		{
			name: "all well",
			text: "TAP version 13\n# Subtest: a\nok 1 - a\n  ---\n  ...\nok 2\n1..2\n",
			want: []result{{name: "a", ok: true, detail: "  ---\n  ...\n"}, {ok: true}},
		},
		{
			name: "the plan first", text: "1..1\nok 1 - a\n",
			want: []result{{name: "a", ok: true}},
		},
		{
			name: "a failure", text: "not ok 1 - a\n  why\n1..1\n",
			want: []result{{name: "a", detail: "  why\n"}},
		},
		{name: "an early end", text: "ok 1 - a\n", want: []result{{name: "a", ok: true}}, bad: true},
		{name: "too few", text: "1..2\nok 1 - a\n", want: []result{{name: "a", ok: true}}, bad: true},
		{name: "skipped", text: "ok 1 - a # SKIP no time\n1..1\n", bad: true},
		{name: "nothing tested", text: "1..0\n", bad: true},
		{name: "nothing said", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseTAP(tt.text)
			if (err != nil) != tt.bad || !slices.Equal(got, tt.want) {
				t.Errorf("parseTAP: %+v, %v, want %+v, an error: %v", got, err, tt.want, tt.bad)
			}
		})
	}
}
