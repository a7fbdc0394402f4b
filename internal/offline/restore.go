package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/store/pebblestore"
)

const (
	marker = "FORMAT" // makes a directory one of ours
	lock   = "LOCK"
	// mountRoot is in the root of a file system of its own, which counts as empty.
	mountRoot = "lost+found"
)

// Restore makes a data directory of a backup. It verifies the backup first, as Check does,
// copies it, and verifies the files of the copy. The new directory must not exist, or be empty. What
// makes it a data directory is written last, so that one whose restoring was interrupted is
// refused by a server; after an error nothing is left in it.
func Restore(ctx context.Context, backup, dir string, progress ProgressFunc) (Report, error) {
	if err := checkTarget(backup, dir); err != nil {
		return Report{}, err
	}
	if ofNode(backup) {
		return Report{}, fmt.Errorf("%s %w", backup, errNode)
	}
	report, err := Check(ctx, backup, progress)
	if err != nil {
		return report, fmt.Errorf("the backup cannot be used: %w", err)
	}
	names, err := filesOf(backup)
	if err != nil {
		return report, fmt.Errorf("list the backup: %w", err)
	}
	made, err := makeTarget(dir)
	if err == nil {
		err = copyAll(ctx, backup, dir, names, progress)
	}
	if err == nil {
		_, err = withStore(dir, func(s *pebblestore.Store) (Report, error) {
			var copied Report
			return copied, checkTables(ctx, s, &copied, PhaseCopied, progress)
		})
	}
	if err != nil {
		return report, errors.Join(fmt.Errorf("restore to %s: %w", dir, err), clearTarget(dir, made, names))
	}
	return report, nil
}

// checkTarget reports a target that holds something.
func checkTarget(backup, dir string) error {
	from, err := filepath.Abs(backup)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if to == from || strings.HasPrefix(to, from+string(filepath.Separator)) {
		return fmt.Errorf("%s lies in the backup: name a directory outside of it", dir)
	}
	names, err := namesIn(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look into %s: %w", dir, err)
	case len(names) > 0:
		return fmt.Errorf("%s is not empty: it holds %s: name a new directory, or move that one away; nothing is "+
			"ever overwritten", dir, names[0])
	}
	return nil
}

// namesIn lists a directory without what an empty one may hold.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.Name() != mountRoot {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// filesOf returns the names of the files to copy.
func filesOf(backup string) ([]string, error) {
	names, err := namesIn(backup)
	names = slices.DeleteFunc(names, func(name string) bool { return name == lock || name == marker })
	return names, err
}

// makeTarget makes the directory if it is not there, and tells whether it did.
func makeTarget(dir string) (made bool, err error) {
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, err
	}
	return true, filelog.SyncOSDir(filepath.Dir(dir))
}

// clearTarget takes back what a failed Restore has written.
func clearTarget(dir string, made bool, names []string) error {
	var errs []error
	for _, name := range append([]string{marker, markerPart, lock}, names...) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if made {
		errs = append(errs, os.Remove(dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the rest of the copy has to be removed by hand: %w", err)
	}
	return nil
}

// markerPart is the marker's name while it is written: a directory that has only this is nobody's.
const markerPart = "FORMAT.restoring"

func copyAll(ctx context.Context, backup, dir string, names []string, progress ProgressFunc) error {
	var done, total uint64
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(backup, name))
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s in the backup is not a file: move it away", name)
		}
		total += uint64(info.Size()) //nolint:gosec // sizes are not negative
	}
	for _, name := range names {
		n, err := copyFile(filepath.Join(backup, name), filepath.Join(dir, name))
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if done += uint64(n); done < total { //nolint:gosec // sizes are not negative
			progress(PhaseCopy, done, total)
		}
	}
	progress(PhaseCopy, total, total)
	part := filepath.Join(dir, markerPart)
	if _, err := copyFile(filepath.Join(backup, marker), part); err != nil {
		return err
	}
	if err := filelog.SyncOSDir(dir); err != nil {
		return err
	}
	if err := os.Rename(part, filepath.Join(dir, marker)); err != nil {
		return err
	}
	return filelog.SyncOSDir(dir)
}

// copyFile copies a file to one that is not there, and syncs it.
func copyFile(from, to string) (int64, error) {
	in, err := os.Open(from) //nolint:gosec // the operator's backup
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()                                     // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640) //nolint:gosec // below the operator's directory
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return n, errors.Join(err, out.Close())
}
