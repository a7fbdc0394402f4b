package pebblestore_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"millrace/internal/commitlog"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

func BenchmarkCommit(b *testing.B) {
	storetest.BenchmarkCommit(b, func(tb testing.TB) store.Store {
		tb.Helper()
		return open(tb, pebblestore.Options{Dir: tb.TempDir()})
	})
}

// load commits count keys with values of 100 bytes, which no compression shrinks.
func load(b *testing.B, s store.Store, prefix string, count int) {
	b.Helper()
	value := make([]byte, 100)
	var batch store.Batch
	for i := range count {
		x := uint64(i) * 0x9e3779b97f4a7c15
		for j := range value {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			value[j] = byte(x)
		}
		batch.Set(numbered(prefix, i), value)
		if batch.Len() == 1000 || i == count-1 {
			if err := store.CommitNow(s, &batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
}

func numbered(prefix string, i int) []byte {
	return binary.BigEndian.AppendUint64([]byte(prefix), uint64(i))
}

// BenchmarkGetAbsent looks for keys between those of a backlog larger than the cache.
func BenchmarkGetAbsent(b *testing.B) {
	s := open(b, pebblestore.Options{Dir: b.TempDir()})
	defer mustClose(b, s)
	const count = 1_000_000
	load(b, s, "key/", count)
	key := make([]byte, 0, 32)
	var dst []byte
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i = (i*1103515245 + 12345) & (1<<30 - 1)
		key = append(append(key[:0], numbered("key/", i%count)...), '!')
		var ok bool
		var err error
		if dst, ok, err = s.Get(dst[:0], key); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// BenchmarkScan500AfterTombstones reads the head of a list whose first 200,000 keys
// were deleted just now, from the start of the list and from where they end.
func BenchmarkScan500AfterTombstones(b *testing.B) {
	const deleted = 200_000
	s := open(b, pebblestore.Options{Dir: b.TempDir()})
	defer mustClose(b, s)
	load(b, s, "ready/", 2*deleted)
	var batch store.Batch
	for i := range deleted {
		batch.Delete(numbered("ready/", i))
		if batch.Len() == 500 {
			if err := store.CommitNow(s, &batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	for _, from := range []int{0, deleted} {
		b.Run(fmt.Sprintf("from=%d", from), func(b *testing.B) {
			for b.Loop() {
				visits := 0
				err := s.Scan(store.Range{Lo: numbered("ready/", from), Hi: []byte("ready0")}, func(_, _ []byte) bool {
					visits++
					return visits < 500
				})
				if err != nil || visits != 500 {
					b.Fatal(visits, err)
				}
			}
			b.ReportMetric(float64(s.Stats().Tombstones), "tombstones")
		})
	}
}

// BenchmarkFill pushes batches of 32 jobs that stay, each with a key of its client, which come in any order.
func BenchmarkFill(b *testing.B) {
	s := open(b, pebblestore.Options{Dir: b.TempDir(), Mode: commitlog.None})
	defer mustClose(b, s)
	body := make([]byte, 100)
	var batch store.Batch
	id := 0
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		for range 32 {
			id++
			x := uint64(id) * 0x9e3779b97f4a7c15
			binary.LittleEndian.PutUint64(body, x)
			batch.Insert(numbered("j\x00\x00\x00\x01", id), body)
			batch.Insert(numbered("l\x00\x00\x00\x01\x03\x80", id), nil)
			batch.Insert(binary.BigEndian.AppendUint64([]byte("kdefault\x00\x01job-"), x), body[:12])
		}
		batch.Set([]byte("qdefault"), body[:60])
		if err := store.CommitNow(s, &batch); err != nil {
			b.Fatal(err)
		}
	}
}
