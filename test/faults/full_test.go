//go:build linux

package faults

import (
	"errors"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/pebblestore"
	"millrace/internal/testkit"
)

// quotaFS is a file system of a given size: a write that does not fit fails as it does on a full disk.
type quotaFS struct {
	vfs.FS

	mu    sync.Mutex // guards what follows
	size  int64
	files map[string]int64
	tight bool // there is no room for a backup
}

func newQuotaFS(size int64) *quotaFS {
	return &quotaFS{FS: vfs.NewCrashableMem(), size: size, files: map[string]int64{}}
}

// free returns what is left. A table that a backup shares counts once, like a link.
func (q *quotaFS) free() int64 {
	left := q.size
	for _, n := range q.files {
		left -= n
	}
	return left
}

// resize changes the size of the disk.
func (q *quotaFS) resize(size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size = size
}

// setTight says whether there is room for a backup.
func (q *quotaFS) setTight(tight bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tight = tight
}

// take takes space for a file that is to be so long.
func (q *quotaFS) take(name string, length int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	more := length - q.files[name]
	if more <= 0 {
		return nil
	}
	if more > q.free() || q.tight && strings.HasPrefix(name, backupDir) {
		return &vfsError{name}
	}
	q.files[name] += more
	return nil
}

type vfsError struct{ name string }

func (e *vfsError) Error() string { return e.name + ": " + syscall.ENOSPC.Error() }
func (e *vfsError) Unwrap() error { return syscall.ENOSPC }

func (q *quotaFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := q.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	delete(q.files, name)
	q.mu.Unlock()
	return &quotaFile{File: f, disk: q, name: name}, nil
}

func (q *quotaFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := q.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return &quotaFile{File: f, disk: q, name: name}, nil
}

func (q *quotaFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := q.FS.ReuseForWrite(oldname, newname, c)
	if err != nil {
		return nil, err
	}
	q.moved(oldname, newname)
	return &quotaFile{File: f, disk: q, name: newname}, nil
}

func (q *quotaFS) Rename(oldname, newname string) error {
	if err := q.FS.Rename(oldname, newname); err != nil {
		return err
	}
	q.moved(oldname, newname)
	return nil
}

func (q *quotaFS) moved(oldname, newname string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.files[newname] = q.files[oldname]
	delete(q.files, oldname)
}

func (q *quotaFS) Remove(name string) error {
	if err := q.FS.Remove(name); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.files, name)
	return nil
}

func (q *quotaFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := uint64(max(0, q.free()))
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: uint64(q.size), UsedBytes: uint64(q.size) - free}, nil
}

// quotaFile is a file that is written from its beginning to its end, or at places that are named.
type quotaFile struct {
	vfs.File
	disk *quotaFS
	name string
	at   int64
}

