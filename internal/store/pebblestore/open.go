package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	crdberrors "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/filelog"
	"millrace/internal/plant"
	"millrace/internal/store"
)

// Open opens the data directory and creates it if need be. Its errors are those of package store,
// each with the path and a way out. The directory is locked before anything in it is read: another
// server may be writing.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("open store: no data directory given: set data.dir")
	}
	o.Dir = filepath.Clean(o.Dir)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.MemTableBytes <= 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	lock, unlocked, err := lockDir(o)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s, err := openLocked(o, lock)
	if err != nil {
		if unlocked != nil {
			err = fmt.Errorf("%w; %w", err, unlocked)
		}
		return nil, errors.Join(fmt.Errorf("open store: %w", err), lock.Close())
	}
	s.unlocked = unlocked
	return s, nil
}

// lockDir makes sure that the directory exists, is one, and is ours alone. Unlocked tells why that could not be made
// sure of in a directory that is only read.
func lockDir(o Options) (lock io.Closer, unlocked, err error) {
	info, err := o.FS.Stat(o.Dir)
	switch {
	case err == nil && !info.IsDir():
		return nil, nil, fmt.Errorf("%s: %w: it is a file: name a directory, or move the file away",
			o.Dir, store.ErrUnwritable)
	// A reader must not create what it was told to look at.
	case errors.Is(err, fs.ErrNotExist) && o.ReadOnly:
		return nil, nil, fmt.Errorf("%s: %w: there is nothing to read: check the path", o.Dir, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, nil, unwritable(o.Dir, err)
	}
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, nil, unwritable(o.Dir, err)
	}
	name := o.FS.PathJoin(o.Dir, lockFile)
	lock, err = o.FS.Lock(name)
	// A copy on a disk that is mounted for reading, or that belongs to another user, can be checked
	// as well.
	if err != nil && !isHeld(err) && o.ReadOnly && cannotWrite(err) {
		lock, unlocked, err = lockToRead(o.FS, name, err)
	}
	switch {
	case err == nil:
		return lock, unlocked, nil
	case isHeld(err):
		advice := "give this one a directory of its own"
		if o.ReadOnly {
			advice = `use a backup, which "millrace backup" makes of a running server`
		}
		return nil, nil, fmt.Errorf("%s: %w: stop that process, or %s", o.Dir, store.ErrLocked, advice)
	default:
		return nil, nil, unwritable(o.Dir, err)
	}
}

// makeDir creates the directory and makes its entry durable.
func makeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil
	}
	parent := fsys.PathDir(dir)
	// Each new directory has to be durable in its parent, or a crash takes the whole path.
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return filelog.SyncDir(fsys, parent)
}

// unwritable returns an error that was met where the directory is first looked at or written to.
func unwritable(dir string, err error) error {
	return fmt.Errorf("%s: %w: %s", dir, &systemError{store.ErrUnwritable, err}, advice(err))
}

// systemError is an error of the operating system, and of which kind it is for those who use the store.
type systemError struct{ kind, cause error }

// Error says that the disk is full where the system's own words do not.
func (e *systemError) Error() string {
	if isFull(e.cause) && !strings.Contains(e.cause.Error(), "the disk is full") {
		return fmt.Sprintf("%v: the disk is full: %v", e.kind, e.cause)
	}
	return fmt.Sprintf("%v: %v", e.kind, e.cause)
}

func (e *systemError) Unwrap() []error { return []error{e.kind, e.cause} }

// isFull reports whether an error tells of a disk, or of a share of one, that has no space left.
func isFull(err error) bool {
	return vfs.IsNoSpaceError(err) || isErrno(err, syscall.ENOSPC, syscall.EDQUOT)
}

