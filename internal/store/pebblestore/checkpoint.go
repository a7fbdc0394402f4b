package pebblestore

import (
	"fmt"
	"path/filepath"
	"strings"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/plant"
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

// Copy does as Checkpoint, for another node of the cluster: the copy has the state that Apply was
// given, and no log.
func (s *Store) Copy(dir string) error {
	_, err := s.copyState(filepath.Clean(dir))
	if err == nil {
		err = mark(s.fs, dir)
	}
	if err != nil {
		return fmt.Errorf("copy to %s: %w", dir, err)
	}
	return nil
}

// checkpoint copies the database and gives the copy an empty log that begins behind its position. A
// copy of the data of a node gets a log of its own.
func (s *Store) checkpoint(dir string) error {
	p, err := s.copyState(dir)
	if err == nil && p.log == logElsewhere {
		p, err = s.detach(dir, p)
	}
	if err == nil {
		err = filelog.Create(filelog.Options{FS: s.fs, Dir: dir, ID: p.log, SegmentBytes: s.segmentBytes}, p.applied+1)
	}
	if err != nil {
		return err
	}
	return mark(s.fs, dir)
}

// detach makes a copy of the data of a node one that a server of its own can open.
func (s *Store) detach(dir string, p position) (position, error) {
	p = position{applied: p.applied, safe: p.applied, log: filelog.NewID()}
	return p, setPosition(s.fs, dir, p, s.fuse)
}

// copyState copies the database and returns its position. What is committed meanwhile stays in the
// log, and is not in the copy. It flushes twice: first beside everything else, and then, with
// little left, between two moves, so that position and tables agree.
func (s *Store) copyState(dir string) (p position, err error) {
	if err := s.refusal(); err != nil {
		return p, err
	}
	if s.log == nil {
		return p, errReadOnly
	}
	// A copy within the data directory would be taken for a part of it.
	if dir == s.dir || strings.HasPrefix(dir, s.dir+string(filepath.Separator)) {
		return p, fmt.Errorf("the copy must lie outside of the data directory %s", s.dir)
	}
	// Most of it is flushed before, without holding up the moving.
	if err := s.betweenMoves(s.move); err != nil {
		return p, err
	}
	if err := s.flushTables(); err != nil {
		return p, err
	}
	err = s.betweenMoves(func() error {
		if err := s.move(); err != nil {
			return err
		}
		if err := plant.Or(s.flushTables, plant.CheckpointUnflushed, s.refusal)(); err != nil {
			return err
		}
		p = s.gathered.position
		return s.db.Checkpoint(dir)
	})
	if err == nil {
		err = s.refusal()
	}
	return p, err
}

// flushTables has Pebble flush its memtables, and waits for it unless Pebble has met an error.
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
