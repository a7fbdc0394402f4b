package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
)

// Verified is what Verify has read.
type Verified struct {
	Tables     int
	TableBytes int64
}

// Verify reads the blocks of every table, those included that hold only what has been deleted since, and checks their
// checksums. Opening has read the log. It is meant for a store that was opened ReadOnly: otherwise a table may go while
// it is read. After each table it tells how many are done, and how many there are.
func (s *Store) Verify(ctx context.Context, progress func(done, total int)) (v Verified, err error) {
	if s.closed.Load() {
		return v, fmt.Errorf("verify: %w", store.ErrClosed)
	}
	names, err := s.tables()
	if err != nil {
		return v, fmt.Errorf("verify: %w", withCorrupt(err))
	}
	for _, name := range names {
		size, err := s.verifyTable(ctx, name)
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", s.fs.PathJoin(s.dir, name), err)
		}
		v.Tables++
		v.TableBytes += size
		progress(v.Tables, len(names))
		if err := ctx.Err(); err != nil {
			return v, fmt.Errorf("verify: %w", err)
		}
	}
	return v, nil
}

// tables returns the names of the files that hold tables, each once: several tables
// may be parts of one file.
func (s *Store) tables() ([]string, error) {
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, level := range levels {
		for i := range level {
			names = append(names, level[i].BackingSSTNum.String()+".sst")
		}
	}
	// Sorted, so that Compact finds those that are named twice.
	slices.Sort(names)
	return slices.Compact(names), nil
}

// verifyTable reads all blocks of one file and compares their checksums.
func (s *Store) verifyTable(ctx context.Context, name string) (size int64, err error) {
	// A damaged length can make the reader panic before a checksum is compared.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", store.ErrCorrupt, r)
		}
	}()
	f, err := s.fs.Open(s.fs.PathJoin(s.dir, name), vfs.SequentialReadsOption)
	if err != nil {
		return 0, withCorrupt(err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return 0, errors.Join(withCorrupt(err), readable.Close())
	}
	if err := r.ValidateBlockChecksums(); err != nil {
		return 0, errors.Join(withCorrupt(err), r.Close())
	}
	return info.Size(), r.Close()
}
