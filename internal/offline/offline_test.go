package offline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
)

// ignore is a ProgressFunc.
func ignore(Phase, uint64, uint64) {}

// openDir opens a directory as a server would, until the test ends or close is called. Its memtables are too small to
// be widened, which would change files while they are copied.
func openDir(t *testing.T, dir string) (e *engine.Engine, s *pebblestore.Store, closeAll func()) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir, MemTableBytes: 512 << 10})
	if err != nil {
		t.Fatal(err)
	}
	e, err = engine.Open(engine.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	closeAll = sync.OnceFunc(func() {
		if err := errors.Join(e.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(closeAll)
	return e, s, closeAll
}

func push(queue, body string) *job.Push {
	return &job.Push{Spec: job.Spec{Namespace: "ns", Queue: queue, Body: []byte(body), BodyKind: job.BodyBytes}}
}

// filled returns a closed data directory: a thousand ready jobs in one queue, 52 in
// another of which one is leased.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	e, _, closeAll := openDir(t, dir)
	c := e.NewCaller()
	body := strings.Repeat("x", 2000) // enough for a table on disk
	cmds := []job.Command{
		push("b", "1"), push("b", "2"),
		&job.Fetch{Namespace: "ns", Queues: []string{"b"}, Max: 1, DefaultLease: time.Hour},
	}
	for range 1000 {
		cmds = append(cmds, push("a", body))
	}
	for i, r := range c.Do(t.Context(), cmds...) {
		if r.Err != nil {
			t.Fatalf("command %d: %v", i, r.Err)
		}
	}
	for range 50 {
		if r := c.Do(t.Context(), push("b", "more")); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	closeAll()
	return dir
}

// running returns a copy of such a directory that was in use.
func running(t *testing.T) string {
	t.Helper()
	dir := filled(t)
	e, _, closeAll := openDir(t, dir)
	defer closeAll()
	c := e.NewCaller()
	for range 50 { // each a record of the log
		if r := c.Do(t.Context(), push("b", "more")); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	for { // again, if a file goes that is not needed any more
		target := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(target, os.DirFS(dir))
		if err == nil {
			return target
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// contents returns a digest of every file of a directory except for the lock.
func contents(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	all := make(map[string][sha256.Size]byte)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		p, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != lock {
			all[e.Name()] = sha256.Sum256(p)
		}
	}
	return all
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	before := contents(t, dir)
	ended := map[Phase]bool{}
	var phases []Phase
	r, err := Check(t.Context(), dir, func(p Phase, done, total uint64) {
		if len(phases) == 0 || phases[len(phases)-1] != p {
			phases = append(phases, p)
		}
		ended[p] = done == total
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Phase{PhaseTables, PhaseRecords, PhaseInvariants}; !slices.Equal(phases, want) || len(ended) != 3 {
		t.Errorf("phases %v, ended %v", phases, ended)
	}
	for p, ok := range ended {
		if !ok {
			t.Errorf("%s did not end", p)
		}
	}
	if len(r.Queues) != 2 || r.Queues[0].Name != "a" || r.Queues[0].Counts[job.Ready] != 1000 || r.Tables == 0 ||
		r.Records < 2000 {
		t.Errorf("report %+v", r)
	}
	if got := r.Jobs(); got[job.Ready] != 1051 || got[job.Leased] != 1 {
		t.Errorf("jobs %v", got)
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("the check has changed a file")
	}
}

// What is damaged is told from what cannot be looked at.
func TestCheckRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		dir     func(t *testing.T) string
		want    error
		damaged bool
		text    string
	}{
		{
			"missing", func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "none") },
			fs.ErrNotExist, false, "check the path",
		},
		{
			"empty", func(t *testing.T) string { t.Helper(); return t.TempDir() }, fs.ErrNotExist, false,
			"no store in it",
		},
		{
			"node", func(t *testing.T) string {
				t.Helper()
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte("a/1\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return dir
			},
			errNode, false, "millrace backup",
		},
		{
			"in use", func(t *testing.T) string {
				t.Helper()
				dir := filepath.Join(t.TempDir(), "data")
				openDir(t, dir)
				return dir
			},
			store.ErrLocked, false, `stop that process, or use a backup, which "millrace backup" makes`,
		},
		{
			"table", func(t *testing.T) string { t.Helper(); return spoil(t, filled(t), "*.sst") },
			ErrDamaged, true, "checksum",
		},
		{
			"log", func(t *testing.T) string { t.Helper(); dir := running(t); return spoil(t, dir, newestLog(t, dir)) },
			ErrDamaged, true, "log-",
		},
		{
			"log cut", func(t *testing.T) string {
				t.Helper()
				dir := running(t)
				return empty(t, dir,
					newestLog(t, dir))
			},
			ErrDamaged, true, "log-",
		},
		{
			"log cut, of a server that was stopped", func(t *testing.T) string {
				t.Helper()
				dir := filled(t)
				return empty(t, dir, newestLog(t, dir))
			},
			ErrDamaged, true, "segment",
		},
		{
			"record", func(t *testing.T) string {
				t.Helper()
				return change(t, filled(t), func(b *store.Batch) {
					b.Set(record.JobKey(nil, 1, 1, record.PartState), []byte("?"))
				})
			},
			ErrDamaged, true, "malformed record",
		},
		{
			"invariant", func(t *testing.T) string {
				t.Helper()
				return change(t, filled(t), func(b *store.Batch) {
					b.Delete(record.JobKey(nil, 2, 3, record.PartFirst))
				})
			},
			ErrDamaged, true, "INV-",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := c.dir(t)
			_, err := Check(t.Context(), dir, ignore)
			if !errors.Is(err, c.want) || errors.Is(err, ErrDamaged) != c.damaged {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v says neither %q nor %s", err, c.text, dir)
			}
			if !c.damaged {
				return
			}
			target := filepath.Join(t.TempDir(), "restored")
			if _, err := Restore(t.Context(), dir, target, ignore); !errors.Is(err, ErrDamaged) {
				t.Errorf("restored from it: %v", err)
			}
			if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was restored: %v", err)
			}
		})
	}
}

// spoil changes a byte in the middle of the first file that the pattern names.
func spoil(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	name := names[len(names)-1]
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p[len(bytes.TrimRight(p, "\x00"))/3] ^= 1
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newestLog returns the name of the segment of the log that has the last records.
func newestLog(t *testing.T, dir string) (name string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log-*"))
	if err != nil {
		t.Fatal(err)
	}
	var first uint64
	for _, path := range names {
		p, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := binary.LittleEndian.Uint64(p[24:]); n >= first { // the number of its first record
			first, name = n, filepath.Base(path)
		}
	}
	return name
}

// empty cuts a file to nothing.
func empty(t *testing.T, dir, name string) string {
	t.Helper()
	if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

// change commits a batch behind the engine's back.
func change(t *testing.T, dir string, fill func(*store.Batch)) string {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	fill(&b)
	if err := errors.Join(store.CommitNow(s, &b), s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRestore(t *testing.T) {
	t.Parallel()
	backup := filled(t)
	before := contents(t, backup)
	for _, made := range []bool{false, true} { // an empty directory will do, too
		dir := filepath.Join(t.TempDir(), "a", "restored")
		if made {
			if err := os.MkdirAll(filepath.Join(dir, mountRoot), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Restore(t.Context(), backup, dir, ignore)
		if err != nil || r.Jobs()[job.Ready] != 1051 {
			t.Fatalf("%v, %v", r.Jobs(), err)
		}
		if made {
			if err := os.Remove(filepath.Join(dir, mountRoot)); err != nil {
				t.Fatal(err)
			}
		}
		if !maps.Equal(before, contents(t, dir)) {
			t.Error("the copy is another")
		}
		if _, err := Restore(t.Context(), backup, dir, ignore); err == nil ||
			!strings.Contains(err.Error(), "is not empty") {
			t.Errorf("restored onto itself: %v", err)
		}
	}
	if !maps.Equal(before, contents(t, backup)) {
		t.Error("the backup was changed")
	}
	inside := filepath.Join(backup, "restored")
	if _, err := Restore(t.Context(), backup, inside, ignore); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("restored into the backup: %v", err)
	}
}

// A restore that is ended in the middle leaves nothing, and one that a crash ends leaves
// what no server takes.
func TestRestoreInterrupted(t *testing.T) {
	t.Parallel()
	backup := filled(t)
	dir := filepath.Join(t.TempDir(), "restored")
	ctx, cancel := context.WithCancel(t.Context())
	var half []string
	_, err := Restore(ctx, backup, dir, func(p Phase, _, _ uint64) {
		if p == PhaseCopy && half == nil {
			cancel()
			half, _ = namesIn(dir)
			crashed := filepath.Join(filepath.Dir(dir), "crashed")
			if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
				t.Error(err)
			}
			if _, err := pebblestore.Open(pebblestore.Options{Dir: crashed}); !errors.Is(err, store.ErrForeign) {
				t.Errorf("half a copy opens: %v", err)
			}
		}
	})
	if !errors.Is(err, context.Canceled) || len(half) == 0 {
		t.Errorf("%v with %q", err, half)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rest is still there: %v", err)
	}
}

// pusher pushes and acknowledges until it is told to stop, and knows what it was told.
type pusher struct {
	mu    sync.Mutex
	alive map[string]bool // answered: pushed and not yet being acknowledged
	gone  map[string]bool // answered: acknowledged
	count int
}

func (p *pusher) run(t *testing.T, e *engine.Engine, name string, stop <-chan struct{}) {
	t.Helper()
	c := e.NewCaller()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		body := fmt.Sprintf("%s-%d", name, i)
		r := c.Do(t.Context(), push(name, body))
		if r[0].Err != nil {
			t.Error(r[0].Err)
			return
		}
		id := r[0].ID
		p.mu.Lock()
		p.alive[body] = true
		p.count++
		p.mu.Unlock()
		if i%3 != 0 {
			continue
		}
		p.mu.Lock()
		delete(p.alive, body)
		p.mu.Unlock()
		if r := c.Do(t.Context(), &job.Ack{Ref: job.ByID("ns", name, id), Need: job.NeedAny}); r[0].Err != nil {
			t.Error(r[0].Err)
			return
		}
		p.mu.Lock()
		p.gone[body] = true
		p.mu.Unlock()
	}
}

// bodies returns what is ready in all queues.
func bodies(t *testing.T, s store.Reader) map[string]bool {
	t.Helper()
	q := engine.NewQuery(s)
	all := make(map[string]bool)
	infos, err := q.Queues("ns", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		page, err := q.List(engine.ListOptions{
			Namespace: "ns", Queue: info.Name, State: job.Ready,
			Limit: 1 << 30, Bodies: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			all[string(page.Jobs[i].Body)] = true
		}
	}
	return all
}

// A backup under load holds everything that was answered before it began, nothing that
// was asked for after it ended, and is sound; so is what is restored of it.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	e, _, closeAll := openDir(t, filepath.Join(base, "data"))
	p := &pusher{alive: map[string]bool{}, gone: map[string]bool{}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { p.run(t, e, fmt.Sprintf("q%d", i), stop) })
	}
	pushed := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.count
	}
	for before := pushed(); pushed() < before+300; { // the load is under way
		if _, err := e.Queues("ns", "", 1); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	alive, gone := maps.Clone(p.alive), maps.Clone(p.gone)
	p.mu.Unlock()
	backup := filepath.Join(base, "backup")
	if err := e.Backup(backup); err != nil {
		t.Fatal(err)
	}
	after := e.NewCaller().Do(t.Context(), push("q0", "after"))
	close(stop)
	wg.Wait()
	if after[0].Err != nil {
		t.Fatal(after[0].Err)
	}
	if err := e.Backup(backup); err == nil {
		t.Error("a backup was overwritten")
	}
	closeAll()

	restored := filepath.Join(base, "restored")
	if _, err := Restore(t.Context(), backup, restored, ignore); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), restored, ignore); err != nil {
		t.Fatal(err)
	}
	_, s, _ := openDir(t, restored)
	got := bodies(t, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	for body := range alive {
		if !got[body] && !p.acked(body) {
			t.Errorf("%s was pushed before the backup and is not in it", body)
		}
	}
	for body := range got {
		switch {
		case gone[body]:
			t.Errorf("%s was acknowledged before the backup and is in it", body)
		case body == "after":
			t.Error("what was pushed after the backup is in it")
		}
	}
	t.Logf("%d jobs in the backup, %d pushed before it", len(got), len(alive))
}

// acked reports whether a job may have been acknowledged while the backup ran.
func (p *pusher) acked(body string) bool { return !p.alive[body] }
