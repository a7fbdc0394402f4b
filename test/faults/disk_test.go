//go:build linux

package faults

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/engine"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
)

// memDir is where the data lies on a file system in memory.
const memDir = "/srv/data"

// memTableBytes is small, so that little data makes tables and many edits of the manifest.
const memTableBytes = 64 << 10

// segmentBytes is small, so that the log has many segments and uses them again.
const segmentBytes = 16 << 10

// node is an engine on a store. Its own Close is that of the engine alone.
type node struct {
	*engine.Engine
	store *pebblestore.Store
}

// openNode opens a data directory as a server does.
func openNode(fsys vfs.FS, dir string) (*node, error) {
	return openWith(pebblestore.Options{Dir: dir, FS: fsys})
}

// openBroken does it where tables cannot be read: there a compaction would end the process.
func openBroken(fsys vfs.FS, dir string) (*node, error) {
	return openWith(pebblestore.Options{Dir: dir, FS: fsys, NoCompactions: true})
}

func openWith(o pebblestore.Options) (*node, error) {
	o.MemTableBytes, o.CacheBytes, o.SegmentBytes = memTableBytes, 1<<20, segmentBytes
	s, err := pebblestore.Open(o)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(engine.Options{Store: s, Seed: 1})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &node{e, s}, nil
}

// close ends the engine, and the store with it.
func (n *node) close() error { return errors.Join(n.Close(), n.store.Close()) }

// open is openNode for what must open, until the test ends.
func open(t *testing.T, fsys vfs.FS, dir string) *node {
	t.Helper()
	n, err := openNode(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) mustClose(t *testing.T) {
	t.Helper()
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
}

// flush has everything put into tables, so that what follows is in the log alone. A checkpoint does that.
func (n *node) flush(t *testing.T, fsys vfs.FS) {
	t.Helper()
	const dir = "/srv/flushed"
	if err := errors.Join(n.store.Checkpoint(dir), fsys.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
}

// image is the files of a data directory by their names.
type image map[string][]byte

// lockFile is of no content.
const lockFile = "LOCK"

// imageOf reads a directory.
func imageOf(t *testing.T, fsys vfs.FS, dir string) image {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	img := image{}
	for _, name := range names {
		if name != lockFile {
			img[name] = readFile(t, fsys, fsys.PathJoin(dir, name))
		}
	}
	return img
}

// imageNow reads a directory that is in use, as of one moment.
func imageNow(t *testing.T, fsys *vfs.MemFS) image {
	t.Helper()
	all := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}
	return imageOf(t, fsys.CrashClone(all), memDir)
}

func readFile(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

// mem returns a file system in memory with the files in memDir.
func (img image) mem(t *testing.T) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewMem()
	err := fsys.MkdirAll(memDir, 0o700)
	for _, name := range img.names() {
		if err != nil {
			t.Fatal(err)
		}
		var f vfs.File
		if f, err = fsys.Create(fsys.PathJoin(memDir, name), vfs.WriteCategoryUnspecified); err == nil {
			_, err = f.Write(slices.Clone(img[name])) // the file system would spoil it
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

// dir writes the files to a directory of the disk.
func (img image) dir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	err := os.Mkdir(dir, 0o700)
	for name, p := range img {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), p, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (img image) names() []string { return slices.Sorted(maps.Keys(img)) }

// with returns the files with another content of one of them.
func (img image) with(name string, p []byte) image {
	out := maps.Clone(img)
	out[name] = p
	return out
}

// fileKinds are what a data directory consists of, by how a name begins or ends. Markers have
// no content: what they say is in their names.
var fileKinds = []struct{ kind, prefix, suffix string }{
	{"log", "log-", ""},
	{"log of Pebble", "", ".log"}, // with nothing but a mark of its end
	{"table", "", ".sst"},
	{"manifest", "MANIFEST-", ""},
	{"options", "OPTIONS-", ""},
	{"marker", "marker.", ""},
	{"format", "FORMAT", ""},
}

// ofKind returns the names of the files of a kind, in order.
func (img image) ofKind(kind string) (names []string) {
	for _, k := range fileKinds {
		for _, name := range img.names() {
			if k.kind == kind && strings.HasPrefix(name, k.prefix) && strings.HasSuffix(name, k.suffix) {
				names = append(names, name)
			}
		}
	}
	return names
}

// contents is everything that a store holds.
func contents(r store.Reader) (map[string]string, error) {
	all := map[string]string{}
	err := r.Scan(store.Range{}, func(key, value []byte) bool {
		all[string(key)] = string(value)
		return true
	})
	return all, err
}

// contentsOf opens a directory for reading and returns what is in it.
func contentsOf(fsys vfs.FS, dir string) (map[string]string, error) {
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir, FS: fsys, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	all, err := contents(s)
	return all, errors.Join(err, s.Close())
}
