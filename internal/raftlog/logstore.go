package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/filelog"
	"millrace/internal/plant"
)

const (
	// cacheBytes is how much of the end of the log is kept in memory: what is sent to the other nodes is read from
	// there. A node that keeps up needs only the last few entries.
	cacheBytes = 16 << 20
	// readAhead is how much is read at once of what is not.
	readAhead = 4 << 20
)

// What a record of the file is.
const (
	recordEntries = 1 // entries that follow each other
	recordCut     = 2 // the entries from an index on do not count
)

// logStore keeps the log of Raft in a filelog: each record has the entries that were stored together. Whatever goes
// wrong is final: after a failed write nothing that was read before may be believed.
type logStore struct {
	log    *filelog.Log
	values *values
	fail   func(error)

	mu      sync.Mutex // guards what follows
	records []stored   // those that have entries which count, in order
	bytes   uint64     // of all of them
	recent  run        // the end of the log
	early   run        // what was read last of what is not in there
	scratch []byte
}

// stored is a record with the indexes of those of its entries that count.
type stored struct {
	number      uint64 // of the record
	first, last uint64
	size        int
}

// run is entries that follow each other.
type run struct {
	logs []*raft.Log
	size int
}

var (
	_ raft.LogStore          = (*logStore)(nil)
	_ raft.MonotonicLogStore = (*logStore)(nil)
)

// openLogStore opens the log in a directory, which has the values, too.
func openLogStore(fsys vfs.FS, dir string, v *values, segment int64, fail func(error)) (*logStore, error) {
	s := &logStore{values: v, fail: fail}
	o := filelog.Options{FS: fsys, Dir: dir, ID: v.logID, Mode: commitlog.Fsync, SegmentBytes: segment}
	if v.fresh {
		if err := filelog.Create(o, 1); err != nil {
			return nil, fmt.Errorf("make the replicated log in %s: %w", dir, err)
		}
		if err := v.save(); err != nil {
			return nil, err
		}
	}
	var err error
	s.log, err = filelog.Open(o, v.from, 0, func(number uint64, content []byte) error {
		return s.replay(number, content, s.recent.add)
	})
	if err != nil {
		return nil, fmt.Errorf("open the replicated log in %s: %w", dir, err)
	}
	return s, nil
}

// replay notes what a record has, and gives the entries to keep.
func (s *logStore) replay(number uint64, content []byte, keep func(*raft.Log)) error {
	if len(content) < 9 {
		return fmt.Errorf("%w: record %d", ErrDamaged, number)
	}
	index := binary.BigEndian.Uint64(content[1:])
	switch content[0] {
	case recordCut:
		s.cut(index)
		return nil
	case recordEntries:
		last, err := eachLog(content, keep)
		if err != nil {
			return fmt.Errorf("record %d: %w", number, err)
		}
		s.note(stored{number: number, first: index, last: last, size: len(content)})
		return nil
	default:
		return fmt.Errorf("%w: record %d has kind %d: run the newer release", ErrDamaged, number, content[0])
	}
}

// note adds a record behind all others.
func (s *logStore) note(r stored) {
	s.records = append(s.records, r)
	s.bytes += uint64(r.size) //nolint:gosec // a size
}

// cut forgets the entries from an index on.
func (s *logStore) cut(from uint64) {
	for n := len(s.records); n > 0; n = len(s.records) {
		r := &s.records[n-1]
		if r.first < from {
			r.last = min(r.last, from-1)
			break
		}
		s.bytes -= uint64(r.size) //nolint:gosec // a size
		s.records = s.records[:n-1]
	}
	s.recent.cut(from)
	s.early = run{}
}

// IsMonotonic tells Raft that the log has no gaps.
func (s *logStore) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (s *logStore) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first(), nil
}

func (s *logStore) first() uint64 {
	if len(s.records) == 0 {
		return 0
	}
	return s.records[0].first
}

// LastIndex implements raft.LogStore.
func (s *logStore) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last(), nil
}

func (s *logStore) last() uint64 {
	if len(s.records) == 0 {
		return 0
	}
	return s.records[len(s.records)-1].last
}

