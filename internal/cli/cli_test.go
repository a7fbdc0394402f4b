package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

// outcome is what a command leaves behind.
type outcome struct {
	status         int
	stdout, stderr string
}

func run(environ []string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := Main(args, Process{Stdout: &stdout, Stderr: &stderr, Environ: environ})
	return outcome{status, stdout.String(), stderr.String()}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "millrace.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommands(t *testing.T) {
	t.Parallel()
	good := writeFile(t, "[data]\ndir = \"/from/file\"\n")
	bad := writeFile(t, "[data]\ndirr = \"x\"\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		status  int
		stdout  []string
		stderr  []string
	}{
		{
			name: "help", args: []string{"--help"},
			stdout: []string{"Exit status: 0 after", "Examples:", "config", "version", "completion"},
		},
		{
			name: "help of a command", args: []string{"help", "serve"},
			stdout: []string{"SIGTERM", "Examples:", "--masenko-addr"},
		},
		{name: "version", args: []string{"version"}, stdout: []string{"millrace dev", "go1."}},
		{name: "version flag", args: []string{"--version"}, stdout: []string{"millrace dev"}},
		{
			name: "unknown command", args: []string{"srve"}, status: 2,
			stderr: []string{
				`millrace: unknown command "srve" for "millrace": did you mean "serve"?`,
				`Run "millrace --help" for help.`,
			},
		},
		{
			name: "unknown command below config", args: []string{"config", "pritn"}, status: 2,
			stderr: []string{`unknown command "pritn" for "millrace config": did you mean "print"?`},
		},
		{
			name: "unknown flag", args: []string{"serve", "--data-dri", "x"}, status: 2,
			stderr: []string{
				`unknown flag: --data-dri: did you mean "--data-dir"?`,
				`Run "millrace serve --help" for help.`,
			},
		},
		{
			name: "flag without value", args: []string{"--data-dir"}, status: 2,
			stderr: []string{"flag needs an argument: --data-dir"},
		},
		{
			name: "stray argument", args: []string{"serve", "now"}, status: 2,
			stderr: []string{`"millrace serve" takes no arguments, but got "now"`},
		},
		{name: "config alone", args: []string{"config"}, stdout: []string{"ls", "validate", "schema", "example"}},
		{
			name: "config print", args: []string{
				"config", "print", "--config", good, "--log-level", "debug",
				"--listen-insecure",
			},
			environ: []string{"MILLRACE_STORE_DURABILITY=none", "MASENKO_HEARTBEAT=9s"},
			stdout: []string{
				"/from/file", good + ":2", "MILLRACE_STORE_DURABILITY", "--log-level", "--listen-insecure", "default",
				"note: MASENKO_HEARTBEAT: taken as masenko.heartbeat; set MILLRACE_MASENKO_HEARTBEAT instead",
			},
		},
		{
			name: "config print of a bad file", args: []string{"config", "print", "-c", bad}, status: 2,
			stderr: []string{bad + `:2: unknown key "data.dirr": did you mean "data.dir"?`},
		},
		{
			name: "config validate", args: []string{"config", "validate"}, environ: []string{"MILLRACE_CONFIG=" + good},
			stdout: []string{"The configuration is valid: 1 of "},
		},
		{
			name: "config validate with problems", args: []string{
				"config", "validate", "--config", bad,
				"--store-cache", "huge",
			}, status: 2,
			stderr: []string{"2 problems", "dirr", "--store-cache: store.cache"},
		},
		{
			name: "serve with a bad variable", args: []string{}, environ: []string{"MILLRACE_DATA=1"}, status: 2,
			stderr: []string{"MILLRACE_DATA"},
		},
		{
			name: "serve with a bad original", args: []string{"serve"}, environ: []string{"MASENKO_HEARTBEAT=x"},
			status: 2, stderr: []string{"MASENKO_HEARTBEAT: masenko.heartbeat"},
		},
		{
			name: "workq-server help", args: []string{"workq-server", "-help"},
			stdout: []string{"-cmdlog-sync always|interval|os", "Examples:"},
		},
		{
			name: "workq-server with an unknown flag", args: []string{"workq-server", "-cmdlog", "x"}, status: 2,
			stderr: []string{"flag provided but not defined: -cmdlog", `Run "millrace workq-server --help" for help.`},
		},
		{
			name: "workq-server with an argument", args: []string{"workq-server", "x"}, status: 2,
			stderr: []string{`takes no arguments, but got "x"`},
		},
		{
			name: "workq-server with a bad sync", args: []string{"workq-server", "-cmdlog-sync", "never"}, status: 2,
			stderr: []string{`invalid value "never" for flag -cmdlog-sync: choose always, interval or os`},
		},
		{
			name: "workq-server with a bad size", args: []string{"workq-server", "--cmdlog-seg-size=1k"}, status: 2,
			stderr: []string{"-cmdlog-seg-size: write a whole number"},
		},
		{
			name: "workq-server with a bad interval", args: []string{"workq-server", "--cmdlog-sync-int=-1"}, status: 2,
			stderr: []string{"-cmdlog-sync-int: write a whole number"},
		},
		{
			name: "workq-server beyond loopback", args: []string{"workq-server", "-listen", "0.0.0.0:0"}, status: 2,
			stderr: []string{"without authentication", "--listen-insecure"},
		},
		{
			name: "serve beyond loopback", args: []string{"--masenko-addr", ":0"}, status: 2,
			stderr: []string{"without authentication", "--listen-insecure"},
		},
		{
			name: "serve on a taken port", args: []string{"serve", "--masenko-addr", taken.Addr().String()}, status: 1,
			stderr: []string{"millrace: masenko.addr: cannot listen on", "address already in use"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := run(c.environ, c.args...)
			if got.status != c.status {
				t.Errorf("exit status %d, want %d", got.status, c.status)
			}
			for _, part := range c.stdout {
				if !strings.Contains(got.stdout, part) {
					t.Errorf("stdout lacks %q:\n%s", part, got.stdout)
				}
			}
			for _, part := range c.stderr {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("stderr lacks %q:\n%s", part, got.stderr)
				}
			}
			if c.status == 0 && got.stderr != "" {
				t.Errorf("stderr of a success:\n%s", got.stderr)
			}
			if c.status != 0 && got.stdout != "" {
				t.Errorf("stdout of a failure:\n%s", got.stdout)
			}
		})
	}
}

