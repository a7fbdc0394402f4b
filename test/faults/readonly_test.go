//go:build linux

package faults

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// run runs a command of the binary and returns its exit status and what it has printed.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), p.Bin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// pushSome pushes jobs to a server.
func pushSome(t *testing.T, s *harness.Server, count int) {
	t.Helper()
	c, err := harness.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing is under way
	for range count {
		if _, err := c.Push("q", "x"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadOnlyMount checks a data directory on a file system that is mounted read-only, and restores from it. While a
// server has the directory open by another path, that is told.
func TestReadOnlyMount(t *testing.T) {
	t.Parallel()
	disk, ok := mountSmall(t, 48<<20)
	if !ok {
		return // TestReadOnlyMedium of the store does the same to a file system in memory
	}
	dir := filepath.Join(disk, "data")
	s := suite.Start(t, server(t, "--data-dir", dir, "--store-free-floor", "0"))
	pushSome(t, s, 30)

	bind := t.TempDir()
	if err := syscall.Mount(disk, bind, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(bind, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mount("", bind, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	readOnly := filepath.Join(bind, "data")
	if status, _, stderr := run(t, "check", readOnly); status != 1 ||
		!strings.Contains(stderr, "in use by another process") {
		t.Errorf("while a server runs, check exits with %d: %s", status, stderr)
	}
	s.Kill()

	checkReadOnly(t, readOnly, false)
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	checkReadOnly(t, readOnly, true)
	_, err := harness.Start(t.Context(), server(t, "--data-dir", readOnly))
	var exit *harness.ExitError
	if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(exit.Stderr, "mount that disk for writing") {
		t.Errorf("a server on it: %v", err)
	}
}

// checkReadOnly checks and restores such a directory, with and without a lock.
func checkReadOnly(t *testing.T, dir string, unlocked bool) {
	t.Helper()
	status, stdout, stderr := run(t, "check", dir)
	if status != 0 || !strings.Contains(stdout, "is sound") ||
		strings.Contains(stderr, "could not be locked") != unlocked {
		t.Errorf("check exits with %d: %s%s", status, stdout, stderr)
	}
	status, stdout, _ = run(t, "check", "--json", dir)
	if status != 0 || strings.Contains(stdout, `"unlocked"`) != unlocked {
		t.Errorf("check --json exits with %d: %s", status, stdout)
	}
	target := filepath.Join(t.TempDir(), "restored")
	status, stdout, stderr = run(t, "restore", dir, target)
	if status != 0 || !strings.Contains(stdout, "Restored 30 jobs") ||
		strings.Contains(stderr, "could not be locked") != unlocked {
		t.Errorf("restore exits with %d: %s%s", status, stdout, stderr)
	}
	s := suite.Start(t, server(t, "--data-dir", target))
	pushSome(t, s, 1)
	if err := s.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}
