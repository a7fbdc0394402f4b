//go:build linux

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/harness"
	"millrace/test/suite"
)

// TestDataTakenAway takes the data directory away from a server under load: it stops, with an exit status and a message
// that says why, and whoever asks then is told nothing.
func TestDataTakenAway(t *testing.T) {
	t.Parallel()
	for name, takeAway := range map[string]func(t *testing.T, disk, dir string) error{
		"deleted": func(t *testing.T, _, dir string) (err error) {
			t.Helper()
			for range 100 { // the server may make a file meanwhile
				if err = os.RemoveAll(dir); err == nil {
					break
				}
			}
			return err
		},
		"moved": func(t *testing.T, _, dir string) error { t.Helper(); return os.Rename(dir, dir+".away") },
		"replaced": func(t *testing.T, _, dir string) error {
			t.Helper()
			if err := os.Rename(dir, dir+".away"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o750)
		},
		"log deleted": func(t *testing.T, _, dir string) error {
			t.Helper()
			names, err := filepath.Glob(filepath.Join(dir, "log-*"))
			for _, name := range names {
				err = errors.Join(err, os.Remove(name))
			}
			return err
		},
		"unmounted": func(t *testing.T, disk, _ string) error {
			t.Helper()
			return syscall.Unmount(disk, syscall.MNT_DETACH)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := t.TempDir()
			if name == "unmounted" {
				if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
					t.Logf("nothing can be mounted here: %v", err)
					return
				}
			}
			dir := filepath.Join(disk, "data")
			s := suite.Start(t, server(t, "--data-dir", dir, "--store-free-floor", "0"))
			c, err := harness.Dial(s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }() // the server closes it first
			acked := make(chan int, 1)
			begun := make(chan struct{})
			go func() {
				n := 0
				for ; ; n++ {
					if _, err := c.Push("q", "x"); err != nil {
						break
					}
					if n == 50 {
						close(begun)
					}
				}
				acked <- n
			}()
			<-begun
			if err := takeAway(t, disk, dir); err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.Done():
			case <-time.After(time.Minute):
				t.Fatalf("it runs on, a minute later:\n%s", s.Stderr())
			}
			n := <-acked
			if s.ExitCode() == 0 || !strings.Contains(s.Stderr(), dir) {
				t.Errorf("exit status %d:\n%s", s.ExitCode(), s.Stderr())
			}
			if !strings.Contains(s.Stderr(), "data is not there any more") &&
				!strings.Contains(s.Stderr(), "no such file or directory") {
				t.Errorf("the message does not say why:\n%s", s.Stderr())
			}
			t.Logf("%d pushes were acknowledged", n)
		})
	}
}
