// Package memlog is a commitlog.Log in memory. It outlives the state that follows from it, as a disk would, and forgets
// what was not synced when it is told that the power was lost.
package memlog

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"millrace/internal/commitlog"
	"millrace/internal/store"
)

// Log is a log in memory. New makes one. It may be opened again and again: it stands for the disk,
// and survives the store that is opened on it.
type Log struct {
	mode  commitlog.Mode
	depth int

	mu      sync.Mutex // guards what follows
	first   uint64     // of records
	records [][]byte
	safe    uint64
	closed  bool
}

var _ commitlog.Log = (*Log)(nil)

// New returns an empty log that takes depth records at once. It is closed, as after a shutdown.
func New(mode commitlog.Mode, depth int) *Log {
	return &Log{mode: mode, depth: depth, first: 1, closed: true}
}

// Open opens the log and visits its records from a number on. Up to the number safe they must be
// there. What was read counts as synced, as with a file log, which syncs what it has read.
func (l *Log) Open(from, safe uint64, visit commitlog.Visit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last()
	if last < safe {
		return fmt.Errorf("%w: the log ends with record %d, but %d was on stable storage", store.ErrCorrupt, last, safe)
	}
	// As a file log does: the state is ahead of the log, and the log goes on behind it.
	if last+1 < from { // there is a gap, and what is behind the state is not needed
		l.first, l.records = from, nil
	}
	if err := l.read(from, visit); errors.Is(err, commitlog.ErrTrimmed) {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	} else if err != nil {
		return err
	}
	l.safe, l.closed = l.last(), false
	return nil
}

// Read implements commitlog.Log.
func (l *Log) Read(from uint64, visit commitlog.Visit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read(from, visit)
}

// read visits copies of the records: visit may keep them.
func (l *Log) read(from uint64, visit commitlog.Visit) error {
	if from < l.first {
		return fmt.Errorf("%w: it begins with record %d, and %d is needed", commitlog.ErrTrimmed, l.first, from)
	}
	for n := from; n <= l.last(); n++ {
		if err := visit(n, slices.Clone(l.records[n-l.first])); err != nil {
			return err
		}
	}
	return nil
}

// Crash forgets what was not synced, except for the first keep records of it, and leaves the log
// closed. A disk may have written any part of what was not synced; in a log only a first part of it
// counts.
func (l *Log) Crash(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	n := int(l.safe+1-l.first) + keep                      //nolint:gosec // a few records
	l.records = l.records[:min(max(n, 0), len(l.records))] // more than what was synced may have been trimmed
}

// last returns the number of the last record; one less than the first if there is none.
func (l *Log) last() uint64 { return l.first + uint64(len(l.records)) - 1 }

// Append implements commitlog.Log. Done is called before it returns, without the lock: it may call
// the log.
func (l *Log) Append(content []byte, done func(number uint64, err error)) {
	l.mu.Lock()
	number, err := l.last()+1, l.refusal()
	if err == nil {
		l.records = append(l.records, slices.Clone(content))
		// In the other modes only Sync makes it safe.
		if l.mode == commitlog.Fsync {
			l.safe = number
		}
	}
	l.mu.Unlock()
	done(number, err)
}

// refusal returns why a closed log takes nothing, or nil.
func (l *Log) refusal() error {
	if l.closed {
		return fmt.Errorf("log: %w", store.ErrClosed)
	}
	return nil
}

// Depth implements commitlog.Log.
func (l *Log) Depth() int { return l.depth }

// Safe implements commitlog.Log.
func (l *Log) Safe() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.safe
}

// Sync implements commitlog.Log.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(); err != nil {
		return err
	}
	l.safe = l.last()
	return nil
}

// Trim implements commitlog.Log.
func (l *Log) Trim(number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= l.first {
		n := min(number, l.last()) + 1 - l.first
		l.records, l.first = slices.Clone(l.records[n:]), l.first+n
	}
	return nil
}

// Stats implements commitlog.Log.
func (l *Log) Stats() (st commitlog.Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		st.Bytes += uint64(len(r))
	}
	st.Untrimmed = st.Bytes
	return st
}

// Close implements commitlog.Log.
func (l *Log) Close() error {
	err := l.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return err
}
