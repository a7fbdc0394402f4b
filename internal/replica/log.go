package replica

import (
	"errors"
	"math"
	"sync/atomic"

	"millrace/internal/commitlog"
)

// Log is what the store of a replica takes for its log: its records are the entries of the replicated one, of which it only has to know
// what the store has on stable storage.
type Log struct{ trimmed atomic.Uint64 }

var _ commitlog.Log = (*Log)(nil)

// NewLog returns the log of a store.
func NewLog() *Log { return &Log{} }

var errReplicated = errors.New("the store belongs to a cluster: only entries of the replicated log change it")

// Append implements commitlog.Log: nobody else than Replica.Apply may write.
func (l *Log) Append(_ []byte, done func(number uint64, err error)) { done(0, errReplicated) }

// Read implements commitlog.Log.
func (l *Log) Read(uint64, commitlog.Visit) error { return errReplicated }

// Depth implements commitlog.Log.
func (l *Log) Depth() int { return 1 }

// Safe implements commitlog.Log: entries are applied when a majority has them on stable storage.
func (l *Log) Safe() uint64 { return math.MaxUint64 }

// Sync implements commitlog.Log.
func (l *Log) Sync() error { return nil }

// Trim implements commitlog.Log.
func (l *Log) Trim(number uint64) error {
	l.trimmed.Store(number)
	return nil
}

// Trimmed returns the last entry that the store has on stable storage.
func (l *Log) Trimmed() uint64 { return l.trimmed.Load() }

// Stats implements commitlog.Log.
func (l *Log) Stats() commitlog.Stats { return commitlog.Stats{} }

// Close implements commitlog.Log.
func (l *Log) Close() error { return nil }
