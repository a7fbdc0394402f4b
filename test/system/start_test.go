package system

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// TestStart starts the server as the README says, and as a unit file would.
func TestStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
	}{
		{name: "plain"},
		{name: "serve", args: []string{"serve", "--masenko-addr", "127.0.0.1:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// Other tests run beside this one: the best of three, and the processor time, are the server's own.
			ready, work := time.Hour, time.Hour
			for range 3 {
				dir := t.TempDir()
				s := suite.Start(t, harness.Options{Bin: program.Bin, Args: tt.args, Env: program.Env, Dir: dir})
				spent, err := harness.CPUTime(s.Pid())
				if err != nil {
					t.Fatal(err)
				}
				ready, work = min(ready, s.Ready), min(work, spent)
				if reply, err := dial(t, s.Addr).Do("PING"); err != nil || reply != "PONG {}" {
					t.Errorf("PING: %q, %v", reply, err)
				}
				out := strings.Join(s.Stdout(), "\n")
				if !strings.Contains(out, s.Addr) || !strings.Contains(out, "masenko") {
					t.Errorf("stdout has no line for the listener:\n%s", out)
				}
				if _, err := os.Stat(filepath.Join(dir, "millrace-data")); err != nil {
					t.Errorf("the default data directory: %v", err)
				}
				stop(t, s)
			}
			t.Logf("ready after %v, with %v of processor time", ready.Round(time.Millisecond), work)
			if work > time.Second || ready > 5*time.Second {
				t.Errorf("ready after %v, with %v of processor time, want less than a second of it and no waiting",
					ready, work)
			}
		})
	}
}

// TestRefusedDirectory checks that the server does not touch what is not its own.
func TestRefusedDirectory(t *testing.T) {
	t.Parallel()
	mkdir := func(t *testing.T, files map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	var first *harness.Server // of the case "in use"
	tests := []struct {
		name string
		dir  func(t *testing.T) string
		want []string // in the message, beside the path
	}{
		{
			"foreign",
			func(t *testing.T) string { t.Helper(); return mkdir(t, map[string]string{"letters.txt": "Dear Ann"}) },
			[]string{"files of something else", "letters.txt"},
		},
		{
			"newer format",
			func(t *testing.T) string {
				t.Helper()
				dir := suite.DataDir(t)
				stop(t, suite.Start(t, options(dir)))
				marker := filepath.Join(dir, "FORMAT")
				text, err := os.ReadFile(marker)
				if err != nil {
					t.Fatal(err)
				}
				newer := strings.Replace(string(text), "format 4", "format 99", 1)
				if newer == string(text) {
					t.Fatalf("the marker does not say format 4: %q", text)
				}
				if err := os.WriteFile(marker, []byte(newer), 0o600); err != nil {
					t.Fatal(err)
				}
				return dir
			},
			[]string{"newer release", "99"},
		},
		{
			"in use",
			func(t *testing.T) string {
				t.Helper()
				dir := suite.DataDir(t)
				first = suite.Start(t, options(dir))
				return dir
			},
			[]string{"in use by another process"},
		},
		{
			"a file",
			func(t *testing.T) string {
				t.Helper()
				return filepath.Join(mkdir(t, map[string]string{"data": "text"}), "data")
			},
			[]string{"it is a file"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := tt.dir(t)
			before := listing(t, dir)
			exit := refused(t, options(dir))
			if exit.Code != 1 {
				t.Errorf("exit status %d, want 1", exit.Code)
			}
			for _, want := range append(tt.want, dir) {
				if !strings.Contains(exit.Stderr, want) {
					t.Errorf("the message does not say %q:\n%s", want, exit.Stderr)
				}
			}
			if tt.name == "in use" {
				if reply, err := dial(t, first.Addr).Do("PING"); err != nil || reply != "PONG {}" {
					t.Errorf("the first server suffered: PING: %q, %v", reply, err)
				}
			} else if after := listing(t, dir); after != before {
				t.Errorf("the refused directory changed:\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

// listing names the files of dir, except for the lock that every opening takes.
func listing(t *testing.T, dir string) string {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		return info.Name()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "LOCK" {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

// TestBadConfiguration checks that a mistake is named and nothing is started.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	dir := suite.DataDir(t)
	exit := refused(t, options(dir, "--store-durability", "perhaps"))
	if exit.Code != 2 {
		t.Errorf("exit status %d, want 2", exit.Code)
	}
	if !strings.Contains(exit.Stderr, "perhaps") || !strings.Contains(exit.Stderr, "fsync") {
		t.Errorf("the message names neither the mistake nor the choices:\n%s", exit.Stderr)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made: %v", err)
	}
}
