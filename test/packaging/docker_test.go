package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// instruction is one of a Dockerfile, with its continuation lines joined.
type instruction struct{ name, args string }

func parseDockerfile(text string) []instruction {
	var all []instruction
	joined := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if more, ok := strings.CutSuffix(line, `\`); ok {
			joined += more
			continue
		}
		name, args, _ := strings.Cut(joined+line, " ")
		all = append(all, instruction{strings.ToUpper(name), strings.TrimSpace(args)})
		joined = ""
	}
	return all
}

// checkDockerfile returns which of the rules a Dockerfile breaks.
func checkDockerfile(text string) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	last := map[string]string{} // of the final stage
	for _, i := range parseDockerfile(text) {
		switch i.name {
		case "FROM":
			clear(last)
			image, _, _ := strings.Cut(i.args, " ")
			_, tag, tagged := strings.Cut(image, ":")
			if image != "scratch" && (!tagged || tag == "latest") {
				complain("the image %s has no fixed tag", image)
			}
		case "ADD":
			complain("ADD %s: COPY does what is asked and nothing else", i.args)
		case "ENV":
			if regexp.MustCompile(`PASSWORD|SECRET|TOKEN`).MatchString(i.args) {
				complain("ENV %s: a secret in an image is none", i.args)
			}
		}
		last[i.name] = i.args
	}
	user, _, _ := strings.Cut(last["USER"], ":")
	switch {
	case user == "":
		complain("no USER: it runs as root")
	case user == "root" || user == "0":
		complain("USER %s is root", last["USER"])
	case strings.Trim(user, "0123456789") != "":
		complain("USER %s is a name: an orchestrator cannot tell that it is not root", user)
	}
	if !strings.Contains(last["HEALTHCHECK"], `CMD ["/millrace", "health"]`) {
		complain("no HEALTHCHECK by millrace health")
	}
	if last["VOLUME"] != "/data" {
		complain("no VOLUME /data")
	}
	if !strings.HasPrefix(last["ENTRYPOINT"], "[") {
		complain("the ENTRYPOINT has a shell around it, which keeps signals from the server")
	}
	return complaints
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	for _, c := range checkDockerfile(text) {
		t.Error(c)
	}
	goMod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	if goMod == nil || !strings.Contains(text, "FROM golang:"+goMod[1]+"-") {
		t.Errorf("it is not built with the Go of go.mod, %q", goMod)
	}
	// Every variable is one of the configuration.
	known := read(t, "docs/millrace.example.toml")
	for _, v := range regexp.MustCompile(`MILLRACE_\w+`).FindAllString(text, -1) {
		if !strings.Contains(known, "# "+v+", ") {
			t.Errorf("%s is not a setting", v)
		}
	}
	// What is listened on is exposed.
	var exposed []string
	for _, i := range parseDockerfile(text) {
		if i.name == "EXPOSE" {
			exposed = strings.Fields(i.args)
		}
	}
	for _, m := range regexp.MustCompile(`_ADDR=:(\d+)`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(exposed, m[1]) {
			t.Errorf("port %s is not exposed", m[1])
		}
	}
}

// Every rule finds a Dockerfile that breaks it.
func TestDockerfileRules(t *testing.T) {
	t.Parallel()
	good := "FROM golang:1 AS build\nFROM scratch\nUSER 1:1\nVOLUME /data\nHEALTHCHECK --interval=1s \\\n  CMD " +
		"[\"/millrace\", \"health\"]\nENTRYPOINT [\"/millrace\"]\n"
	if got := checkDockerfile(good); len(got) != 0 {
		t.Fatalf("complaints about a good one: %q", got)
	}
	for _, c := range []struct{ old, replacement string }{
		{"golang:1", "golang"},
		{"golang:1", "golang:latest"},
		{"USER 1:1\n", ""},
		{"USER 1:1", "USER root"},
		{"USER 1:1", "USER 0:1"},
		{"USER 1:1", "USER millrace"},
		{"FROM scratch\nUSER 1:1", "USER 1:1\nFROM scratch"},
		{"VOLUME /data\n", ""},
		{`"health"`, `"top"`},
		{`["/millrace"]`, "/millrace"},
		{"VOLUME", "ADD x y\nVOLUME"},
		{"VOLUME", "ENV A_PASSWORD=x\nVOLUME"},
	} {
		if got := checkDockerfile(strings.Replace(good, c.old, c.replacement, 1)); len(got) != 1 {
			t.Errorf("%q instead of %q: %q", c.replacement, c.old, got)
		}
	}
}

// The builder gets what the build needs, and neither tests nor data.
func TestDockerignore(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(read(t, ".dockerignore")), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
	if len(lines) == 0 || lines[0] != "*" {
		t.Fatalf("it does not begin with nothing: %q", lines)
	}
	for _, want := range []string{"!go.mod", "!go.sum", "!cmd", "!internal", "**/*_test.go"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