// Every key has its line in "config print".
func TestPrintIsComplete(t *testing.T) {
	t.Parallel()
	got := run(nil, "config", "print")
	for _, k := range server.Settings().Keys() {
		if !strings.Contains(got.stdout, "\n"+k.Name+" ") {
			t.Errorf("%s is not printed", k.Name)
		}
	}
}

func TestGenerated(t *testing.T) {
	t.Parallel()
	if got := run(nil, "config", "schema"); got.status != 0 || !json.Valid([]byte(got.stdout)) {
		t.Errorf("schema: status %d\n%s", got.status, got.stdout)
	}
	example := run(nil, "config", "example")
	if got := run(nil, "config", "validate", "--config", writeFile(t, example.stdout)); got.status != 0 {
		t.Errorf("the example is not valid: %s", got.stderr)
	}
}

// Every command of ours has examples in its help, and every error of cobra's own
// counts as one of usage.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s has no example or description", cmd.CommandPath())
		}
		if cmd.Args == nil {
			t.Errorf("%s does not check its arguments", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(Process{}))
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	if got := run(nil, "completion", "bash"); got.status != 0 || !strings.Contains(got.stdout, "__start_millrace") {
		t.Errorf("completion: status %d, %d bytes", got.status, len(got.stdout))
	}
	if got := run(nil, "__complete", "serve", "--store-durability", ""); !strings.HasPrefix(got.stdout,
		"fsync\ninterval\nnone\n") {
		t.Errorf("choices: %q", got.stdout)
	}
}

// banner hands on the addresses that a server prints.
type banner struct {
	once  sync.Once
	lines chan string
}

func (b *banner) Write(p []byte) (int, error) {
	b.once.Do(func() { b.lines <- string(p) })
	return len(p), nil
}

