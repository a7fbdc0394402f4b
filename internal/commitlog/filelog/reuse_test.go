package filelog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
)

// forged returns what a client may send: bytes that would be a record if the salt was right.
func forged(rng *rand.Rand, number, salt uint64) []byte {
	p := make([]byte, recordSize(8))
	record{number: number, kind: uint32(rng.IntN(2)), content: []byte("evil one")}.put(p, salt)
	return p
}

// TestForgedRecords appends contents that are full of forged records, as a client may who has got to know all salts but
// the one in use. They lie behind the records of a segment that is used again: none is read, none is taken for damage.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	o := options(mem, commitlog.Fsync)
	o.SegmentBytes = 4 * blockSize
	create(t, o)
	l, err := Open(o, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng, know := rand.New(rand.NewPCG(6, 6)), knowledge{contents: map[uint64][]byte{}}
	salts, current := []uint64{0}, l.current
	reused, names := 0, map[string]bool{}
	for range 400 {
		know.newest++
		// A record takes one block or two, so that each ends with a block: there what was written earlier begins.
		content := make([]byte, (1+rng.IntN(2))*blockSize-recordHeader)
		for at := range content {
			if (at+recordHeader)%32 == 0 && at+32 <= len(content) {
				copy(content[at:], forged(rng, know.newest+rng.Uint64N(12),
					salts[len(salts)-1-rng.IntN(min(len(salts), 5))]))
			}
		}
		know.contents[know.newest] = content
		if err := logtest.Append(l, know.newest, content); err != nil {
			t.Fatal(err)
		}
		know.trimmed = know.newest - min(know.newest, 3)
		if err := l.Trim(know.trimmed); err != nil {
			t.Fatal(err)
		}
		if got := know.read(t, mem, know.trimmed+1, know.newest); got != complete {
			t.Fatalf("after %d records: %v", know.newest, got)
		}
		if l.current != current {
			salts, current = append(salts, current.salt), l.current
			if names[current.name] {
				reused++
			}
			names[current.name] = true
		}
	}
	if reused < 50 {
		t.Errorf("only %d segments were used again", reused)
	}
	// With the right salt it is one.
	evil := make([]byte, recordSize(8))
	record{number: know.newest + 1, content: []byte("evil one")}.put(evil, current.salt)
	at := l.at
	mustClose(t, l)
	copy(fileData(t, mem, current.name)[at:], evil)
	know.newest++
	know.contents[know.newest] = []byte("evil one")
	if got := know.read(t, mem, know.trimmed+1, know.newest); at+recordHeader < current.size && got != complete {
		t.Errorf("a record that knows the salt is none: %v", got)
	}
}

// TestSegmentsAreUsedAgain leaves a segment a thousand times: there are never more than a few.
func TestSegmentsAreUsedAgain(t *testing.T) {
	t.Parallel()
	for _, mode := range logtest.Modes {
		mem := vfs.NewMem()
		o := options(mem, mode.Mode)
		create(t, o)
		content := bytes.Repeat([]byte("x"), blockSize-2*recordHeader) // which fills a segment
		rolls, begun := 0, map[string]bool{}
		var l *Log
		var current *segment
		for n := uint64(1); n <= 1001; n++ {
			if n%250 == 1 {
				if l != nil {
					mustClose(t, l)
				}
				var err error
				if l, err = Open(o, n, 0, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := logtest.Append(l, n, content); err != nil {
				t.Fatal(err)
			}
			if l.current != current {
				rolls++
				current = l.current
				begun[current.name] = true
			}
			if err := l.Trim(n - min(n, 2)); err != nil {
				t.Fatal(err)
			}
		}
		names, err := mem.List(memDir)
		if err != nil {
			t.Fatal(err)
		}
		if rolls < 1000 || len(names) > 10 || len(begun) > 30 {
			t.Errorf("%s: %d segments were begun in %d files, of which %v are left", mode.Name, rolls,
				len(begun), names)
		}
		if st := l.Stats(); st.Bytes > 10*logtest.SegmentBytes || st.Untrimmed > 3*logtest.SegmentBytes {
			t.Errorf("%s: %d bytes, %d of them not trimmed, in %d files", mode.Name, st.Bytes, st.Untrimmed, len(names))
		}
		mustClose(t, l)
	}
}

// TestReadWhileUsedAgain trims a log while it is read, and has all its segments used again: what they hold now is not
// what is read.
func TestReadWhileUsedAgain(t *testing.T) {
	t.Parallel()
	o := options(vfs.NewMem(), commitlog.None)
	create(t, o)
	know, rng := knowledge{contents: map[uint64][]byte{}}, rand.New(rand.NewPCG(1, 1))
	l, err := know.open(o, rng)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, l)
	fill := func() {
		for range 50 {
			if err := know.append(l, 0); err != nil {
				t.Error(err)
			}
		}
	}
	fill()
	read := uint64(0)
	err = l.Read(1, func(number uint64, content []byte) error {
		if read++; number != read || !bytes.Equal(content, know.contents[number]) {
			t.Errorf("record %d is read as %.30q behind %d others", number, content, read-1)
		}
		if number == 1 {
			for range 3 {
				if err := l.Trim(know.newest); err != nil {
					t.Error(err)
				}
				fill()
			}
		}
		return nil
	})
	if !errors.Is(err, commitlog.ErrTrimmed) || read == 0 || read >= 50 {
		t.Errorf("%d records are read while all were trimmed: %v", read, err)
	}
}

// TestFreeSegmentsAreRemoved trims more than is kept to be used again. The files are empty, because nobody looks.
func TestFreeSegmentsAreRemoved(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	o := options(mem, commitlog.None)
	o.SegmentBytes = keptBytes / 4
	if err := mem.MkdirAll(memDir, 0o700); err != nil {
		t.Fatal(err)
	}
	l := &Log{o: o}
	for n := uint64(1); n <= 9; n++ {
		s := &segment{name: fmt.Sprint(namePrefix, n), size: o.SegmentBytes, first: n}
		if n == 2 {
			s.size *= 2 // of one large record
		}
		writeFile(t, mem, s.name, nil)
		l.used = append(l.used, s)
	}
	if err := l.Trim(8); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List(memDir)
	slices.Sort(names)
	if want := []string{"log-1", "log-3", "log-4", "log-5", "log-9"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v are left, want %v: %v", names, want, err)
	}
	if st := l.Stats(); st.Untrimmed != keptBytes/4 || st.Bytes != keptBytes/4+keptBytes {
		t.Errorf("%d bytes, %d of them not trimmed", st.Bytes, st.Untrimmed)
	}
}
