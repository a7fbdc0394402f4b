package commitlog

import (
	"errors"
	"time"

	"millrace/internal/timing"
)

// Mode says when a record counts as written.
type Mode uint8

// The modes. The zero value is the safe one.
const (
	// Fsync: when it is on stable storage.
	Fsync Mode = iota
	// Interval: when the operating system has it. It is on stable storage an interval later.
	Interval
	// None: when the operating system has it, which decides about the rest.
	None
)

// ErrTrimmed means that records were asked for that are not in the log any more.
var ErrTrimmed = errors.New("the log does not reach back that far")

// Log is a log that is open for writing. One goroutine at a time may append. The other methods may be called beside it.
type Log interface {
	// Append writes a record behind the last one, with the next number. Done is called once, in the order of the calls:
	// when the record is as safe as the mode says, perhaps before Append returns, or when it failed. After an error
	// every later call fails as well, and nothing is known about the records that failed. The content is not retained.
	Append(content []byte, done func(number uint64, err error))
	// Read visits the records from a number on that were written before the call.
	Read(from uint64, visit Visit) error
	// Depth is how many records may be on their way at once.
	Depth() int
	// Safe returns the last record that is on stable storage for certain.
	Safe() uint64
	// Sync returns once all records so far are on stable storage.
	Sync() error
	// Trim tells that the records up to a number are not needed any more. Their space is used again.
	Trim(number uint64) error
	// Stats returns figures.
	Stats() Stats
	// Close syncs and releases the log. No record may be on its way.
	Close() error
}

// Visit is given the records of a log in order, without gaps. It may keep the content.
type Visit func(number uint64, content []byte) error

// Stats are figures of a log since it was opened.
type Stats struct {
	Bytes     uint64 // all that it occupies
	Untrimmed uint64 // of that, what was written and not trimmed yet
	Syncs     timing.Histogram
	SyncMax   time.Duration // the slowest of them
}
