package pebblestore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/store"
)

// FormatVersion is the version of the data directory that this release writes, as
// found in its FORMAT file. It covers what lies around the database; the records in
// it have versions of their own. To change it: raise it, keep opening the version
// before, convert on open, and add a golden directory of the old version to the tests.
const FormatVersion = 4

const (
	markerMagic    = "millrace data directory"
	markerFinished = "FORMAT"
	// markerUnfinished is the marker's name until the database has been created. A
	// directory with this one alone never held a commit.
	markerUnfinished = "FORMAT.new"
	// markerCopied is the marker's name where the rest is there already. A directory with this one alone is not free to
	// become a store: it would be emptied for that.
	markerCopied  = "FORMAT.copy"
	markerSizeMax = 4096
	lockFile      = "LOCK"
)

func markerText() string { return markerMagic + "\nformat " + strconv.Itoa(FormatVersion) + "\n" }

// readMarker checks that the directory is ours, or free to become so: fresh. A directory with
// anything else in it is refused, because a fresh one is emptied (prepareDir).
func readMarker(fsys vfs.FS, dir string) (fresh bool, version int, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return false, 0, unwritable(dir, err)
	}
	path := fsys.PathJoin(dir, markerFinished)
	if slices.Contains(names, markerFinished) {
		version, err = checkMarker(fsys, dir, path)
		return false, version, err
	}
	// The root of a file system of its own is not empty.
	names = slices.DeleteFunc(names, func(name string) bool { return name == lockFile || name == "lost+found" })
	switch {
	case len(names) == 0:
		return true, FormatVersion, nil
	case slices.Contains(names, markerUnfinished):
		// Before anything else is created the marker is synced. So beside others
		// it must be whole, and only alone may it be torn.
		if len(names) == 1 {
			return true, FormatVersion, nil
		}
		if _, err := checkMarker(fsys, dir, fsys.PathJoin(dir, markerUnfinished)); err == nil {
			return true, FormatVersion, nil
		}
	}
	slices.Sort(names)
	return false, 0, fmt.Errorf("%s: %w: it has no %s file but holds %s: "+
		"name an empty directory, or one that this program made",
		dir, store.ErrForeign, markerFinished, strings.Join(names[:min(len(names), 3)], ", "))
}

// checkMarker reads the version from a marker. A version of a later release is refused, whatever
// else is there.
func checkMarker(fsys vfs.FS, dir, path string) (version int, err error) {
	p, err := readFile(fsys, path, markerSizeMax)
	if err != nil {
		return 0, fmt.Errorf("%s: read marker: %w: check the disk and the file's permissions", path, err)
	}
	first, rest, _ := strings.Cut(string(p), "\n")
	number, ok := strings.CutPrefix(strings.TrimSuffix(rest, "\n"), "format ")
	version, err = strconv.Atoi(number)
	if first != markerMagic || !ok || err != nil || version < 1 {
		err = fmt.Errorf("%s: %w: it does not say %q and a format", path, store.ErrCorrupt, markerMagic)
		return 0, &store.AdviceError{Err: err, Advice: restoreBackup}
	}
	if version > FormatVersion {
		return 0, newerFormat(dir, fmt.Sprintf("format %d, this release knows %d", version, FormatVersion))
	}
	return version, nil
}

// prepareDir empties a directory whose creation did not finish, and marks it.
func prepareDir(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		// The marker goes last, so that a crash in between changes nothing.
		if name == lockFile || name == "lost+found" || name == markerUnfinished {
			continue
		}
		if err := fsys.Remove(fsys.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	if err := filelog.SyncDir(fsys, dir); err != nil {
		return err
	}
	return writeMarker(fsys, dir, markerUnfinished)
}

// writeMarker writes a marker under a name, and syncs it and its entry in the directory before
// anything else is done.
func writeMarker(fsys vfs.FS, dir, name string) error {
	f, err := fsys.Create(fsys.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(markerText()))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return filelog.SyncDir(fsys, dir)
}

// finishMarker makes the directory a store, of which the marker had another name so far. Renaming
// is the one step that a crash cannot halve.
func finishMarker(fsys vfs.FS, dir, name string) error {
	if err := fsys.Rename(fsys.PathJoin(dir, name), fsys.PathJoin(dir, markerFinished)); err != nil {
		return err
	}
	return filelog.SyncDir(fsys, dir)
}

// mark marks a directory that is complete, a copy or one of an older format.
func mark(fsys vfs.FS, dir string) error {
	if err := writeMarker(fsys, dir, markerCopied); err != nil {
		return err
	}
	return finishMarker(fsys, dir, markerCopied)
}
