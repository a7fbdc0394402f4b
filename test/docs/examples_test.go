package docs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/harness"
)

// documentsOf returns the documents whose examples are run, relative to the root of
// the repository.
func documentsOf(root string) ([]string, error) {
	out := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		rel, err := filepath.Rel(root, path)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	return out, err
}

// planFor reads a document.
func planFor(root, document string) (plan, error) {
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		return plan{}, err
	}
	fences, err := parse(string(text))
	if err != nil {
		return plan{}, err
	}
	return planOf(fences)
}

// The longest that the examples of one document may take, all together. They take
// seconds, unless the server has to be compiled first.
const patience = 3 * time.Minute

// TestExamples runs the examples of every document, each against its own server.
func TestExamples(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	documents, err := documentsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	// The examples call the server and its tools by their name.
	tools := t.TempDir()
	bin, err := harness.Build(t.Context(), tools)
	if err != nil {
		t.Fatal(err)
	}
	// curl says 0 for every answer it gets unless it is told otherwise.
	if err := os.WriteFile(filepath.Join(tools, ".curlrc"), []byte("fail-with-body\nmax-time = 30\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	free, err := harness.FreePorts(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	env := slices.Concat(os.Environ(), []string{
		"PATH=" + tools + string(os.PathListSeparator) + os.Getenv("PATH"),
		"CURL_HOME=" + tools, "REPO=" + root,
	})
	for _, document := range documents {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			p, err := planFor(root, document)
			if err != nil {
				t.Fatalf("%s: %v", document, err)
			}
			if p.server.script == "" && len(p.steps) == 0 {
				return
			}
			s := &stage{document: document, place: t.TempDir(), root: root, free: free, env: env}
			s.run(t, p)
		})
	}
}

// stage is what the examples of one document run on.
type stage struct {
	document string
	root     string   // of the repository
	place    string   // for everything that the examples write
	free     []string // variables that let the server listen on free ports
	env      []string

	defaults []string // ports that the document names
	ports    []string // and those of its server
}

// places are directories that documents name and the test has elsewhere.
var places = regexp.MustCompile(`/(var/lib/millrace|etc/millrace|backup)\b`)

// localized turns commands of the document into commands for its server.
func (s *stage) localized(script string) string {
	script = places.ReplaceAllString(script, s.place+"/$1")
	for i, port := range s.defaults {
		script = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(script, s.ports[i])
	}
	return script
}

// globalized undoes it in what they print.
func (s *stage) globalized(output string) string {
	output = strings.ReplaceAll(output, s.place, "")
	for i, port := range s.ports {
		output = regexp.MustCompile(`:`+port+`\b`).ReplaceAllString(output, ":"+s.defaults[i])
	}
	return output
}

// run starts the server, runs the steps and stops the server.
func (s *stage) run(t *testing.T, p plan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, dir := range []string{"var/lib/millrace", "etc/millrace", "backup", "work"} {
		if err := os.MkdirAll(filepath.Join(s.place, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	dir, server := filepath.Join(s.place, "work"), step{script: "millrace"}
	if p.server.script != "" {
		dir, server = s.root, p.server
	}
	stop := s.start(ctx, t, dir, server)
	s.shell(ctx, t, dir, p.steps)
	stop()
}

// start starts the server by the document's command. What it returns stops it.
func (s *stage) start(ctx context.Context, t *testing.T, dir string, server step) (stop func()) {
	t.Helper()
	// In place of the shell, which would not outlive the signal that ends the server.
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+s.localized(server.script))
	cmd.Dir = dir
	cmd.Env = slices.Concat(s.env, s.free, s.data())
	// A group of its own, so that what "go run" has started is reached too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signal := func(sig syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, sig) }
	cmd.Cancel = func() error { return signal(syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out := newLineLog()
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var result error // of Wait; valid once ended is closed
	go func() {
		defer close(ended)
		result = cmd.Wait()
	}()
	// Also when a step fails: nothing may outlive the test.
	t.Cleanup(func() {
		select {
		case <-ended:
		default:
			_ = signal(syscall.SIGKILL) // it has ended, or it does now
			<-ended
		}
	})
	select {
	case s.ports = <-out.listening(len(s.free)):
	case <-ended:
		t.Fatalf("%s: the server ended (%v):\n%s%s", s.document, result, out.text(), log)
	case <-ctx.Done():
		t.Fatalf("%s: the server does not listen at %d addresses (%v):\n%s", s.document, len(s.free),
			ctx.Err(), out.text())
	}
	s.defaults = defaultPorts(t, s.env)
	if len(s.defaults) != len(s.ports) {
		t.Fatalf("%s: the defaults are the ports %v, but the server has %v", s.document, s.defaults, s.ports)
	}
	if server.check {
		if err := match(server.want, s.globalized(out.text())); err != nil {
			t.Errorf("%s:%d: %s%v", s.document, server.line, server.script, err)
		}
	}
	return func() {
		if err := signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		// "go run" has another status than the server when it is interrupted.
		if <-ended; !strings.Contains(log.String(), `"msg":"stopped"`) {
			t.Errorf("%s: the server did not stop in order (%v):\n%s", s.document, result, log)
		}
	}
}

// shell runs the steps in one shell and checks what each of them has printed.
func (s *stage) shell(ctx context.Context, t *testing.T, dir string, steps []step) {
	t.Helper()
	box := t.TempDir()
	path := func(kind string, i int) string { return filepath.Join(box, kind+strconv.Itoa(i)) }
	driver := &strings.Builder{}
	for i, st := range steps {
		if err := os.WriteFile(path("step", i), []byte(s.localized(st.script)), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(driver, ". %s >%s 2>%s </dev/null\n", path("step", i), path("out", i), path("err", i))
	}
	// bash, because its pipes fail when any part of them does.
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", driver.String())
	cmd.Dir = dir
	cmd.Env = slices.Concat(s.env, s.addresses(), s.data())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	failed := cmd.Run()
	for i, st := range steps {
		// A step that was not reached has printed nothing.
		out, err := os.ReadFile(path("out", i))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		stderr, err := os.ReadFile(path("err", i))
		if err != nil {
			t.Fatal(err)
		}
		where := fmt.Sprintf("%s:%d", s.document, st.line)
		if _, err := os.Stat(path("out", i+1)); failed != nil && err != nil {
			t.Fatalf("%s: %v\n%s%s%s", where, failed, st.script, out, stderr)
		}
		if !st.check {
			continue
		}
		if err := match(st.want, s.globalized(string(out))); err != nil {
			t.Errorf("%s: %s%v\n%s", where, st.script, err, stderr)
		}
	}
	if failed != nil {
		t.Fatalf("%s: %v", s.document, failed)
	}
}

// addresses is the environment in which commands find the server where its default
// address would be.
func (s *stage) addresses() []string {
	out := make([]string, len(s.free))
	for i, v := range s.free {
		name, _, _ := strings.Cut(v, "=")
		out[i] = name + "=127.0.0.1:" + s.ports[i]
	}
	return out
}

// data keeps jobs out of the directory that the server is started in.
func (s *stage) data() []string {
	return []string{"MILLRACE_DATA_DIR=" + filepath.Join(s.place, "var/lib/millrace/data")}
}
