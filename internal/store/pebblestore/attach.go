package pebblestore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog/filelog"
)

// Attach makes the data of a server of its own that of a node of a cluster, where it is: from then
// on Apply changes it, and its log is elsewhere. The last record that it has gets a number above
// all that there were, and a state. The order lets it be interrupted: everything that the log has
// is put into the database, then the position is changed, then the log goes. Calling it again
// finishes it.
func Attach(dir string, state []byte) error {
	dir = filepath.Clean(dir)
	p, err := positionOf(dir)
	if err != nil {
		return err
	}
	// Otherwise it was interrupted after the position was set, and only the log is left to be
	// removed.
	if p.log != logElsewhere {
		if p, err = settleDir(dir); err != nil {
			return err
		}
		p = position{applied: p.applied + 1, safe: p.applied + 1, state: state}
		if err := setPosition(vfs.Default, dir, p, nil); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return filelog.Remove(vfs.Default, dir)
}

// Detach is the way back: the data becomes that of a server of its own. The log is made before the
// position names it. What was interrupted is finished by calling it again.
func Detach(dir string) error {
	dir = filepath.Clean(dir)
	p, err := positionOf(dir)
	if err != nil || p.log != logElsewhere {
		return err
	}
	if err := filelog.Remove(vfs.Default, dir); err != nil {
		return err
	}
	p = position{applied: p.applied, safe: p.applied, log: filelog.NewID()}
	if err := filelog.Create(filelog.Options{FS: vfs.Default, Dir: dir, ID: p.log}, p.applied+1); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := setPosition(vfs.Default, dir, p, nil); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// SetState changes the state of the data of a node, and the number of the last record that it has.
func SetState(dir string, applied uint64, state []byte) error {
	p := position{applied: applied, safe: applied, state: state}
	if err := setPosition(vfs.Default, filepath.Clean(dir), p, nil); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// positionOf returns the position of a directory that no server has open.
func positionOf(dir string) (position, error) {
	s, err := Open(Options{Dir: dir, ReadOnly: true})
	if err != nil {
		return position{}, err
	}
	return s.gathered.position, s.Close()
}

// settleDir puts everything that the log of a server of its own has into its database, and returns
// the position.
func settleDir(dir string) (p position, err error) {
	s, err := Open(Options{Dir: dir})
	if err != nil {
		return p, err
	}
	err = s.Settle()
	p = s.gathered.position
	return p, errors.Join(err, s.Close())
}

// setPosition changes the position of a database that nobody has open, and flushes it. The fuse is
// of who copied it; nil: none.
func setPosition(fsys vfs.FS, dir string, p position, f *fuse) error {
	if f == nil {
		f = newFuse(func(error) {}, func(err error) error { return err })
	}
	po := pebbleOptions(Options{FS: fsys, CacheBytes: 1 << 20, MemTableBytes: 1 << 20, NoCompactions: true})
	po.FS, po.Logger = fsys, logger{log: slog.New(slog.DiscardHandler), fuse: f}
	db, err := pebble.Open(dir, po)
	if err != nil {
		return err
	}
	b := db.NewBatch()
	err = p.setIn(b)
	if err == nil {
		err = b.Commit(pebble.NoSync)
	}
	if err == nil {
		err = db.Flush()
	}
	return errors.Join(err, b.Close(), db.Close())
}