// isErrno reports whether an error is one of some errors of the system.
func isErrno(err error, of ...syscall.Errno) bool {
	return slices.ContainsFunc(of, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// advice returns what to do about an error of the operating system.
func advice(err error) string {
	switch {
	case isFull(err):
		return "the data is as it was: " +
			"free some space on that disk, or move the directory to a larger one, and start again"
	case isErrno(err, syscall.EMFILE, syscall.ENFILE):
		return "the data is as it was: raise the limit of open files, and start again"
	case isErrno(err, syscall.EACCES, syscall.EPERM):
		return "give this user write access"
	case isErrno(err, syscall.EROFS):
		return "mount that disk for writing, and give this user write access"
	case isErrno(err, syscall.ENOTDIR):
		return "a part of the path is a file: name a directory with write access"
	default:
		return "check the disk and the path"
	}
}

// openLocked opens a directory that is locked. The fuse is armed last: what goes wrong before is
// the error of Open, and does not end the process.
func openLocked(o Options, lock io.Closer) (*Store, error) {
	fresh, format, err := readMarker(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	if fresh {
		if o.ReadOnly {
			return nil, fmt.Errorf("%s: %w: there is no store in it: check the path", o.Dir, fs.ErrNotExist)
		}
		if err := prepareDir(o.FS, o.Dir); err != nil {
			return nil, unwritable(o.Dir, err)
		}
	}
	// The fuse calls back into the store that is made after it, but not before it is armed.
	var s *Store
	f := newFuse(func(err error) {
		go s.gathered.giveUp()
		if o.OnFatal != nil {
			o.OnFatal(err)
		}
	}, func(err error) error { return s.watcher.explain(err) })
	s = &Store{
		dir: o.Dir, fs: o.FS, lock: lock, fuse: f, segmentBytes: o.SegmentBytes,
		files:  &fileSet{identities: vfs.Root(o.FS) == vfs.Default},
		sinker: &sinker{work: make(chan struct{}, 1)}, reclaimer: reclaimer{asked: make(chan bool, 1)},
	}
	s.events = &events{fuse: f, sinker: s.sinker}
	s.guard = &guardFS{FS: o.FS, guard: guard{fuse: f}, dir: o.Dir, files: s.files}
	if s.db, err = s.openDB(o, fresh); err != nil {
		return nil, classify(o.Dir, f.cause(err))
	}
	s.reader = reader{source: s.db, closed: &s.closed, fuse: f}
	if err = s.start(o, fresh, format); err == nil {
		err = f.arm()
	}
	if err != nil {
		// Closing a half-opened database may flush and remove files.
		f.blow(err) // So that closing changes nothing any more.
		_ = s.release()
		return nil, classify(o.Dir, f.cause(err))
	}
	return s, nil
}

// start reads the log behind the position of the database, and begins what runs in the background.
// A database without a position is a new one, one of an earlier format, or one whose upgrade was
// interrupted (takeOver).
func (s *Store) start(o Options, fresh bool, format int) error {
	p, there, err := readPosition(s.db, false)
	if err != nil {
		return withCorrupt(err)
	}
	switch {
	case there:
		s.gathered.init(s.db, p)
	default:
		// A directory of this format has a position, unless an upgrade was interrupted after it was
		// marked and before the position was written.
		if format == FormatVersion && !fresh && o.OpenLog == nil && !s.hasJournal() {
			// That is an upgrade which was interrupted, and then the log has not begun.
			if begun, err := filelog.Begun(o.FS, o.Dir); err != nil || begun {
				return errors.Join(err, errNoPosition)
			}
		}
		if p, err = s.takeOver(o, fresh, format); err != nil {
			return err
		}
	}
	// A server of its own must not open the data of a node, whose log is elsewhere: it would go on
	// from an old state.
	if there && !o.ReadOnly && (p.log == logElsewhere) != (o.OpenLog != nil) {
		return wrongLog(s.dir, p)
	}
	switch {
	case o.ReadOnly && (!there || p.log == logElsewhere):
		return nil
	case o.ReadOnly:
		return filelog.Read(o.FS, o.Dir, p.log, p.applied+1, p.safe, s.gathered.replay)
	}
	log, err := s.openLog(o, p)
	if err != nil {
		return err // without a log there is none to close
	}
	s.log = log
	s.begin()
	if fresh {
		if err := finishMarker(o.FS, o.Dir, markerUnfinished); err != nil {
			return unwritable(o.Dir, err)
		}
	}
	// Only now: everything that the files of an earlier format had is in tables.
	if err := removeJournal(o.FS, o.Dir); err != nil {
		return unwritable(o.Dir, err)
	}
	s.files.add(markerFinished)
	s.beginTidying(!o.NoCompactions)
	// What was read from the log is applied at once, so that the log can be trimmed.
	signal(s.gathered.wake)
	return s.watch()
}

// wrongLog tells that a directory is used by a server of its own and is that of a node of a cluster, or the other way
// round.
func wrongLog(dir string, p position) error {
	if p.log == logElsewhere {
		return fmt.Errorf("%s: %w: it is the data of a node of a cluster: set cluster.node", dir, store.ErrUnwritable)
	}
	return fmt.Errorf("%s: %w: it is the data of a server of its own, not of a node of a cluster: "+
		"give the node another directory", dir, store.ErrUnwritable)
}

// openLog opens the log of a directory, or the one that the caller has, and gathers what it has
// behind the position.
func (s *Store) openLog(o Options, p position) (commitlog.Log, error) {
	if o.OpenLog != nil {
		return o.OpenLog(p.applied+1, p.safe, s.gathered.replay)
	}
	from := plant.Or(p.applied+1, plant.ReplayedAgain, max(p.applied, 1))
	return filelog.Open(s.logOptions(o, p), from, p.safe, s.gathered.replay)
}

// logOptions returns the options of the log of the directory. It writes through the guard, so that
// its errors blow the fuse.
func (s *Store) logOptions(o Options, p position) filelog.Options {
	return filelog.Options{
		FS: s.guard, Dir: s.dir, ID: p.log, SegmentBytes: o.SegmentBytes,
		Mode: plant.Or(o.Mode, plant.ModeIgnored, commitlog.None), Every: o.SyncEvery,
	}
}

// openDB opens the database, or makes one, with our file system, logger and listener, through which
// its errors reach the fuse.
func (s *Store) openDB(o Options, fresh bool) (*pebble.DB, error) {
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	// Before Pebble removes what it does not need: the guard sees that.
	s.files.begin(o.Dir, names)
	po := pebbleOptions(o)
	po.FS = &guardFS{FS: o.FS, guard: guard{fuse: s.fuse, ends: true}, dir: o.Dir, files: s.files}
	po.Logger = logger{log: o.Logger.With(slog.String("component", "store")), fuse: s.fuse}
	po.EventListener = s.events.listener(&s.gathered)
	po.ErrorIfNotExists = !fresh
	return openPebble(o.Dir, po, s.fuse)
}

// openPebble opens the database. It returns, as an error, what Pebble panics with over some kinds
// of damage, and what it demands the end of the process for. In the latter case the goroutine that
// opens it stays behind for ever (fuse.end).
func openPebble(dir string, po *pebble.Options, f *fuse) (*pebble.DB, error) {
	var db *pebble.DB
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: %v", store.ErrCorrupt, r)
			}
		}()
		db, err = pebble.Open(dir, po)
	}()
	select {
	case <-opened:
		return db, err
	case <-f.ended:
		return nil, f.err()
	}
}

