package pebblestore

import (
	"fmt"
	"path/filepath"
	"strings"

	"millrace/internal/commitlog/filelog"
)

// Checkpoint implements store.Store. Tables are linked where the file system can,
// so that a checkpoint on the same disk is quick and at first takes no space. The
// copy counts as a data directory only when its marker is written, which is last.
func (s *Store) Checkpoint(dir string) error {
	if err := s.checkpoint(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, err)
	}
	return nil
}

func (s *Store) checkpoint(dir string) error {
	if err := s.refusal(); err != nil {
		return err
	}
	if s.log == nil {
		return errReadOnly
	}
	if dir == s.dir || strings.HasPrefix(dir, s.dir+string(filepath.Separator)) {
		return fmt.Errorf("the copy must lie outside of the data directory %s", s.dir)
	}
	p, err := s.copyState(dir)
	if err == nil {
		err = s.refusal()
	}
	if err == nil {
		err = filelog.Create(filelog.Options{FS: s.fs, Dir: dir, ID: p.log, SegmentBytes: s.segmentBytes}, p.applied+1)
	}
	if err != nil {
		return err
	}
	return mark(s.fs, dir)
}

// copyState copies the database and returns its position. What is committed meanwhile stays in the log, and is not
// in the copy.
func (s *Store) copyState(dir string) (p position, err error) {
	// Most of it is flushed before, without holding up the moving.
	if err := s.moving(s.move); err != nil {
		return p, err
	}
	if err := s.flushTables(); err != nil {
		return p, err
	}
	err = s.moving(func() error {
		if err := s.move(); err != nil {
			return err
		}
		if err := s.flushTables(); err != nil {
			return err
		}
		p = s.gathered.position
		return s.db.Checkpoint(dir)
	})
	return p, err
}

// flushTables has Pebble flush its memtables.
func (s *Store) flushTables() error {
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-s.fuse.ended:
		return s.fuse.err()
	}
}
