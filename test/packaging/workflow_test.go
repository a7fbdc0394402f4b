package packaging

import (
	"regexp"
	"strings"
	"testing"
)

// CI uses the Go that the image is built with, runs what anybody can run in a clone, and builds what is released.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	text := read(t, ".github/workflows/ci.yml")
	builder := regexp.MustCompile(`FROM (golang:\S+)`).FindStringSubmatch(read(t, "Dockerfile"))
	containers := regexp.MustCompile(`container: (\S+)`).FindAllStringSubmatch(text, -1)
	if builder == nil || len(containers) == 0 {
		t.Fatal("no image with Go is named")
	}
	for _, c := range containers {
		if c[1] != builder[1] {
			t.Errorf("CI runs on %s, the image is built on %s", c[1], builder[1])
		}
	}
	for _, step := range []string{"- run: .ci/run\n", "- run: make release\n", "- run: docker build "} {
		if !strings.Contains(text, step) {
			t.Errorf("CI does not %q", step)
		}
	}
}

// Every system that CI compiles for is released, and no other.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`PLATFORMS:-([^}]*)}`).FindStringSubmatch(read(t, "packaging/release.sh"))
	if m == nil {
		t.Fatal("packaging/release.sh has no list of platforms")
	}
	want := []string{"linux/amd64"} // which the build step has made
	for _, target := range regexp.MustCompile(`for target in (.*); do`).FindStringSubmatch(read(t, ".ci/run"))[1:] {
		for word := range strings.FieldsSeq(target) {
			want = append(want, expand(word)...)
		}
	}
	if got := strings.Fields(m[1]); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("released are %q, compiled are %q", got, want)
	}
}

// expand expands the first pair of braces as the shell does, and those behind it.
func expand(word string) []string {
	before, rest, ok := strings.Cut(word, "{")
	if !ok {
		return []string{word}
	}
	choices, after, _ := strings.Cut(rest, "}")
	var out []string
	for c := range strings.SplitSeq(choices, ",") {
		out = append(out, expand(before+c+after)...)
	}
	return out
}