// size returns how many entries there are, and how many bytes.
func (s *logStore) size() (entries, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) == 0 {
		return 0, 0
	}
	return s.last() - s.first() + 1, s.bytes
}

// GetLog implements raft.LogStore.
func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index < s.first() || index > s.last() {
		return raft.ErrLogNotFound
	}
	found := s.recent.at(index)
	if found == nil {
		found = s.early.at(index)
	}
	if found == nil {
		if err := s.readEarly(index); err != nil {
			return s.failed(err)
		}
		if found = s.early.at(index); found == nil {
			return s.failed(fmt.Errorf("%w: entry %d is not where it was", ErrDamaged, index))
		}
	}
	*l = *found
	return nil
}

var errEnough = errors.New("enough was read")

// readEarly reads entries from one on that are not in memory.
func (s *logStore) readEarly(index uint64) error {
	at, _ := slices.BinarySearchFunc(s.records, index, func(r stored, index uint64) int {
		switch {
		case r.last < index:
			return -1
		case r.first > index:
			return 1
		default:
			return 0
		}
	})
	s.early = run{}
	err := s.log.Read(s.records[at].number, func(number uint64, content []byte) error {
		if at == len(s.records) || s.early.size >= readAhead {
			return errEnough
		}
		r := s.records[at]
		if number < r.number {
			return nil // what it had does not count any more
		}
		at++
		_, err := eachLog(content, func(l *raft.Log) {
			if l.Index <= r.last {
				// A part of the content would keep the whole segment in memory.
				l.Data = bytes.Clone(l.Data)
				s.early.add(l)
			}
		})
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// StoreLog implements raft.LogStore.
func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. Raft calls it from one goroutine.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	p := append(s.scratch[:0], recordEntries)
	p = binary.BigEndian.AppendUint64(p, logs[0].Index)
	for _, l := range logs {
		p = appendLog(p, l)
	}
	if s.scratch = p; cap(p) > cacheBytes/4 {
		s.scratch = nil
	}
	number, err := s.append(p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(stored{number: number, first: logs[0].Index, last: logs[len(logs)-1].Index, size: len(p)})
	for _, l := range logs {
		s.recent.add(l)
	}
	return nil
}

// append writes a record to stable storage.
func (s *logStore) append(content []byte) (number uint64, err error) {
	s.log.Append(content, func(n uint64, e error) { number, err = n, e })
	if err != nil {
		return 0, s.failed(err)
	}
	return number, nil
}

// DeleteRange implements raft.LogStore: it cuts off what is old, or what another leader has replaced.
func (s *logStore) DeleteRange(lo, hi uint64) error {
	s.mu.Lock()
	first, last := s.first(), s.last()
	s.mu.Unlock()
	if first == 0 {
		return nil
	}
	if hi >= last && lo > first {
		// It must not come back.
		if !plant.ReplacedComesBack.On() {
			if _, err := s.append(binary.BigEndian.AppendUint64([]byte{recordCut}, lo)); err != nil {
				return err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cut(lo)
		return nil
	}
	return s.drop(hi)
}

// drop forgets the entries up to an index. What is old may come back after a crash.
func (s *logStore) drop(upTo uint64) error {
	s.mu.Lock()
	for len(s.records) > 0 && s.records[0].last <= upTo {
		s.bytes -= uint64(s.records[0].size) //nolint:gosec // a size
		s.records = s.records[1:]
	}
	if len(s.records) > 0 {
		s.records[0].first = max(s.records[0].first, upTo+1)
	}
	s.records = slices.Clip(s.records)
	s.recent.drop(upTo)
	s.early = run{}
	empty := len(s.records) == 0
	from := uint64(0)
	if !empty {
		from = s.records[0].number
	}
	s.mu.Unlock()
	if empty {
		// All go, and the next may have any index: they must not come back.
		number, err := s.append(binary.BigEndian.AppendUint64([]byte{recordCut}, 0))
		if err != nil {
			return err
		}
		from = number
	}
	if err := s.values.setFrom(from); err != nil {
		return s.failed(err)
	}
	if err := s.log.Trim(from - 1); err != nil {
		return s.failed(err)
	}
	return nil
}

// add adds an entry to a run, and lets go of the first ones if it becomes too long.
func (r *run) add(l *raft.Log) {
	if n := len(r.logs); n > 0 && r.logs[n-1].Index+1 != l.Index {
		*r = run{}
	}
	r.logs = append(r.logs, l)
	r.size += logHeader + len(l.Data)
	for r.size > cacheBytes && len(r.logs) > 1 {
		r.size -= logHeader + len(r.logs[0].Data)
		r.logs[0] = nil
		r.logs = r.logs[1:]
	}
}

// at returns an entry, or nil.
func (r *run) at(index uint64) *raft.Log {
	if n := len(r.logs); n == 0 || index < r.logs[0].Index || index > r.logs[n-1].Index {
		return nil
	}
	return r.logs[index-r.logs[0].Index]
}

// cut lets go of the entries from an index on.
func (r *run) cut(from uint64) {
	for n := len(r.logs); n > 0 && r.logs[n-1].Index >= from; n = len(r.logs) {
		r.size -= logHeader + len(r.logs[n-1].Data)
		r.logs[n-1] = nil
		r.logs = r.logs[:n-1]
	}
}

// drop lets go of the entries up to an index.
func (r *run) drop(upTo uint64) {
	for len(r.logs) > 0 && r.logs[0].Index <= upTo {
		r.size -= logHeader + len(r.logs[0].Data)
		r.logs[0] = nil
		r.logs = r.logs[1:]
	}
}

// logHeader is what an entry has beside its data: term, type, when it was appended, lengths of the extensions and of
// the data.
const logHeader = 8 + 1 + 8 + 4 + 4

func appendLog(p []byte, l *raft.Log) []byte {
	p = binary.BigEndian.AppendUint64(p, l.Term)
	p = append(p, byte(l.Type))
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	p = binary.BigEndian.AppendUint64(p, uint64(at))
	p = binary.BigEndian.AppendUint32(p, uint32(len(l.Extensions))) //nolint:gosec // Raft bounds it
	p = binary.BigEndian.AppendUint32(p, uint32(len(l.Data)))       //nolint:gosec // the replica bounds it
	p = append(p, l.Extensions...)
	return append(p, l.Data...)
}

// ErrDamaged means that the log of a node, or what is beside it, is not what was written.
var ErrDamaged = errors.New("the replicated log is damaged")

// eachLog visits the entries of a record and returns the index of the last one.
func eachLog(content []byte, visit func(*raft.Log)) (last uint64, err error) {
	index, p := binary.BigEndian.Uint64(content[1:]), content[9:]
	for ; len(p) > 0; index++ {
		if len(p) < logHeader {
			return 0, fmt.Errorf("%w: entry %d", ErrDamaged, index)
		}
		ext, size := uint64(binary.BigEndian.Uint32(p[17:])), uint64(binary.BigEndian.Uint32(p[21:]))
		if ext+size > uint64(len(p)-logHeader) { //nolint:gosec // not negative
			return 0, fmt.Errorf("%w: entry %d", ErrDamaged, index)
		}
		l := &raft.Log{Index: index, Term: binary.BigEndian.Uint64(p), Type: raft.LogType(p[8])}
		if at := int64(binary.BigEndian.Uint64(p[9:])); at != 0 { //nolint:gosec // comes from appendLog
			l.AppendedAt = time.Unix(0, at)
		}
		p = p[logHeader:]
		if ext > 0 {
			l.Extensions = p[:ext:ext]
		}
		l.Data = p[ext : ext+size : ext+size]
		visit(l)
		p = p[ext+size:]
	}
	return index - 1, nil
}

// failed tells that the log cannot be used any more.
func (s *logStore) failed(err error) error {
	err = fmt.Errorf("the replicated log: %w", err)
	s.fail(err)
	return err
}

func (s *logStore) close() error { return s.log.Close() }
