package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// variable is what differs from run to run, and what stands for it when output is
// compared.
var variable = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`), "ULID"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s|m|h)\b`), "DURATION"},
	{regexp.MustCompile(`("(?:id|elapsed_ms|size)":) ?\d+`), "${1}N"},
	{regexp.MustCompile(`(?m)^\$\d+$`), "$$LENGTH"}, // of a string with one of these in it
}

// blanks are what the columns of a table need, which follow the longest value.
var blanks = regexp.MustCompile(`  +`)

// plain is output without what differs from run to run.
func plain(text string) []string {
	text = strings.ReplaceAll(text, "\r", "")
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.name)
	}
	lines := strings.Split(strings.TrimRight(text, "\n \t"), "\n")
	for i := range lines {
		lines[i] = blanks.ReplaceAllString(strings.TrimRight(lines[i], " \t"), "  ")
	}
	return lines
}

// match compares what a document shows with what was printed.
func match(want, got string) error {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range plain(want) {
		if line == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + `\n`)
	}
	pattern.WriteString(`$`)
	if !regexp.MustCompile(pattern.String()).MatchString(strings.Join(plain(got), "\n") + "\n") {
		return fmt.Errorf("the document shows\n%s\nbut it prints\n%s", want, got)
	}
	return nil
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, got string
		ok        bool
	}{
		{"", "", true},
		{"", "a\n", false},
		{"a\n", "", false},
		{"a\nb\n", "a\r\nb\r\n", true},
		{"a\nb\n", "b\na\n", false},
		{"a\n", "a\nb\n", false},
		{`OK {"id":1}`, "OK {\"id\":4711}\n", true},
		{`OK {"id":1}`, "OK {\"id\":\"x\"}\n", false},
		{`{"at":"2026-01-02T03:04:05Z","n":1}`, `{"at":"2031-11-12T13:14:15.123456789Z","n":1}`, true},
		{`{"at":"2026-01-02T03:04:05Z","n":1}`, `{"at":"2031-11-12T13:14:15.123456789Z","n":2}`, false},
		{"job 01J00000000000000000000000", "job 01KA4B6Q7ZXJ9G0H8M2N3P4R5S", true},
		{"$12\nx", "$13\nx", true},
		{"took 12ms", "took 1.5s", true},
		{"a   12s  b", "a     1m   b", true},
		{"a  b", "a b", false},
		{"a ... z\n...\nend", "a b c z\n1\n2\nend\n", true},
		{"...\nend", "end\n", true},
		{"...\nend", "end\nmore\n", false},
		{"(a)*", "aaa", false},
	} {
		if err := match(tt.want, tt.got); (err == nil) != tt.ok {
			t.Errorf("match(%q, %q): %v", tt.want, tt.got, err)
		}
	}
}
