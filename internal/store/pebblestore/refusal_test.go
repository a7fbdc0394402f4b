package pebblestore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// wantRefusal checks that Open fails with the error and that its text has the parts.
func wantRefusal(t *testing.T, o pebblestore.Options, want error, parts ...string) (text string) {
	t.Helper()
	s, err := pebblestore.Open(o)
	if err == nil {
		_ = s.Close()
		t.Fatalf("Open succeeds, want %v", want)
	}
	if !errors.Is(err, want) {
		t.Errorf("Open: %v\nwant %v", err, want)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Open: %v\ndoes not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("Open: %v\nis not one line", err)
	}
	t.Log(err)
	return err.Error()
}

// created returns a directory with a closed store in it.
func created(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, pebblestore.Options{Dir: dir})
	storetest.Commit(t, s, func(b *store.Batch) { b.Set([]byte("k"), []byte("v")) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

const lockHelperEnv = "PEBBLESTORE_TEST_LOCK_DIR"

// TestMain opens a store in a second process when TestRefusesLocked starts one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(lockHelperEnv); dir != "" {
		_, err := pebblestore.Open(pebblestore.Options{Dir: dir})
		_, _ = fmt.Fprintf(os.Stdout, "locked %t: %v\n", errors.Is(err, store.ErrLocked), err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRefusesLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, pebblestore.Options{Dir: dir})
	wantRefusal(t, pebblestore.Options{Dir: dir}, store.ErrLocked, dir, "stop that process")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), lockHelperEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "locked true") || !strings.Contains(string(out), dir) {
		t.Errorf("another process: %v: %s", err, out)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, pebblestore.Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRefusesNewerFormat(t *testing.T) {
	t.Parallel()
	dir := created(t)
	marker := filepath.Join(dir, "FORMAT")
	if err := os.WriteFile(marker, []byte("millrace data directory\nformat 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: dir}, store.ErrNewerFormat, dir, "format 5", "knows 4", "run the release")

	dir = created(t)
	markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	base := strings.TrimSuffix(markers[0], filepath.Ext(markers[0]))
	if err := os.Rename(markers[0], base+".999"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: dir}, store.ErrNewerFormat, dir, "999", "run the release")
}

func TestRefusesForeign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	photo := filepath.Join(dir, "photo.jpg")
	if err := os.WriteFile(photo, []byte("a cat"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: dir}, store.ErrForeign, dir, "photo.jpg", "empty directory")
	if p, err := os.ReadFile(photo); err != nil || string(p) != "a cat" {
		t.Errorf("the foreign file is now %q, %v", p, err)
	}

	dir = t.TempDir()
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: dir}, store.ErrForeign, dir, "MANIFEST")
	if err := os.WriteFile(filepath.Join(dir, "FORMAT.new"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: dir}, store.ErrForeign, dir)
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func TestAcceptsMountPoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(t, pebblestore.Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRefusesUnwritable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: file}, store.ErrUnwritable, file, "it is a file")
	below := filepath.Join(file, "data")
	wantRefusal(t, pebblestore.Options{Dir: below}, store.ErrUnwritable, below, "write access")

	for name, kind := range map[string]errorfs.OpKind{
		"mkdir": errorfs.OpMkdirAll, "lock": errorfs.OpLock, "list": errorfs.OpList, "create": errorfs.OpCreate,
		"write": errorfs.OpFileWrite, "sync": errorfs.OpFileSync, "rename": errorfs.OpRename,
	} {
		for _, errno := range []syscall.Errno{syscall.EROFS, syscall.ENOSPC, syscall.EACCES} {
			refuse := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == kind {
					return &fs.PathError{Op: name, Path: op.Path, Err: errno}
				}
				return nil
			})
			o := pebblestore.Options{Dir: memDir, FS: errorfs.Wrap(vfs.NewMem(), refuse)}
			want := "write access"
			if errno == syscall.ENOSPC {
				want = "free some space"
			}
			wantRefusal(t, o, store.ErrUnwritable, memDir, errno.Error(), want)
		}
	}
}

func TestRefusesNothingToRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	wantRefusal(t, pebblestore.Options{Dir: dir, ReadOnly: true}, fs.ErrNotExist, dir, "check the path")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadOnly created the directory: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, pebblestore.Options{Dir: dir, ReadOnly: true}, fs.ErrNotExist, dir, "check the path")
	if _, err := pebblestore.Open(pebblestore.Options{}); err == nil || !strings.Contains(err.Error(), "data.dir") {
		t.Errorf("Open without a directory: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{Dir: created(t), ReadOnly: true})
	if value, ok, err := s.Get(nil, []byte("k")); err != nil || !ok || string(value) != "v" {
		t.Errorf("Get = %q, %t, %v", value, ok, err)
	}
	var b store.Batch
	b.Set([]byte("k"), nil)
	if err := store.CommitNow(s, &b); err == nil {
		t.Error("Commit to a read-only store succeeds")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// damaged returns a crashed store of 400 batches, in tables, a log of many
// synced batches and a log, for a test to damage.
func damaged(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s := open(t, pebblestore.Options{Dir: memDir, FS: mem, MemTableBytes: memTableBytes})
	for n := 1; n <= 300; n++ {
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n) })
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// With room for all, what follows stays in the log. Nor is there a table that a compaction has begun to write.
	s = open(t, pebblestore.Options{Dir: memDir, FS: mem, NoCompactions: true})
	defer mustClose(t, s)
	for n := 301; n <= 400; n++ {
		storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, n) })
	}
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// find returns the last file whose name begins and ends like this.
func find(t *testing.T, mem *vfs.MemFS, prefix, suffix string) string {
	t.Helper()
	names, err := mem.List(memDir)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && name > found {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("no file %s*%s in %v", prefix, suffix, names)
	}
	return memDir + "/" + found
}

func TestRefusesDamage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prefix, suffix string
		damage               func(t *testing.T, mem *vfs.MemFS, path string)
		parts                []string
	}{
		{"marker torn", "FORMAT", "FORMAT", replaceWith("mill"), []string{memDir + "/FORMAT"}},
		{"marker empty", "FORMAT", "FORMAT", replaceWith(""), []string{memDir + "/FORMAT"}},
		{
			"marker without number", "FORMAT", "FORMAT", replaceWith("millrace data directory\nformat x\n"),
			[]string{memDir + "/FORMAT"},
		},
		{
			"marker with format 0", "FORMAT", "FORMAT", replaceWith("millrace data directory\nformat 0\n"),
			[]string{memDir + "/FORMAT"},
		},
		{"manifest gone", "MANIFEST-", "", remove, []string{"MANIFEST-"}},
		{"manifest marker gone", "marker.manifest", "", remove, nil},
		{"manifest empty", "MANIFEST-", "", replaceWith(""), []string{"MANIFEST-"}},
		{"table gone", "", ".sst", remove, []string{"0000"}},
		{"table cut", "", ".sst", replaceWith("short"), []string{".sst"}},
		{"log flipped", "log-", "", ofAll(flipFirstRecord), []string{"log-"}},
		{"log gone", "log-", "", ofAll(remove), []string{"no segment of the log"}},
		{"log empty", "log-", "", ofAll(replaceWith("")), []string{"no segment of the log"}},
		{"log cut", "log-", "", ofAll(cutBlock), []string{"log-", "but had"}},
		{"log of another", "log-", "", ofAll(otherLog), []string{"belongs to another log"}},
		{"options flipped", "OPTIONS-", "", replaceWith("[Version\nx"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mem := damaged(t)
			test.damage(t, mem, find(t, mem, test.prefix, test.suffix))
			o := pebblestore.Options{Dir: memDir, FS: mem}
			text := wantRefusal(t, o, store.ErrCorrupt, append(test.parts, memDir)...)
			for _, once := range []string{store.ErrCorrupt.Error(), "restore the directory from a backup"} {
				if n := strings.Count(text, once); n != 1 {
					t.Errorf("%s\ntells %d times: %s", text, n, once)
				}
			}
		})
	}
}

