package store

import (
	"time"

	"millrace/internal/timing"
)

// Range is a span of keys, Lo included and Hi excluded. An empty bound is open:
// the zero Range is the whole store.
type Range struct {
	Lo, Hi []byte
	// Reverse visits the keys from the highest to the lowest.
	Reverse bool
	// Passed, if there is one, grows by about as many deleted keys as a scan from the lowest to the highest passes,
	// before a key is visited and before the end.
	Passed *int
}

// Reader reads committed keys. Its methods may be called from any goroutine, also
// while another one commits.
type Reader interface {
	// Get appends the value of key to dst and returns the extended slice, which
	// the caller owns. Without such a key it returns dst unchanged and false.
	Get(dst, key []byte) (value []byte, ok bool, err error)
	// Scan calls visit for each key of the range in order until visit returns
	// false. The whole scan sees one moment of the store, whatever is committed
	// meanwhile; visit may itself read and commit. The slices belong to the
	// store, must not be changed, and are valid only until visit returns.
	Scan(r Range, visit func(key, value []byte) bool) error
}

// Snapshot is the store as it was at one moment. Whoever takes one closes it: an
// open snapshot keeps the space of everything deleted since.
type Snapshot interface {
	Reader
	// Close releases the snapshot. Closing twice is harmless.
	Close() error
}

// Store is a durable ordered map. Commit may be called by one goroutine at a time;
// everything else by any number of goroutines.
type Store interface {
	Reader
	// Commit makes all changes of the batch visible, or none. Done is called once, in
	// the order of the calls and perhaps before Commit returns: when the batch is
	// visible and as safe as the log of the store promises, or with an error. After
	// an error no later Commit succeeds: reopen the store to learn what was kept. The
	// batch must not be changed before done is called, and is not retained after.
	Commit(b *Batch, done func(error))
	// Depth is how many batches may be on their way at once.
	Depth() int
	// Snapshot returns a consistent view for readers on other goroutines.
	Snapshot() (Snapshot, error)
	// Checkpoint writes a complete copy, which can be opened as a store of its
	// own, to dir, which must not exist yet. It runs beside commits and reads.
	Checkpoint(dir string) error
	// Reclaim asks for the space of what has been deleted to be given back soon. It
	// does not wait for that.
	Reclaim() error
	// Stats returns figures for metrics. It is cheap enough to call every second.
	Stats() Stats
	// FreeBytes returns the space left to us on the file system that holds the data.
	FreeBytes() (uint64, error)
	// Close flushes and releases the store. All snapshots must be closed and all
	// scans have ended before. Later calls return ErrClosed.
	Close() error
}

// CommitNow commits a batch and waits for it.
func CommitNow(s Store, b *Batch) error {
	result := make(chan error, 1)
	s.Commit(b, func(err error) { result <- err })
	return <-result
}

// Stats describes a store for metrics. Counters run from the opening of the store;
// an implementation leaves at zero what it does not have.
type Stats struct {
	DiskBytes     uint64 // all files, the log included
	WALBytes      uint64 // the part of DiskBytes that is write-ahead log
	MemTableBytes uint64 // recent writes held in memory
	CacheBytes    uint64 // block cache
	CacheHits     int64
	CacheMisses   int64

	Commits        uint64
	CommittedBytes uint64 // encoded size of all committed batches

	Syncs   timing.Histogram // of the log
	SyncMax time.Duration    // the slowest of them

	Flushes          int64
	Compactions      int64
	CompactionDebt   uint64 // bytes that compaction still has to rewrite
	ReadAmp          int    // sorted runs that a scan has to merge
	Tables           int64
	Tombstones       uint64 // deletions that still occupy space
	WriteStalls      uint64 // times that writers had to wait for compaction
	WriteStallTime   time.Duration
	BackgroundErrors uint64 // flushes or compactions that went wrong; the first stops the store
	Corruptions      uint64 // reads that met damaged data
}
