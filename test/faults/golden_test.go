//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/offline"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/internal/testkit"
)

var goldenFlag = flag.String("faults.golden", "",
	"name of a golden data directory to make, of what this release writes")

// goldenDir has a directory for each release that changed what is on disk, which stays as it is for good: data is the
// data directory, jobs.txt what is in it. The next one is made with
//
//	go test ./test/faults -count=1 -run TestGolden -args -faults.golden=v5
const goldenDir = "testdata/golden"

// TestGolden opens the data directories of all releases.
func TestGolden(t *testing.T) {
	t.Parallel()
	if *goldenFlag != "" {
		makeGolden(t, filepath.Join(goldenDir, *goldenFlag))
	}
	entries, err := os.ReadDir(goldenDir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%v: there is no golden directory", err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			checkGolden(t, filepath.Join(goldenDir, e.Name()))
		})
	}
}

// checkGolden opens a copy of a data directory, as an upgrade does.
func checkGolden(t *testing.T, golden string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, "jobs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	dir := imageOf(t, vfs.Default, filepath.Join(golden, "data")).dir(t)
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := goldenLines(s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("what is in it: %s", difference(want, got))
	}
	for state := job.Scheduled; int(state) < job.StateCount; state++ {
		if !strings.Contains(string(text), " "+state.String()+" ") {
			t.Errorf("no job in it is %v", state)
		}
	}
	if _, err := offline.Check(t.Context(), dir, func(offline.Phase, uint64, uint64) {}); err != nil {
		t.Error(err)
	}
	// It serves: a job that was ready then is fetched, and a new one gets the next id.
	n := open(t, vfs.Default, dir)
	c := n.NewCaller()
	fetched := must(t, c, &job.Fetch{
		Namespace: namespace, Queues: []string{"q0"}, Max: 1,
		DefaultLease: time.Hour,
	})[0].Jobs
	if len(fetched) != 1 {
		t.Fatalf("%d jobs fetched", len(fetched))
	}
	must(t, c, &job.Ack{Ref: job.ByID(namespace, "q0", fetched[0].ID), Need: job.NeedLeased})
	if r := must(t, c, push("q0", "new")); int(r[0].ID) < len(want)/2 {
		t.Errorf("a new job has the id %d", r[0].ID)
	}
	n.mustClose(t)
	if _, err := offline.Check(t.Context(), dir, func(offline.Phase, uint64, uint64) {}); err != nil {
		t.Errorf("after it was used: %v", err)
	}
	format, err := os.ReadFile(filepath.Join(dir, "FORMAT"))
	if want := fmt.Sprintf("format %d\n", pebblestore.FormatVersion); err != nil ||
		!strings.HasSuffix(string(format), want) {
		t.Errorf("it was not upgraded: %q, %v", format, err)
	}
}

// goldenLines tells all that is in a store: jobs, batches and values.
func goldenLines(r store.Reader) ([]string, error) {
	lines, err := jobsOf(r)
	q := engine.NewQuery(r)
	batches, batchErr := q.Batches(namespace, 0, 100)
	for i := range batches {
		b := &batches[i]
		lines = append(lines, fmt.Sprintf("batch %d %q total=%d pending=%d", b.ID, b.Text, b.Total, b.Pending))
	}
	values, valueErr := q.Values("space", "", 100)
	for _, v := range values {
		lines = append(lines, fmt.Sprintf("value %s=%x", v.Name, v.Value))
	}
	return lines, errors.Join(err, batchErr, valueErr)
}

// makeGolden makes a golden data directory that is not there yet: with tables, and what is in the log alone, as it is
// when the process is killed. Files of nothing but zeros, which the log makes to have them ready, are left out.
func makeGolden(t *testing.T, golden string) {
	t.Helper()
	if err := os.MkdirAll(goldenDir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(golden, 0o750); err != nil {
		t.Fatalf("a golden directory stays as it is: %v", err)
	}
	fsys := &storetest.LogWatch{MemFS: vfs.NewCrashableMem()}
	n := open(t, fsys, memDir)
	for _, d := range dialecttest.Drivers() {
		pushThrough(t, n.Engine, d)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	populate(t, n.Engine, rng, 6)
	n.mustClose(t)
	n = open(t, fsys, memDir)
	must(t, n.NewCaller(), push("last", "in a table"))
	s := newRunning(t, fsys, n, rng)
	n.mustClose(t)
	r, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: s.files.mem(t), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := goldenLines(r)
	err = errors.Join(err, r.Close(), os.Mkdir(filepath.Join(golden, "data"), 0o750),
		os.WriteFile(filepath.Join(golden, "jobs.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	for name, p := range s.files {
		if filelog.IsSegment(name) && len(bytes.Trim(p, "\x00")) == 0 {
			continue
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(golden, "data", name), p, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pushThrough pushes jobs through a protocol, and leaves one of them fetched and one settled.
func pushThrough(t *testing.T, e *engine.Engine, d dialecttest.Driver) {
	t.Helper()
	l := testkit.Listen(0)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	server := d.New(dialecttest.Settings{
		Options:    dialect.Options{Engine: e, Namespace: namespace, WriteTimeout: time.Minute},
		MaxCommand: 1 << 20,
	})
	go func() { served <- server.Serve(ctx, l) }()
	conn, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Client(conn)
	if err != nil {
		t.Fatal(err)
	}
	queue := strings.ReplaceAll(d.Name, ".", "") + "door"
	for i := range 4 {
		if err := c.Push(queue, fmt.Sprintf(`{"job":%d,"through":%q}`, i, d.Name)); err != nil {
			t.Fatalf("%s: push: %v", d.Name, err)
		}
	}
	for i := range 2 {
		task, err := c.Fetch(queue, time.Second)
		if err == nil && i == 0 {
			err = c.Ack(task.Handle)
		}
		if err != nil {
			t.Fatalf("%s: fetch and settle: %v", d.Name, err)
		}
	}
	err = c.Close()
	cancel()
	if err := errors.Join(err, <-served); err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
}
