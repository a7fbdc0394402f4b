package cli

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/server"
)

// The flags of the original Faktory server, with its own configuration directory.
func TestFaktoryServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf", "conf.d")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "a.toml"),
		[]byte("[faktory]\npassword = \"pw\"\nbinding = \"127.0.0.1:1\"\n[redis]\npool = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	out := &banner{lines: make(chan string, 1)}
	var log bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- Main([]string{
			"faktory-server", "-b", "127.0.0.1:0", "-e", "production", "-l", "info", "-c",
			filepath.Dir(conf), "--d=" + filepath.Join(dir, "data"),
		},
			Process{Stdout: out, Stderr: &log, Signals: signals})
		close(status)
	}()
	var got string
	select {
	case got = <-out.lines:
	case code := <-status:
		t.Fatalf("exit status %d: %s", code, log.String())
	}
	if !strings.Contains(got, "\nfaktory    127.0.0.1:") ||
		!strings.Contains(got, "(namespace default, authentication)\n") || strings.Contains(got, "masenko") {
		t.Errorf("the banner is\n%s", got)
	}
	signals <- syscall.SIGTERM
	if code := <-status; code != 0 {
		t.Errorf("exit status %d", code)
	}
	if !strings.Contains(log.String(), "setting of the original server ignored") {
		t.Errorf("no warning about redis:\n%s", log.String())
	}
}

func TestFaktoryFlags(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".faktory"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args    string
		environ []string
		want    map[string]string
	}{
		{"", nil, map[string]string{}},
		{"-b :7419 -l debug", nil, map[string]string{"faktory.addr": ":7419", "log.level": "debug"}},
		{"--d=/data -c /conf -e staging", nil, map[string]string{
			"data.dir": "/data", "faktory.config_dir": "/conf",
			"faktory.environment": "staging",
		}},
		{"", []string{"HOME=" + home}, map[string]string{"faktory.config_dir": filepath.Join(home, ".faktory")}},
		{
			"-e development",
			[]string{"HOME=" + home, "FAKTORY_ENV=production"},
			map[string]string{
				"faktory.config_dir":  filepath.Join(home, ".faktory"),
				"faktory.environment": "development",
			},
		},
		{"", []string{"HOME=" + home, "MILLRACE_FAKTORY_CONFIG_DIR=/other"}, map[string]string{}},
		{"-c ./here", []string{"HOME=" + home}, map[string]string{"faktory.config_dir": "./here"}},
	} {
		for _, k := range server.Settings().Keys() {
			if k.Kind == config.KindAddresses && k.Name != "faktory.addr" && k.Name != "web.addr" {
				c.want[k.Name] = config.AddressOff
			}
		}
		got, err := parseFaktoryFlags(strings.Fields(c.args), Process{Environ: c.environ})
		if err != nil || !maps.Equal(got.settings, c.want) {
			t.Errorf("%q: %+v, %v\nwant %v", c.args, got, err, c.want)
		}
	}
	f, err := parseFaktoryFlags([]string{"-w", ":0"}, Process{})
	if err != nil || f.settings["web.addr"] != config.AddressOff {
		t.Errorf("-w: %+v, %v", f, err)
	}
	for _, args := range []string{"-x", "-l loud", "-b", "serve", "-l"} {
		if _, err := parseFaktoryFlags(strings.Fields(args), Process{}); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	for _, environ := range [][]string{{"FAKTORY_ENV=test"}, nil} {
		args := []string{"-e", "test"}
		if environ != nil {
			args = nil
		}
		if _, err := parseFaktoryFlags(args, Process{Environ: environ}); !errors.Is(err, errEnvironment) {
			t.Errorf("%v %v: %v", args, environ, err)
		}
	}
}

// What the original does with its other flags: help, version, and exit status 1 with the
// usage for an environment that it does not know.
func TestFaktoryServerExits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, stdout, stderr string
		status               int
	}{
		{"faktory-server -h", "-b HOST:PORT", "", 0},
		{"faktory -v", "(Faktory 1.10.0)", "", 0},
		{"faktory-server -e test", "", `invalid environment: choose development, staging or production, not "test"`, 1},
		{"faktory-server -e production -c /nowhere/at/all", "", "not a directory", 2},
		{"faktory-server -x", "", "flag provided but not defined", 2},
	} {
		var stdout, stderr bytes.Buffer
		status := Main(strings.Fields(c.args), Process{Stdout: &stdout, Stderr: &stderr})
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) ||
			!strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", c.args, status, stdout.String(), stderr.String())
		}
	}
}