// classify turns an error of opening the database into one for the operator. The
// marker has already said that the directory is ours, so that whatever is neither
// a newer format nor the operating system's refusal is damage.
func classify(dir string, err error) error {
	var errno syscall.Errno
	text := err.Error()
	if detail := crdberrors.FlattenDetails(err); detail != "" {
		text += " (" + strings.ReplaceAll(detail, "\n", " ") + ")"
	}
	switch {
	case errors.Is(err, store.ErrUnwritable), errors.Is(err, store.ErrGone):
		return err
	case strings.Contains(text, "unknown format major version"):
		return newerFormat(dir, text)
	case isFull(err), slices.ContainsFunc(refusedBySystem, func(refused error) bool { return errors.Is(err, refused) }):
		return unwritable(dir, err)
	case errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: %s", dir, err, advice(err))
	default:
		// Whoever has found the damage may have told that it is damage, and what to do about it. Both are told once.
		if a, ok := errors.AsType[*store.AdviceError](err); ok {
			text = strings.ReplaceAll(text, ": "+a.Advice, "")
		}
		text = strings.ReplaceAll(text, store.ErrCorrupt.Error()+": ", "")
		err = fmt.Errorf("%s: %w: %s", dir, store.ErrCorrupt, text)
		return &store.AdviceError{Err: err, Advice: restoreBackup}
	}
}

// restoreBackup is the advice about damage.
const restoreBackup = `restore the directory from a backup with "millrace restore BACKUP DIR", ` +
	`or move it away to begin empty`

// newerFormat is the error of a directory that a later release has written.
func newerFormat(dir, detail string) error {
	return fmt.Errorf("%s: %w: %s: run the release that wrote it, or a later one", dir, store.ErrNewerFormat, detail)
}

// readFile reads a file up to a size.
func readFile(fsys vfs.FS, name string, sizeMax int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	p, err := io.ReadAll(io.LimitReader(f, sizeMax))
	return p, errors.Join(err, f.Close())
}
