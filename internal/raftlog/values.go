package raftlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/plant"
)

// values are the few things beside its log that Raft keeps: its term, its vote, the last snapshot. They are one file,
// which is replaced as a whole.
type values struct {
	fs   vfs.FS
	dir  string
	fail func(error)

	mu    sync.Mutex // guards what follows
	fresh bool       // the file is not there yet
	// logID and from say which log belongs to them, and with which record it begins.
	logID, from uint64
	kept        map[string][]byte
}

var _ raft.StableStore = (*values)(nil)

const (
	valuesFile    = "VALUES"
	valuesVersion = 1
	valuesMax     = 16 << 20
)

// valuesForm is what is in the file.
type valuesForm struct {
	Version int               `json:"version"`
	LogID   uint64            `json:"log"`
	From    uint64            `json:"from"`
	Kept    map[string][]byte `json:"kept"`
}

func openValues(fsys vfs.FS, dir string, fail func(error)) (*values, error) {
	v := &values{fs: fsys, dir: dir, fail: fail, from: 1, kept: map[string][]byte{}}
	path := fsys.PathJoin(dir, valuesFile)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		v.fresh, v.logID = true, filelog.NewID()
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, valuesMax))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var form valuesForm
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if form.Version != valuesVersion {
		return nil, fmt.Errorf("%s has version %d, and this release knows %d: run the newer release", path,
			form.Version, valuesVersion)
	}
	v.logID, v.from = form.LogID, form.From
	maps.Copy(v.kept, form.Kept)
	return v, nil
}

// save writes the file to stable storage.
func (v *values) save() error {
	text, err := json.Marshal(valuesForm{valuesVersion, v.logID, v.from, v.kept})
	if err != nil {
		return err
	}
	path := v.fs.PathJoin(v.dir, valuesFile)
	f, err := v.fs.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && !plant.VoteUnsynced.On() {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := v.fs.Rename(path+".new", path); err != nil {
		return err
	}
	v.fresh = false
	return filelog.SyncDir(v.fs, v.dir)
}

// setFrom notes with which record the log begins from now on.
func (v *values) setFrom(number uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.from = number
	return v.save()
}

// Set implements raft.StableStore.
func (v *values) Set(key, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[string(key)] = append([]byte(nil), value...)
	if err := v.save(); err != nil {
		err = fmt.Errorf("keep what was promised to other nodes: %w", err)
		v.fail(err)
		return err
	}
	return nil
}

// errNotFound is told by this very text.
var errNotFound = errors.New("not found")

// Get implements raft.StableStore.
func (v *values) Get(key []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.kept[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return value, nil
}

// SetUint64 implements raft.StableStore.
func (v *values) SetUint64(key []byte, n uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 implements raft.StableStore.
func (v *values) GetUint64(key []byte) (uint64, error) {
	value, err := v.Get(key)
	if errors.Is(err, errNotFound) {
		return 0, nil
	}
	if err == nil && len(value) != 8 {
		err = fmt.Errorf("%w: value %q", ErrDamaged, key)
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}
