package filelog

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
	"millrace/internal/testkit"
)

// repair makes the checksums of a segment right, so that the fuzzer gets past them.
func repair(p []byte) {
	const sum = len(magic) + 5*8
	if len(p) < blockSize {
		return
	}
	copy(p, magic)
	binary.LittleEndian.PutUint64(p[len(magic):], testID)
	binary.LittleEndian.PutUint32(p[sum:], crc32.Checksum(p[:sum], castagnoli))
	for p = p[blockSize:]; len(p) >= recordHeader; {
		size := int64(binary.LittleEndian.Uint32(p[4:]))
		if size > int64(len(p)-recordHeader) {
			return
		}
		binary.LittleEndian.PutUint32(p, crc32.Checksum(p[4:recordHeader+size], castagnoli))
		p = p[min(recordSize(int(size)), int64(len(p))):]
	}
}

// FuzzOpen opens a log of two files with anything in them: no panic, no memory beyond the input's. If it can be opened,
// it is a log like any other.
func FuzzOpen(f *testing.F) {
	mem := vfs.NewMem()
	o := options(mem, commitlog.Fsync)
	create(f, o)
	l, err := Open(o, 1, 0, nil)
	if err != nil {
		f.Fatal(err)
	}
	for n := uint64(1); n <= 8; n++ {
		if err := logtest.Append(l, n, make([]byte, 500)); err != nil {
			f.Fatal(err)
		}
	}
	mustClose(f, l)
	used, _, err := list(mem, memDir)
	if err != nil || len(used) != 2 {
		f.Fatalf("%d segments: %v", len(used), err)
	}
	var seeds [2][]byte
	for i, s := range used {
		if seeds[i], err = read(mem, memDir+"/"+s.name, s.size); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(seeds[0], seeds[1], false, byte(1))
	f.Add(seeds[0], seeds[1], true, byte(5))
	f.Add(seeds[1], seeds[0], true, byte(8))
	f.Add(seeds[0], seeds[0], true, byte(3))
	f.Add(seeds[0], []byte{}, true, byte(1))
	f.Add(seeds[1][:blockSize+100], seeds[0], false, byte(20))
	for _, size := range []uint64{
		0, 100, blockSize, blockSize + 1, 2*blockSize + 4, 1 << 40, 1 << 62,
		1 << 63, 1<<64 - 1,
	} {
		p := slices.Clone(seeds[0])
		binary.LittleEndian.PutUint64(p[len(magic)+4*8:], size)
		f.Add(p, seeds[1], true, byte(1))
		f.Add(p[:min(size, blockSize+100)], seeds[1], true, byte(1))
	}
	odd := slices.Clone(seeds[0])
	binary.LittleEndian.PutUint32(odd[blockSize+4:], blockSize-recordHeader-3) // a record that ends with the segment
	f.Add(odd, seeds[1], true, byte(1))
	f.Fuzz(func(t *testing.T, a, b []byte, repaired bool, from8 byte) {
		from := max(uint64(from8), 1)
		if len(a) > 1<<20 || len(b) > 1<<20 {
			return
		}
		mem := vfs.NewMem()
		if err := mem.MkdirAll(memDir, 0o700); err != nil {
			t.Fatal(err)
		}
		a, b = slices.Clone(a), slices.Clone(b)
		if repaired {
			repair(a)
			repair(b)
		}
		writeFile(t, mem, "log-1", a)
		writeFile(t, mem, "log-2", b)
		know := knowledge{contents: map[uint64][]byte{}}
		learn := func(number uint64, content []byte) error {
			if number != from+uint64(len(know.contents)) {
				t.Errorf("record %d is read behind %d others, from %d on", number, len(know.contents), from)
			}
			know.contents[number] = slices.Clone(content)
			return nil
		}
		var l *Log
		testkit.Bounded(t, 2*(len(a)+len(b)), func() { // what is read is copied to be compared
			var err error
			if l, err = Open(options(mem, commitlog.Fsync), from, 0, learn); err != nil {
				l = nil
			}
		})
		if l == nil {
			return
		}
		know.newest = from - 1 + uint64(len(know.contents))
		for range 3 {
			if err := know.append(l, 1); err != nil {
				t.Error(err)
			}
		}
		var last uint64
		if err := l.Read(from, know.visit(&last, from)); err != nil || last != know.newest {
			t.Errorf("from %d: %d of %d records are read: %v", from, last, know.newest, err)
		}
		mustClose(t, l)
		if got := know.read(t, mem, from, know.newest); got != complete {
			t.Errorf("from %d: of %d records: %v", from, know.newest, got)
		}
	})
}
