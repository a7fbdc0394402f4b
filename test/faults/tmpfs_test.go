//go:build linux

package faults

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"millrace/internal/offline"
	"millrace/test/harness"
	"millrace/test/suite"
)

const (
	tmpfsBytes = 96 << 20
	tmpfsFloor = 48 << 20
)

// smallDisk returns a directory of a small file system of its own, and the floor of free space to give a server
// on it. Where nothing can be mounted it is a directory like others, with so high a floor that a
// part of its file system as large counts as all that there is.
func smallDisk(t *testing.T) (dir string, floor uint64) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", tmpfsBytes))
	if err == nil {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		return dir, tmpfsFloor
	}
	t.Logf("nothing can be mounted here (%v): the floor is raised instead", err)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return dir, st.Bavail*uint64(st.Bsize) - (tmpfsBytes - tmpfsFloor)
}

// TestSmallDisk fills the disk of a real server: it refuses new jobs, settles old ones, and takes new ones again
// when those are gone, all without a restart. What it leaves is sound.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	disk, floor := smallDisk(t)
	dir := filepath.Join(disk, "data")
	s := suite.Start(t, server(t, "--data-dir", dir, "--store-free-floor", fmt.Sprint(floor),
		"--store-memtable", "1MiB"))
	c, err := harness.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server closes it first
	payload := func(i int) string {
		return base64.RawURLEncoding.EncodeToString(bytesOf(rand.New(rand.NewPCG(*seedFlag, uint64(i))), 24<<10))
	}
	alive, pushed := map[uint64]int{}, 0
	for round := range 2 {
		var no *harness.RefusedError
		for err := error(nil); err == nil; {
			var id uint64
			if id, err = c.Push("q", payload(pushed)); err == nil {
				alive[id] = pushed
				pushed++
			} else if !errors.As(err, &no) {
				t.Fatalf("round %d: push: %v\n%s", round, err, s.Stderr())
			}
			if pushed > 20000 {
				t.Fatal("nothing is refused")
			}
		}
		t.Logf("round %d: %d jobs, then %v", round, len(alive), no)
		for len(alive) > 5 {
			j, ok, err := c.Fetch("q", 10*time.Second)
			if err != nil || !ok || j.Payload != payload(alive[j.ID]) {
				t.Fatalf("round %d: fetch: %.40s, %v, %v\n%s", round, j.Payload, ok, err, s.Stderr())
			}
			if err := c.Ack(j.ID); err != nil {
				t.Fatalf("round %d: ack: %v\n%s", round, err, s.Stderr())
			}
			delete(alive, j.ID)
		}
		awaitTaken(t, c, &no)
	}
	if err := s.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	r, err := offline.Check(t.Context(), dir, func(offline.Phase, uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for _, n := range r.Jobs() {
		total += n
	}
	if total != uint64(len(alive)+2) {
		t.Errorf("%d jobs are left, want %d", total, len(alive)+2)
	}
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil {
		t.Error(err)
	}
}

// awaitTaken pushes a small job until it is taken.
func awaitTaken(t *testing.T, c *harness.Client, no **harness.RefusedError) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		_, err := c.Push("small", "x")
		if err == nil {
			return
		}
		if !errors.As(err, no) {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatal("a minute after nearly everything was settled there is no space yet")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
