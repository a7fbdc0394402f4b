package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"millrace/internal/api"
)

// MakeBackup writes a copy of the data to a directory below the place of backups, which must not exist yet. It may be
// relative to that place, or left out for a name made of the time. It has everything that was answered before. One is
// made at a time.
func (s *Service) MakeBackup(dir string) (api.Backup, error) {
	dir, err := s.backupPath(dir)
	if err != nil {
		return api.Backup{}, err
	}
	if !s.work.backup.TryLock() {
		return api.Backup{}, api.ProblemConflict.New("a backup is being made: wait for it")
	}
	defer s.work.backup.Unlock()
	if err := s.makeParent(dir); errors.Is(err, fs.ErrExist) {
		return api.Backup{}, api.ProblemConflict.New("%s exists: name a directory that does not", dir)
	} else if err != nil {
		return api.Backup{}, api.ProblemConflict.New("the directory cannot be made: %s", err)
	}
	began := time.Now()
	copyData := s.copyData
	if s.engine != nil {
		copyData = s.engine.Backup
	}
	if err := copyData(dir); err != nil {
		if p := api.Refusal(err); p != err { //nolint:errorlint // whether it is the same
			return api.Backup{}, p
		}
		s.log.Error("backup failed", slog.Any("error", err), slog.String("dir", dir))
		return api.Backup{}, api.ProblemConflict.New("the backup was not made: %s", err)
	}
	b := api.Backup{Dir: dir, Seconds: time.Since(began).Seconds()}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			b.Files++
			b.Bytes += uint64(info.Size()) //nolint:gosec // not negative
		}
		return err
	})
	if err != nil {
		return b, fmt.Errorf("look at the backup: %w", err)
	}
	s.log.Info("backup made", slog.String("dir", dir), slog.Uint64("bytes", b.Bytes))
	return b, nil
}

// backupName is how a backup is called that was given no name.
const backupName = "20060102T150405.000Z"

// backupPath returns where a backup goes.
func (s *Service) backupPath(dir string) (string, error) {
	place := s.opts.BackupDir
	if place == "" {
		return "", api.ProblemConflict.New("there is no place for backups: set backup.dir")
	}
	if dir == "" {
		dir = time.Now().UTC().Format(backupName)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(place, dir)
	}
	below, err := filepath.Rel(place, dir)
	if err != nil || below == "." || !filepath.IsLocal(below) {
		return "", api.Invalid("dir: %s is not below %s, where backups go: name a directory below it, or set "+
			"backup.dir of the server", dir, place)
	}
	return filepath.Join(place, below), nil
}

// makeParent makes what is missing of the path to a new directory. An error is ErrExist if that is there. No link leads
// out of the place of backups.
func (s *Service) makeParent(dir string) error {
	place := s.opts.BackupDir
	if err := os.MkdirAll(place, 0o750); err != nil {
		return err
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written to it
	below, err := filepath.Rel(place, dir)
	if err != nil {
		return err
	}
	if _, err := root.Lstat(below); err == nil {
		return fs.ErrExist
	}
	return root.MkdirAll(filepath.Dir(below), 0o750)
}
