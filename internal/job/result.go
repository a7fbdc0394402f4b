package job

// Result is what a command answers. It may be reused: the machine overwrites it
// and appends to Jobs[:0] and IDs[:0].
type Result struct {
	Err       *Error
	ID        ID      // Push; Each: where to go on, zero at the end
	Serial    uint64  // Push, if HasSerial
	HasSerial bool    // Push: the queue counts
	State     State   // Push: the state the job is in now; Kick of a queue: Buried or Scheduled, whence the jobs come
	Batch     BatchID // NewBatch
	IDs       []ID    // Atomic: of its pushes, in order
	Count     int
	// Left is how many more jobs a command means that deals with many. One step takes a
	// part of them; Rest is the command for the others.
	Left int
	// Jobs has what a Fetch has leased, the one job of an Await, a Run and of others with
	// Want, and for a Push the one that was there, if that is why nothing was pushed.
	Jobs []Job
}

// Reset empties r for another use.
func (r *Result) Reset() {
	clear(r.Jobs) // let the bodies go
	*r = Result{IDs: r.IDs[:0], Jobs: r.Jobs[:0]}
}

// Counter is one of the lifetime counters of a queue.
type Counter uint8

// The lifetime counters.
const (
	CountPushed   Counter = iota // accepted
	CountFetched                 // deliveries
	CountAcked                   // succeeded
	CountFailed                  // failures, lapses that count as one included
	CountLapsed                  // leases that lapsed
	CountReleased                // given back by their holder
	CountReturned                // deliveries taken back
	CountEnded                   // released or failed by the end of their holder
	CountBuried
	CountKicked
	CountDeleted // removed by a command, purges included
	CountExpired // ended by their expiry in an unfinished state
	CountDied    // exhausted, whatever followed
	CountDue     // schedules and back-offs that ended
	CountTouched
	CountMoved
	CountRestarted // released by a start of the server; counted as ended too
	CountRetried   // failures after which the job is to be tried again
	CountCancelled // deleted or withdrawn before they were finished or dead
	CountPaused    // times that the queue itself was paused

	// CounterCount is the number of counters.
	CounterCount = int(CountPaused) + 1
)

var counterNames = [CounterCount]string{
	"pushed", "fetched", "acked", "failed", "lapsed", "released", "returned", "ended",
	"buried", "kicked", "deleted", "expired", "died", "due", "touched", "moved", "restarted",
	"retried", "cancelled", "paused",
}

// String returns the counter's name.
func (c Counter) String() string { return counterNames[c] }

// QueueInfo is what is known about a queue at one moment.
type QueueInfo struct {
	Namespace   string
	Name        string
	Counts      [StateCount]uint64
	Totals      [CounterCount]uint64
	Expired     [StateCount]uint64 // lifetime: jobs that ended by their expiry, by the state they were in
	Doors       Doors              // through which jobs have been pushed to it
	Paused      bool
	PausedAt    Time // zero: before it was noted
	PausedUntil Time
	Configured  bool // made by Configure
	Hidden      bool // removed with ReadyOnly and not pushed to since
	Settings    Settings
	Limits      Limits
	Fairness    Fairness
	Bucket      Bucket // of Limits.Rate
	Created     Time
	OldestReady Time // when the ready job that is first in order became ready; zero if none, or not asked for
}

// Total returns the number of jobs, in all states together.
func (q *QueueInfo) Total() uint64 {
	var n uint64
	for _, c := range q.Counts {
		n += c
	}
	return n
}

// Sums are the figures of several queues together.
type Sums struct {
	Queues uint64 // how many there are, hidden ones included
	Hidden uint64 // of those
	Counts [StateCount]uint64
	Totals [CounterCount]uint64
}

// Add adds the figures of a queue.
func (s *Sums) Add(q *QueueInfo) {
	s.Queues++
	if q.Hidden {
		s.Hidden++
	}
	for i, n := range q.Counts {
		s.Counts[i] += n
	}
	for i, n := range q.Totals {
		s.Totals[i] += n
	}
}

// Sub takes the figures of a queue away.
func (s *Sums) Sub(q *QueueInfo) {
	s.Queues--
	if q.Hidden {
		s.Hidden--
	}
	for i, n := range q.Counts {
		s.Counts[i] -= n
	}
	for i, n := range q.Totals {
		s.Totals[i] -= n
	}
}
