//go:build linux

package faults

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/offline"
	"millrace/internal/store"
	"millrace/internal/store/storetest"
	"millrace/test/tier"
)

// subject is a data directory that is to be spoilt, and what it held before.
type subject struct {
	name     string
	files    image
	contents map[string]string // by the store
	jobs     []string          // by queries, after an engine was opened on it

	needed []storetest.LogRecord // that are in the log alone
	rest   *subject              // the directory without the last of them
}

func newSubject(t *testing.T, name string, files image) *subject {
	t.Helper()
	s, err := readSubject(t, name, files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func readSubject(t *testing.T, name string, files image) (s *subject, err error) {
	t.Helper()
	s = &subject{name: name, files: files}
	if s.contents, err = contentsOf(files.mem(t), memDir); err != nil {
		return nil, err
	}
	s.jobs, err = served(files.mem(t))
	return s, err
}

// withoutLast returns the directory without the last record of its log. There is none if Pebble has flushed what that
// record holds, which happens at any moment: then its loss is damage, and is told.
func (s *subject) withoutLast(t *testing.T) *subject {
	t.Helper()
	rest, err := readSubject(t, s.name, s.files.cut(s.needed, len(s.needed)-1))
	if errors.Is(err, store.ErrCorrupt) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return rest
}

// without returns what a flip may leave besides the whole, if anything.
func (s *subject) without(f flip) *subject {
	if s.rest == nil {
		return nil
	}
	if last := s.needed[len(s.needed)-1]; f.name == last.Name() && f.at >= last.Begin && f.at < last.End {
		return s.rest
	}
	return nil
}

// subjects returns a directory that a server has left in order, and one as it was in the middle of its
// work, with something in the log alone that lies in several segments.
func subjects(t *testing.T) []*subject {
	t.Helper()
	fsys := &storetest.LogWatch{MemFS: vfs.NewCrashableMem()}
	n := open(t, fsys, memDir)
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	populate(t, n.Engine, rng, 30)
	n.mustClose(t)
	n = open(t, fsys, memDir)
	populate(t, n.Engine, rng, 15)
	running := newRunning(t, fsys, n, rng)
	n.mustClose(t)
	closed := newSubject(t, "closed", imageNow(t, fsys.MemFS))
	closed.needed = behind(fsys.Written(), running.needed[0])
	// Nothing vouches for the last record of a log that was closed in order, either.
	if n := len(closed.needed) - 1; !closed.needed[n].Ends {
		closed.rest = closed.withoutLast(t)
	}
	return []*subject{running, closed}
}

// newRunning returns a directory whose last records are in the log alone, in several segments, of which the last has
// more than one. Pebble may flush them by itself: then that is tried again.
func newRunning(t *testing.T, fsys *storetest.LogWatch, n *node, rng *rand.Rand) *subject {
	t.Helper()
	for range 20 {
		n.flush(t, fsys)
		tables := len(imageNow(t, fsys.MemFS).ofKind("table"))
		before := fsys.Written()
		from := before[len(before)-1]
		for range 20 {
			must(t, n.NewCaller(), push("q0", string(bytesOf(rng, 700+rng.IntN(700)))))
		}
		files, needed := imageNow(t, fsys.MemFS), behind(fsys.Written(), from)
		last := needed[len(needed)-1]
		if last.Ends || needed[len(needed)-2].Ends || len(segmentsOf(needed)) < 2 ||
			len(files.ofKind("table")) != tables {
			continue
		}
		s := newSubject(t, "running", files)
		s.needed = needed
		s.rest = s.withoutLast(t)
		if s.rest != nil && !slices.Equal(s.jobs, s.rest.jobs) {
			return s
		}
	}
	t.Fatal("Pebble never leaves enough in the log")
	return nil
}

// behind returns the records that were written after one of them.
func behind(records []storetest.LogRecord, from storetest.LogRecord) []storetest.LogRecord {
	at := slices.IndexFunc(records, func(r storetest.LogRecord) bool {
		return r.Path == from.Path && r.Begin == from.Begin
	})
	return records[at+1:]
}

// segmentsOf returns the names of the files that records lie in.
func segmentsOf(records []storetest.LogRecord) (names []string) {
	for _, r := range records {
		if !slices.Contains(names, r.Name()) {
			names = append(names, r.Name())
		}
	}
	return names
}

// cut returns the files as they were before the last records were written, from the n-th on.
func (img image) cut(records []storetest.LogRecord, n int) image {
	out := maps.Clone(img)
	first := records[n]
	for _, name := range segmentsOf(records[n:]) {
		if name != first.Name() {
			delete(out, name)
		}
	}
	p := bytes.Clone(img[first.Name()])
	clear(p[first.Begin:])
	out[first.Name()] = p
	return out
}

// served opens an engine on a directory and returns what there is to read.
func served(fsys vfs.FS) (jobs []string, err error) {
	n, err := openBroken(fsys, memDir)
	if err != nil {
		return nil, err
	}
	if err := n.Close(); err != nil {
		return nil, errors.Join(err, n.store.Close())
	}
	jobs, err = jobsOf(n.store)
	if closed := n.store.Close(); err == nil {
		err = closed
	}
	return jobs, err
}

// flip is one bit of a file, or of its name.
type flip struct {
	kind, name string
	at         int
	bit        byte
}

func (f flip) String() string { return fmt.Sprintf("%s, byte %d, bit %d", f.name, f.at, f.bit) }

// draw draws a bit. All kinds of files are equally likely, except for the log, and so are all bits of a kind. Most of a
// log is not needed any more. So half of its bits are drawn from the records that are, and some from the beginnings of
// segments.
func (s *subject) draw(rng *rand.Rand) flip {
	files := s.files
	kind := fileKinds[rng.IntN(len(fileKinds))].kind
	if rng.IntN(3) == 0 {
		kind = "log"
	}
	names := files.ofKind(kind)
	switch {
	case kind != "log":
	case rng.IntN(8) == 0:
		const header = 16 + 5*8 + 4
		return flip{kind, names[rng.IntN(len(names))], rng.IntN(header), byte(rng.IntN(8))}
	case rng.IntN(2) == 0:
		r := s.needed[rng.IntN(len(s.needed))]
		if rng.IntN(4) == 0 {
			r = s.needed[len(s.needed)-1]
		}
		return flip{kind, r.Name(), r.Begin + rng.IntN(r.End-r.Begin), byte(rng.IntN(8))}
	}
	total := 0
	size := func(name string) int {
		if kind == "marker" {
			return len(name)
		}
		return len(files[name])
	}
	for _, name := range names {
		total += size(name)
	}
	if total == 0 {
		return s.draw(rng)
	}
	at := rng.IntN(total)
	for _, name := range names {
		if at < size(name) {
			return flip{kind, name, at, byte(rng.IntN(8))}
		}
		at -= size(name)
	}
	panic("a bit beyond the last")
}

// apply returns the files with the bit flipped. A name that no file can have is none.
func (f flip) apply(files image) (image, bool) {
	out := maps.Clone(files)
	if f.kind != "marker" {
		p := bytes.Clone(files[f.name])
		p[f.at] ^= 1 << f.bit
		out[f.name] = p
		return out, true
	}
	name := []byte(f.name)
	name[f.at] ^= 1 << f.bit
	if bytes.ContainsAny(name, "/\x00") {
		return nil, false
	}
	delete(out, f.name)
	out[string(name)] = files[f.name]
	return out, true
}

// tally counts what became of the flips of a kind.
type tally struct{ flipped, told, unused, torn int }

// TestFlips flips one bit at a time. It must be told, by whoever opens the directory or reads what is in it, or make no
// difference at all. With one exception: the last record of the log cannot be told from what a loss of power leaves of
// one that was never acknowledged. Then everything before it is there.
func TestFlips(t *testing.T) {
	t.Parallel()
	count := cmp.Or(*flipsFlag, tier.Pick(360, 40))
	all := subjects(t)
	var mu sync.Mutex
	tallies := map[string]*tally{}
	for _, k := range fileKinds {
		tallies[k.kind] = &tally{}
	}
	t.Run("flips", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				dirs := []string{all[0].files.dir(t), all[1].files.dir(t)}
				for i := lane; i < count; i += lanes {
					rng := rand.New(rand.NewPCG(*seedFlag, uint64(i)+100))
					s, dir := all[i/lanes%2], dirs[i/lanes%2]
					f := s.draw(rng)
					damaged, possible := f.apply(s.files)
					if !possible {
						continue
					}
					told, torn := f.judge(t, s, damaged, dir)
					mu.Lock()
					tally := tallies[f.kind]
					tally.flipped++
					switch {
					case told:
						tally.told++
					case torn:
						tally.torn++
					default:
						tally.unused++
					}
					mu.Unlock()
				}
			})
		}
	})
	for _, k := range fileKinds {
		t.Logf("%s: %+v", k.kind, *tallies[k.kind])
	}
}

