package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fence is a fenced block of a document, or a setup comment, whose language is then
// "setup".
type fence struct {
	line  int    // of the opening fence
	lang  string // the first word behind it
	flags []string
	text  string
}

var (
	opening    = regexp.MustCompile("^( *)(```+|~~~+) *(.*)$")
	hasCommand = regexp.MustCompile(`^(\$ )?(millrace|curl|nc|printf|docker|make|go|git|apt-get|systemctl|journalctl|promtool) `)
)

// languages are what a fence may be labelled with. Whatever else is shown needs a
// label too, so that no command escapes for want of one.
var languages = []string{
	"sh", "console", "text", "toml", "ini", "json", "go", "yaml", "promql", "nginx",
	"js", "python", "ruby", "php",
}

// parse returns the fences and setup comments of a document in their order.
func parse(document string) ([]fence, error) {
	var out []fence
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		if setup, ok := strings.CutPrefix(lines[i], "<!-- setup"); ok {
			end := slices.IndexFunc(lines[i:], func(l string) bool { return strings.Contains(l, "-->") })
			if end < 0 || strings.TrimSpace(setup) != "" {
				return nil, fmt.Errorf("line %d: want %q, lines of commands and %q", i+1, "<!-- setup", "-->")
			}
			out = append(out, fence{line: i + 1, lang: "setup", text: strings.Join(lines[i+1:i+end], "\n") + "\n"})
			i += end
			continue
		}
		m := opening.FindStringSubmatch(lines[i])
		if m == nil {
			if indented, ok := strings.CutPrefix(lines[i], "    "); ok && hasCommand.MatchString(indented) {
				return nil, fmt.Errorf("line %d: a command that is only indented is not run: put it between "+
					"```sh and ```", i+1)
			}
			continue
		}
		f := fence{line: i + 1}
		if words := strings.Fields(m[3]); len(words) > 0 {
			f.lang, f.flags = words[0], words[1:]
		}
		closed := false
		for i++; i < len(lines); i++ {
			line := strings.TrimPrefix(lines[i], m[1])
			if closed = strings.TrimRight(line, " ") == m[2]; closed {
				break
			}
			if f.lang == "" && hasCommand.MatchString(line) {
				return nil, fmt.Errorf("line %d: a command in a block without a label is not run: label it "+
					"sh or console", i+1)
			}
			f.text += line + "\n"
		}
		if !closed {
			return nil, fmt.Errorf("line %d: the block has no end", f.line)
		}
		if f.lang != "" && !slices.Contains(languages, f.lang) {
			return nil, fmt.Errorf("line %d: a block is labelled %q, which nobody knows: choose one of %q", f.line,
				f.lang, languages)
		}
		out = append(out, f)
	}
	return out, nil
}

// step is one thing to run.
type step struct {
	line   int
	script string
	want   string // what it prints, if checked
	check  bool
}

// plan is what a document asks for.
type plan struct {
	server step // the command that starts the server; none if the document has none
	steps  []step
	norun  []fence
}

// planOf turns the fences of a document into steps.
func planOf(fences []fence) (plan, error) {
	var p plan
	for i, f := range fences {
		s := step{line: f.line, script: f.text}
		if i+1 < len(fences) && fences[i+1].lang == "text" {
			s.want, s.check = fences[i+1].text, true
		}
		switch f.lang {
		case "setup":
			p.steps = append(p.steps, step{line: f.line, script: f.text})
		case "console":
			steps, err := session(f)
			if err != nil {
				return p, err
			}
			p.steps = append(p.steps, steps...)
		case "go", "js", "python", "ruby", "php":
			name, ok := strings.CutPrefix(strings.Join(f.flags, " "), "file=")
			if f.lang == "go" && len(f.flags) == 0 {
				continue // a fragment, for those who work on this repository
			}
			if !ok {
				return p, fmt.Errorf("line %d: a program is labelled with its file (file=work.rb), so that it "+
					"can be run", f.line)
			}
			p.steps = append(p.steps, step{line: f.line, script: write(name, f.text)})
		case "sh":
			switch strings.Join(f.flags, " ") {
			case "norun":
				p.norun = append(p.norun, f)
			case "server":
				if p.server.script != "" || len(p.steps) > 0 {
					return p, fmt.Errorf("line %d: the server has been started before", f.line)
				}
				p.server = s
			case "":
				p.steps = append(p.steps, s)
			default:
				return p, fmt.Errorf("line %d: %q: behind sh can be server or norun", f.line, f.flags)
			}
		}
	}
	return p, nil
}

// write is the command that makes a file of a program which a document shows.
func write(name, program string) string {
	return fmt.Sprintf("mkdir -p \"$(dirname %s)\"\ncat >%s <<'END OF FILE'\n%sEND OF FILE\n", name, name, program)
}

// session takes a console block apart. A command goes on behind a backslash at the
// end of its line.
func session(f fence) ([]step, error) {
	var out []step
	goesOn := false
	for n, line := range strings.Split(strings.TrimSuffix(f.text, "\n"), "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			out = append(out, step{line: f.line + 1 + n, script: command + "\n", check: true})
		case len(out) == 0:
			return nil, fmt.Errorf("line %d: a console block begins with a command behind %q", f.line, "$ ")
		case goesOn:
			out[len(out)-1].script += line + "\n"
		default:
			out[len(out)-1].want += line + "\n"
		}
		goesOn = (isCommand || goesOn) && strings.HasSuffix(line, `\`)
	}
	return out, nil
}

func TestParse(t *testing.T) {
	t.Parallel()
	const document = "# A\n\n<!-- setup\nx=1\n-->\n```sh\necho $x\n```\n\nIt prints\n\n```text\n1\n```\n" +
		"- in a list\n\n  ```console\n  $ echo a \\\n    b\n  a b\n  $ true\n  ```\n\n```toml\na = 1\n```\n```sh " +
		"norun\nreboot\n```\n" +
		"```ruby file=a/b.rb\nputs 1\n```\n"
	fences, err := parse(document)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planOf(fences)
	if err != nil {
		t.Fatal(err)
	}
	want := []step{
		{line: 3, script: "x=1\n"},
		{line: 6, script: "echo $x\n", want: "1\n", check: true},
		{line: 18, script: "echo a \\\n  b\n", want: "a b\n", check: true},
		{line: 21, script: "true\n", check: true},
		{line: 30, script: write("a/b.rb", "puts 1\n")},
	}
	if !slices.Equal(p.steps, want) {
		t.Errorf("steps: %+v", p.steps)
	}
	if len(p.norun) != 1 || p.norun[0].text != "reboot\n" || p.server.script != "" {
		t.Errorf("plan: %+v", p)
	}
	if p, err := planOf([]fence{{lang: "sh", flags: []string{"server"}, text: "millrace\n"}}); err != nil ||
		p.server.script != "millrace\n" {
		t.Errorf("server: %+v, %v", p, err)
	}
}

// What would let a command escape is an error.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"text\n\n    millrace check\n",
		"```\ncurl -s http://localhost:7420/\n```\n",
		"```bash\nls\n```\n",
		"```sh\nls\n",
		"<!-- setup\nls\n",
		"<!-- setup ls -->\n",
		"```sh never\nls\n```\n",
		"```console\nls\n```\n",
		"```python\nprint(1)\n```\n",
		"```sh\nls\n```\n```sh server\nmillrace\n```\n",
	} {
		fences, err := parse(document)
		if err == nil {
			_, err = planOf(fences)
		}
		if err == nil {
			t.Errorf("accepted:\n%s", document)
		}
	}
}