func (f *quotaFile) Write(p []byte) (int, error) {
	if err := f.disk.take(f.name, f.at+int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	return n, err
}

func (f *quotaFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.disk.take(f.name, at+int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

const (
	quotaBytes = 64 << 20
	floorBytes = 32 << 20
	largeBody  = 16 << 10
)

// TestDiskFull fills a disk with jobs: pushes are refused before it is full, acks and deletes are not, a backup that
// does not fit harms nothing, and when the jobs have gone pushes are taken again, without a restart.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := newQuotaFS(quotaBytes)
		s, err := pebblestore.Open(pebblestore.Options{
			Dir: memDir, FS: disk, MemTableBytes: 1 << 20,
			CacheBytes: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Open(engine.Options{Store: s, Seed: 1, FreeFloor: floorBytes})
		if err != nil {
			t.Fatal(err)
		}
		closeAll := sync.OnceValue(func() error { return errors.Join(e.Close(), s.Close()) })
		defer closeAll() //nolint:errcheck // it was told below, or something else was
		c := e.NewCaller()
		alive := map[job.ID]string{}
		for round := range 2 {
			testkit.Advance(t, 10*time.Second)
			if n := fill(t, c, disk, alive); n < 200 {
				t.Errorf("round %d: %d jobs fill the disk, where little more is left than those", round, n)
			}
			backupOnFull(t, e, disk)
			// What settles jobs works, whichever way.
			for range 100 {
				id := must(t, c, &job.Fetch{
					Namespace: namespace, Queues: []string{"q"}, Max: 1,
					DefaultLease: long,
				})[0].Jobs[0].ID
				must(t, c, &job.Ack{Ref: job.ByID(namespace, "q", id), Need: job.NeedLeased})
				delete(alive, id)
			}
			for id := range alive {
				if len(alive) == 50*(round+1) {
					break
				}
				must(t, c, &job.Delete{Ref: job.ByID(namespace, "q", id), Need: job.NeedAny})
				delete(alive, id)
			}
			awaitSpace(t, c, alive)
		}
		if err := closeAll(); err != nil {
			t.Fatal(err)
		}
		wantAlive(t, disk, alive)
	})
}

// fill pushes until the engine says that the disk is full.
func fill(t *testing.T, c *engine.Caller, disk *quotaFS, alive map[job.ID]string) (taken int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(*seedFlag, 5))
	for ; taken < 2*quotaBytes/largeBody; taken++ {
		body := string(bytesOf(rng, largeBody))
		r := c.Do(t.Context(), push("q", body))
		if err := r[0].Err; err != nil {
			if err.Kind != job.NoSpace {
				t.Fatalf("a push on a full disk is refused with %v", err)
			}
			usage, _ := disk.GetDiskUsage(memDir) // never fails
			if usage.AvailBytes < floorBytes/2 {
				t.Errorf("refused only with %d bytes free, want about %d", usage.AvailBytes, floorBytes)
			}
			return taken
		}
		alive[r[0].ID] = body
	}
	t.Fatal("no push was refused")
	return taken
}

const backupDir = "/srv/backup"

// backupOnFull makes a backup on the same disk, which has no room for it.
func backupOnFull(t *testing.T, e *engine.Engine, disk *quotaFS) {
	t.Helper()
	disk.setTight(true)
	if err := e.Backup(backupDir); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a backup on a full disk: %v", err)
	}
	disk.setTight(false)
	if _, err := contentsOf(disk, backupDir); err == nil {
		t.Error("half a backup opens as if it were a whole one")
	}
	if err := e.Err(); err != nil {
		t.Fatalf("a backup that did not fit stops the engine: %v", err)
	}
	names, err := disk.List(backupDir)
	for _, name := range names {
		err = errors.Join(err, disk.Remove(path.Join(backupDir, name)))
	}
	if err := errors.Join(err, disk.Remove(backupDir)); err != nil && !strings.Contains(err.Error(), "not exist") {
		t.Fatal(err)
	}
}

// awaitSpace pushes until that is taken again.
func awaitSpace(t *testing.T, c *engine.Caller, alive map[job.ID]string) {
	t.Helper()
	for range 600 {
		r := c.Do(t.Context(), push("q", "small"))
		switch err := r[0].Err; {
		case err == nil:
			alive[r[0].ID] = "small"
			return
		case err.Kind != job.NoSpace:
			t.Fatalf("a push on a full disk is refused with %v", err)
		}
		testkit.Advance(t, 100*time.Millisecond)
	}
	t.Fatal("a minute after nearly everything was deleted there is no space yet")
}

// wantAlive checks that a directory holds exactly these jobs.
func wantAlive(t *testing.T, fsys vfs.FS, alive map[job.ID]string) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: fsys, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.CheckInvariants(s, job.TimeOf(time.Now()), nil); err != nil {
		t.Error(err)
	}
	page, err := engine.NewQuery(s).List(engine.ListOptions{
		Namespace: namespace, Queue: "q", State: job.Ready,
		Limit: 1 << 30, Bodies: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Jobs {
		if j := &page.Jobs[i]; alive[j.ID] != string(j.Body) {
			t.Errorf("job %d is there and should not be, or has another body", j.ID)
		}
	}
	if len(page.Jobs) != len(alive) {
		t.Errorf("%d jobs, want %d", len(page.Jobs), len(alive))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestReserveUsedUp takes away the space that is kept for acks, too: then the engine stops, and says why. With space
// again everything that was acknowledged is there.
func TestReserveUsedUp(t *testing.T) {
	t.Parallel()
	disk := newQuotaFS(quotaBytes)
	l := newLedger()
	n, err := openBroken(disk, memDir)
	if err != nil {
		t.Fatal(err)
	}
	load(t.Context(), n.Engine, l, "before", 4, 100)
	disk.mu.Lock()
	disk.size -= disk.free() - 100<<10
	disk.mu.Unlock()
	load(t.Context(), n.Engine, l, "full", 4, 5000)
	if err := n.Err(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the engine has ended with %v", err)
	}
	if l.late > 0 {
		t.Errorf("%d commands were acknowledged that came after the failure", l.late)
	}
	if err := n.close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("closed with %v", err)
	}
	disk.resize(quotaBytes)
	facts := l.now()
	if jobs, _, err := judge(t, disk, memDir, facts, facts); err != nil || jobs == 0 {
		t.Errorf("%d jobs: %v", jobs, err)
	}
}
