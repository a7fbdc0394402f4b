package pebblestore

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
)

const (
	defaultCacheBytes    = 32 << 20
	defaultMemTableBytes = 32 << 20
	memTablesMax         = 2
)

// Options says where the data lives and how much memory it may use.
type Options struct {
	// Dir is the data directory. It is created if it does not exist.
	Dir string
	// FS is the file system; nil is the real disk.
	FS vfs.FS
	// Logger receives the storage engine's own log, most of it at debug level;
	// nil discards it.
	Logger *slog.Logger
	// CacheBytes is the room for table blocks that is left when all memtables are
	// full, and CacheBytes plus twice MemTableBytes what all take together;
	// zero means 32 MiB.
	CacheBytes int64
	// MemTableBytes is the size at which recent writes are sorted out to a table;
	// zero means 32 MiB. Up to twice as much may wait in memory.
	MemTableBytes int64
	// Mode is when a commit counts as written, SyncEvery how long it takes with commitlog.Interval until it is synced.
	Mode      commitlog.Mode
	SyncEvery time.Duration
	// SegmentBytes is the size of the segments of the log; zero leaves it to the log.
	SegmentBytes int64
	// OpenLog opens another log than that of the directory, from a number on; see filelog.Open.
	OpenLog func(from, safe uint64, visit commitlog.Visit) (commitlog.Log, error)
	// OpenTables is how many files may be kept open to be read; zero leaves it to Pebble.
	OpenTables int
	// ReadOnly refuses commits and leaves the files as they are.
	ReadOnly bool
	// NoCompactions leaves tables as they are flushed. It is for tests that damage what is read: a compaction
	// that cannot read makes Pebble end the process.
	NoCompactions bool
	// OnFatal is called once, after a write error or damage that the store cannot
	// go on from, with the error that all later commits return. It runs on
	// whatever goroutine met the error, perhaps with locks held: it must return
	// soon and must not call the store.
	OnFatal func(error)
}

// pebbleOptions tunes Pebble for a queue on a small machine: keys are inserted and
// soon deleted, and the readers of a list begin right behind a long run of deleted
// keys.
func pebbleOptions(o Options) *pebble.Options {
	po := &pebble.Options{
		// FormatValueSeparation (24) is the newest stable format of Pebble v2.1.7.
		// A database is upgraded to the version named here when it is opened, and
		// never downgraded: raise it only in a release whose notes say so.
		FormatMajorVersion: pebble.FormatValueSeparation,

		ReadOnly: o.ReadOnly,
		// The log of the store has everything.
		DisableWAL:                  true,
		MaxOpenFiles:                o.OpenTables,
		DisableAutomaticCompactions: o.NoCompactions,
		// Pebble takes the memtables out of the cache's share: without room for
		// them, two of them leave no cache at all.
		CacheSize:    o.CacheBytes + memTablesMax*o.MemTableBytes,
		MemTableSize: uint64(o.MemTableBytes), //nolint:gosec // Open has replaced what is not positive
		// While one is flushed the other takes writes. More of them would only make
		// the log longer that a restart after a crash has to read.
		MemTableStopWritesThreshold: memTablesMax,

		// With this six runs of new tables are compacted at once. Most of what is flushed is deleted soon: rewriting it
		// early is wasted work, the keys of clients are rewritten as a whole each time, and a lookup has filters for
		// each run. Stalling writers is the last resort.
		L0CompactionThreshold: 12,
		L0StopWritesThreshold: 24,
		LBaseMaxBytes:         256 << 20,
		// The second compaction starts only when the first falls behind: the other
		// core belongs to the clients.
		CompactionConcurrencyRange: func() (lower, upper int) { return 1, 2 },

		// Without this a deleted range gives no space back until so much else was
		// written that the memtable is full.
		FlushDelayDeleteRange: flushDelayDeleteRange,
	}
	po.Experimental.L0CompactionConcurrency = 12
	po.Experimental.CompactionDebtConcurrency = 256 << 20
	// A block counts as full of tombstones with a fifth of the usual number, and a
	// table with a twentieth of such blocks is compacted for their sake alone.
	po.Experimental.NumDeletionsThreshold = 20
	po.Experimental.DeletionSizeRatioThreshold = 0.2
	po.Experimental.TombstoneDenseCompactionThreshold = 0.10
	// A deleted range also cuts its part out of tables that stick out of it, by
	// metadata alone, instead of waiting for their rewrite.
	po.Experimental.EnableDeleteOnlyCompactionExcises = func() bool { return true }

	// No table has keys of two spaces, which are told apart by the first byte. Jobs that arrive have greater numbers
	// than all before, so that their tables overlap none and are not rewritten for the sake of the keys that clients
	// give, which come in any order.
	po.Experimental.SpanPolicyFunc = func(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
		if len(start) > 0 && start[0] < 0xff {
			end = []byte{start[0] + 1}
		}
		return policy, end, nil
	}

	// Tables stay small, so that a compaction for tombstones rewrites little and a
	// table's filter does not push everything else out of a small cache.
	for i := range po.TargetFileSizes {
		po.TargetFileSizes[i] = min(int64(2<<20)<<i, 16<<20)
	}
	po.TargetFileSizes[0] = 8 << 20 // those that a sinker moves down stay as they were flushed
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return po
}
