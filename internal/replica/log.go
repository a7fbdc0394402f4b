package replica

import (
	"errors"
	"math"

	"millrace/internal/commitlog"
)

// Log is what the store of a replica takes for its log: its records are the entries of the replicated one, which is
// kept elsewhere.
type Log struct{}

var _ commitlog.Log = Log{}

var errReplicated = errors.New("the store belongs to a cluster: only entries of the replicated log change it")

// Append implements commitlog.Log: nobody else than Replica.Apply may write.
func (Log) Append(_ []byte, done func(number uint64, err error)) { done(0, errReplicated) }

// Read implements commitlog.Log.
func (Log) Read(uint64, commitlog.Visit) error { return errReplicated }

// Depth implements commitlog.Log.
func (Log) Depth() int { return 1 }

// Safe implements commitlog.Log: entries are applied when a majority has them on stable storage.
func (Log) Safe() uint64 { return math.MaxUint64 }

// Sync implements commitlog.Log.
func (Log) Sync() error { return nil }

// Trim implements commitlog.Log: the replicated log is cut when a snapshot has settled the store.
func (Log) Trim(uint64) error { return nil }

// Stats implements commitlog.Log.
func (Log) Stats() commitlog.Stats { return commitlog.Stats{} }

// Close implements commitlog.Log.
func (Log) Close() error { return nil }