func remove(t *testing.T, mem *vfs.MemFS, path string) {
	t.Helper()
	if err := mem.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func replaceWith(text string) func(t *testing.T, mem *vfs.MemFS, path string) {
	return func(t *testing.T, mem *vfs.MemFS, path string) {
		t.Helper()
		writeFile(t, mem, path, []byte(text))
	}
}

func cutBlock(t *testing.T, mem *vfs.MemFS, path string) {
	t.Helper()
	p := readFile(t, mem, path)
	writeFile(t, mem, path, p[:min(len(p), 4<<10)]) // a segment that is being made is shorter
}

// flipFirstRecord damages the record at the beginning of a segment. Those behind it tell.
func flipFirstRecord(t *testing.T, mem *vfs.MemFS, path string) {
	t.Helper()
	if len(readFile(t, mem, path)) > 4<<10+100 { // a segment that is being made is shorter
		flip(t, mem, path, 4<<10+100)
	}
}

// otherLog has a segment name another log, with a checksum that fits.
func otherLog(t *testing.T, mem *vfs.MemFS, path string) {
	t.Helper()
	p := readFile(t, mem, path)
	if len(p) < 60 { // it is being made
		return
	}
	p[16]++
	binary.LittleEndian.PutUint32(p[56:], crc32.Checksum(p[:56], crc32.MakeTable(crc32.Castagnoli)))
	writeFile(t, mem, path, p)
}

// ofAll does something to every segment of the log.
func ofAll(damage func(t *testing.T, mem *vfs.MemFS, path string)) func(t *testing.T, mem *vfs.MemFS, path string) {
	return func(t *testing.T, mem *vfs.MemFS, _ string) {
		t.Helper()
		for name := range contentOf(t, mem) {
			if strings.HasPrefix(name, "log-") {
				damage(t, mem, memDir+"/"+name)
			}
		}
	}
}

func flip(t *testing.T, mem *vfs.MemFS, path string, at int) {
	t.Helper()
	p := readFile(t, mem, path)
	for i := at; i < at+16; i++ {
		p[i] ^= 0x55
	}
	writeFile(t, mem, path, p)
}

// TestDamagedTableStopsTheStore flips bits inside every table, which only a read
// can notice.
func TestDamagedTableStopsTheStore(t *testing.T) {
	t.Parallel()
	mem := damaged(t)
	names, err := mem.List(memDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			path := memDir + "/" + name
			p := readFile(t, mem, path)
			for i := range min(len(p)/4, 4000) {
				p[i] ^= 0x55
			}
			writeFile(t, mem, path, p)
		}
	}
	var mu sync.Mutex
	var fatal []error
	s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: mem, OnFatal: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		fatal = append(fatal, err)
	}})
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Open: %v, want ErrCorrupt", err)
		}
		return
	}
	err = s.Scan(store.Range{}, func(_, _ []byte) bool { return true })
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Scan: %v, want ErrCorrupt", err)
	}
	var b store.Batch
	b.Set([]byte("k"), nil)
	err = store.CommitNow(s, &b)
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), ".sst") {
		t.Errorf("Commit: %v, want ErrCorrupt and the table's name", err)
	}
	_ = s.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(fatal) != 1 || !errors.Is(fatal[0], store.ErrCorrupt) {
		t.Errorf("OnFatal: %v, want ErrCorrupt once", fatal)
	}
}

func TestCheckpointOutsideOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, pebblestore.Options{Dir: dir})
	defer mustClose(t, s)
	if err := s.Checkpoint(filepath.Join(dir, "copy")); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("Checkpoint into the data directory: %v", err)
	}
}

// TestFailedCheckpointIsHarmless fills the disk of the copy, not that of the data.
func TestFailedCheckpointIsHarmless(t *testing.T) {
	t.Parallel()
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, "/backup/") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite &&
			op.Kind != errorfs.OpMkdirAll {
			return syscall.ENOSPC
		}
		return nil
	})
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/backup", 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, pebblestore.Options{
		Dir: memDir, FS: errorfs.Wrap(mem, full),
		OnFatal: func(err error) { t.Errorf("OnFatal: %v", err) },
	})
	storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, 1) })
	if err := s.Checkpoint("/backup/copy"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Checkpoint: %v, want ENOSPC", err)
	}
	storetest.Commit(t, s, func(b *store.Batch) { historyBatch(b, 2) })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
