package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/server"
)

// The flags of the original LMSTFY server, with its own configuration file.
func TestLmstfyServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pid := filepath.Join(dir, "lmstfy.toml"), filepath.Join(dir, "pid")
	text := "Host = \"127.0.0.1\"\nPort = 0\nAdminPort = 0\nLogFormat = \"json\"\n[AdminRedis]\nAddr = " +
		"\"x\"\n[Pool.default]\nAddr = \"x\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	out := &banner{lines: make(chan string, 1)}
	var log bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- Main([]string{"lmstfy-server", "-c", file, "-bt", "warn", "--p=" + pid},
			Process{
				Stdout: out, Stderr: &log, Signals: signals,
				Environ: []string{"MILLRACE_DATA_DIR=" + filepath.Join(dir, "data")},
			})
		close(status)
	}()
	var got string
	select {
	case got = <-out.lines:
	case code := <-status:
		t.Fatalf("exit status %d: %s", code, log.String())
	}
	for _, part := range []string{
		"\nlmstfy     127.0.0.1:", "(namespace in the request, authentication)\n",
		"\nadmin      http://127.0.0.1:",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the banner lacks %q:\n%s", part, got)
		}
	}
	if strings.Contains(got, "masenko") {
		t.Errorf("another protocol is served:\n%s", got)
	}
	if data, err := os.ReadFile(pid); err != nil || string(data) != strconv.Itoa(os.Getpid()) {
		t.Errorf("process id %q, %v", data, err)
	}
	signals <- syscall.SIGHUP
	if code := <-status; code != 0 {
		t.Errorf("exit status %d", code)
	}
	if n := strings.Count(log.String(), "setting of the original server ignored"); n != 2 {
		t.Errorf("%d warnings about settings:\n%s", n, log.String())
	}
	if _, err := os.Stat(pid); !os.IsNotExist(err) {
		t.Errorf("the file of the process id is left: %v", err)
	}
}

func TestLmstfyFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want map[string]string
		pid  string
	}{
		{"", map[string]string{"lmstfy.auth": "token"}, ""},
		{"-sv", map[string]string{"lmstfy.auth": "off"}, ""},
		{"-sv=false -bt error", map[string]string{"lmstfy.auth": "token"}, ""},
		{"--c=a.toml -p run.pid", map[string]string{"lmstfy.auth": "token", "lmstfy.config": "a.toml"}, "run.pid"},
	} {
		for _, k := range server.Settings().Keys() {
			if k.Kind == config.KindAddresses && !strings.HasPrefix(k.Name, "lmstfy.") {
				c.want[k.Name] = config.AddressOff
			}
		}
		got, err := parseLmstfyFlags(strings.Fields(c.args))
		if err != nil || !maps.Equal(got.settings, c.want) || got.pidFile != c.pid {
			t.Errorf("%q: %v, %v, want %v", c.args, got, err, c.want)
		}
	}
	for _, args := range []string{"-bt loud", "-x", "extra", "-sv=perhaps"} {
		if f, err := parseLmstfyFlags(strings.Fields(args)); err == nil {
			t.Errorf("%q is taken as %v", args, f)
		}
	}
}

func TestLmstfyVersion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := Main([]string{"lmstfy-server", "-v"}, Process{Stdout: &out, Stderr: &out}); code != 0 {
		t.Fatalf("exit status %d: %s", code, out.String())
	}
	if got := out.String(); !strings.HasPrefix(got, "version: ") || !strings.Contains(got, "\nbuilt at: ") ||
		!strings.Contains(got, "\ncommit: ") {
		t.Errorf("version %q", got)
	}
	out.Reset()
	if code := Main([]string{"lmstfy-server", "--help"}, Process{Stdout: &out, Stderr: &out}); code != 0 ||
		!strings.Contains(out.String(), "-bt LEVEL") {
		t.Errorf("exit status %d: %s", code, out.String())
	}
}
