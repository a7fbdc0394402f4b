package pebblestore

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
	"millrace/internal/testkit"
)

// FuzzJournal reads files of a journal with anything in them: no panic, no memory beyond the input's, and what is read is
// a run of records that a journal has written.
func FuzzJournal(f *testing.F) {
	const secret = 0x1234567890abcdef
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("d", 0o700); err != nil {
		f.Fatal(err)
	}
	j, err := openJournal(fsys, "d", journalState{secret: secret, next: 5}, 4096)
	if err != nil {
		f.Fatal(err)
	}
	var b store.Batch
	for _, text := range []string{"", "body", string(bytes.Repeat([]byte("x"), 700))} {
		b.Insert([]byte("key"), []byte(text))
		if err := j.append(&b); err != nil {
			f.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		f.Fatal(err)
	}
	whole, err := readFile(fsys, "d/journal-0", 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	if r := runOf(whole, secret); r.first != 5 || r.last != 7 {
		f.Fatalf("records %d to %d", r.first, r.last)
	}
	f.Add(whole)
	f.Add(whole[:1000])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Bounded(t, len(data), func() {
			r := runOf(bytes.Clone(data), secret)
			batches, err := r.from(r.first)
			if err == nil && r.first != 0 && uint64(len(batches)) != r.last-r.first+1 {
				t.Errorf("%d batches of records %d to %d", len(batches), r.first, r.last)
			}
			before := bytes.Clone(r.data)
			_ = r.verify(r.last + 1)
			if !bytes.Equal(before, r.data) {
				t.Error("verifying changes what is read")
			}
		})
	})
}