// judge flips the bit in a directory, looks at it in each way there is, and flips it back. It reports whether
// anybody has told of the damage, or taken it for what a crash leaves.
func (f flip) judge(t *testing.T, s *subject, damaged image, dir string) (told, torn bool) {
	t.Helper()
	f.write(t, s.files, damaged, dir)
	defer f.write(t, damaged, s.files, dir)

	_, checked := offline.Check(t.Context(), dir, func(offline.Phase, uint64, uint64) {})
	jobs, err := served(damaged.mem(t))
	switch {
	case checked != nil && !refusal(checked):
		t.Errorf("%s, %s: the check says %v", s.name, f, checked)
	case err != nil && !refusal(err):
		t.Errorf("%s, %s: the server says %v", s.name, f, err)
	case err != nil && checked == nil:
		t.Errorf("%s, %s: the check finds nothing, but the server says %v", s.name, f, err)
	}
	want := s
	if rest := s.without(f); rest != nil && checked == nil && !slices.Equal(jobs, s.jobs) {
		want, torn = rest, true
	}
	if err == nil && !slices.Equal(jobs, want.jobs) {
		t.Errorf("%s, %s: nobody is told, and the jobs are others: %s", s.name, f, difference(want.jobs, jobs))
	}
	if checked == nil {
		got, err := contentsOf(vfs.Default, dir)
		if err != nil || !maps.Equal(got, want.contents) {
			t.Errorf("%s, %s: the check finds nothing, but of %d records %d are there, or others: %v", s.name, f,
				len(want.contents), len(got), err)
		}
	}
	return checked != nil || err != nil, torn
}

// write makes the directory hold one image instead of another that differs in this flip.
func (f flip) write(t *testing.T, from, to image, dir string) {
	t.Helper()
	var err error
	for name := range from {
		if _, ok := to[name]; !ok {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	for name, p := range to {
		if old, ok := from[name]; !ok || !bytes.Equal(old, p) {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), p, 0o600))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// refusal reports whether an error tells an operator what is wrong with the data.
func refusal(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNewerFormat) || errors.Is(err, store.ErrForeign)
}

// difference tells how one list of jobs differs from another.
func difference(want, got []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d lines, want %d", len(got), len(want))
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			fmt.Fprintf(&b, "; line %d is %.120s, want %.120s", i, got[i], want[i])
			break
		}
	}
	return b.String()
}
