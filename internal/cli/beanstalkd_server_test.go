package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/server"
)

// The flags of the original beanstalkd.
func TestBeanstalkdServer(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	out := &banner{lines: make(chan string, 1)}
	var log bytes.Buffer
	status := make(chan int, 1)
	dir := filepath.Join(t.TempDir(), "log")
	go func() {
		status <- Main([]string{
			"beanstalkd-server", "-l", "127.0.0.1", "-p0", "-b", dir, "-f", "250", "-z", "1000000",
			"-s", "10485760", "-u", "nobody", "-V",
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
	for _, part := range []string{"data       " + dir + "\n", "durability interval", "\nbeanstalkd 127.0.0.1:"} {
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

func TestBeanstalkdFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"-f0", map[string]string{"store.durability": "fsync"}},
		{"-f 50 -b/data", map[string]string{
			"store.durability": "interval", "store.sync_interval": "50ms",
			"data.dir": "/data",
		}},
		{"-VF", map[string]string{"store.durability": "none", "log.level": "debug"}},
		{"-l ::1", map[string]string{"beanstalkd.addr": "[::1]:11300"}},
		{"-p 11301 -cn -z 5", map[string]string{"beanstalkd.addr": "127.0.0.1:11301", "beanstalkd.max_job_size": "5"}},
	} {
		for _, k := range server.Settings().Keys() {
			if k.Kind == config.KindAddresses && k.Name != "beanstalkd.addr" {
				c.want[k.Name] = config.AddressOff
			}
		}
		got, err := parseBeanstalkdFlags(strings.Fields(c.args))
		if err != nil || !maps.Equal(got.settings, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.args, got, err, c.want)
		}
	}
	for args, want := range map[string]string{
		"-x": "unknown flag -x", "-p": "flag -p needs a value", "x": `takes no arguments, but got "x"`,
		"-":    `but got "-"`,
		"-f x": "-f: write a whole number", "-z -1": "-z: write a whole number", "-s1k": "-s: write a whole number",
	} {
		if _, err := parseBeanstalkdFlags(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
	if o := run(nil, "beanstalkd-server", "-h"); o.status != 0 || !strings.Contains(o.stdout, "-b DIR") {
		t.Errorf("%+v", o)
	}
	if o := run(nil, "beanstalkd-server", "--help"); o.status != 0 || !strings.Contains(o.stdout, "-b DIR") {
		t.Errorf("%+v", o)
	}
	if o := run(nil, "beanstalkd-server", "-v"); o.status != 0 || !strings.HasPrefix(o.stdout, "millrace ") {
		t.Errorf("%+v", o)
	}
	if o := run(nil, "beanstalkd-server", "-l", "0.0.0.0"); o.status != exitUsage ||
		!strings.Contains(o.stderr, "without authentication") {
		t.Errorf("%+v", o)
	}
}