// The command without a name serves; a signal ends it with status 0. Off a terminal
// the log is JSON.
func TestServe(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	out := &banner{lines: make(chan string, 1)}
	status := make(chan int, 1)
	logged, log := io.Pipe()
	go func() {
		args := []string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--masenko-addr=127.0.0.1:0"}
		for _, k := range server.Settings().Keys() {
			if k.Kind == config.KindAddresses && k.Name != "masenko.addr" {
				args = append(args, "--"+k.Flag()+"=off")
			}
		}
		status <- Main(args, Process{Stdout: out, Stderr: log, Signals: signals})
		_ = log.Close()
	}()
	lines := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(logged) // the pipe ends without an error
		lines <- data
	}()
	if got := <-out.lines; !strings.Contains(got, "\nmasenko    127.0.0.1:") {
		t.Errorf("banner:\n%s", got)
	}
	signals <- syscall.SIGTERM
	if got := <-status; got != 0 {
		t.Errorf("exit status %d", got)
	}
	messages := 0
	for line := range bytes.Lines(<-lines) {
		messages++
		if !json.Valid(line) {
			t.Errorf("log line %q is not JSON", line)
		}
	}
	if messages == 0 {
		t.Error("nothing was logged")
	}
}

// The flags of the original Workq server, with one dash or two.
func TestWorkqServer(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	out := &banner{lines: make(chan string, 1)}
	var log bytes.Buffer
	status := make(chan int, 1)
	dir := filepath.Join(t.TempDir(), "log")
	go func() {
		status <- Main([]string{
			"workq-server", "-listen", "127.0.0.1:0", "--cmdlog-path=" + dir, "-cmdlog-sync", "interval",
			"-cmdlog-sync-int=250",
			"--cmdlog-seg-size", "67108864", "-cmdlog-clean-int", "300000",
		}, Process{Stdout: out, Stderr: &log, Signals: signals})
		close(status)
	}()
	var got string
	select {
	case got = <-out.lines:
	case code := <-status:
		t.Fatalf("exit status %d: %s", code, log.String())
	}
	for _, part := range []string{"data       " + dir + "\n", "durability interval", "\nworkq      127.0.0.1:"} {
		if !strings.Contains(got, part) {
			t.Errorf("the banner lacks %q:\n%s", part, got)
		}
	}
	if strings.Contains(got, "masenko") {
		t.Errorf("another protocol is served:\n%s", got)
	}
	signals <- syscall.SIGTERM
	if code := <-status; code != 0 {
		t.Errorf("exit status %d", code)
	}
	if n := strings.Count(log.String(), "flag of the original server ignored"); n != 2 {
		t.Errorf("%d warnings about flags:\n%s", n, log.String())
	}
}

func TestWorkqFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"-cmdlog-sync always -cmdlog-sync-int 0", map[string]string{"store.durability": "fsync"}},
		{"-cmdlog-sync os --listen=:1", map[string]string{"store.durability": "none", "workq.addr": ":1"}},
		{"-cmdlog-sync-int=1000", map[string]string{"store.sync_interval": "1000ms"}},
	} {
		for _, k := range server.Settings().Keys() {
			if k.Kind == config.KindAddresses && k.Name != "workq.addr" {
				c.want[k.Name] = config.AddressOff
			}
		}
		got, err := parseWorkqFlags(strings.Fields(c.args))
		if err != nil || !maps.Equal(got.settings, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.args, got, err, c.want)
		}
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	newLogger(&b, config.Log{Level: "warn", Format: "text"}).Info("quiet")
	newLogger(&b, config.Log{Level: "warn", Format: "text"}).Warn("loud")
	newLogger(&b, config.Log{Level: "debug", Format: "auto"}).Debug("as json")
	got := b.String()
	if strings.Contains(got, "quiet") || !strings.Contains(got, "msg=loud") ||
		!strings.Contains(got, `"msg":"as json"`) {
		t.Errorf("log:\n%s", got)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	device, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = device.Close() })
	if isTerminal(file) || !isTerminal(device) {
		t.Errorf("terminal: file %t, device %t", isTerminal(file), isTerminal(device))
	}
}

func TestBuildVersion(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.0.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "then"}},
	}
	for _, c := range []struct {
		linked build
		info   *debug.BuildInfo
		want   build
	}{
		{build{"2.0", "def", "now"}, info, build{"2.0", "def", "now"}},
		{build{}, info, build{"v1.0.0", "abc", "then"}},
		{build{}, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, build{number: "dev"}},
	} {
		if got := c.linked.orElse(c.info); got != c.want {
			t.Errorf("%+v or else %+v = %+v, want %+v", c.linked, c.info.Main, got, c.want)
		}
	}
	if got := (build{"1", "c", "d"}).String(); !strings.HasPrefix(got, "1 (commit c, built d, go") {
		t.Errorf("text: %q", got)
	}
}
