package lmstfy

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// idSource makes the ids of jobs: ULIDs with the time of the publish and, in their
// last 32 bits, the delay in seconds. The 48 bits in between begin with a random number in every
// millisecond and count up within it, so that ids grow and two servers that share a
// namespace do not meet. The engine refuses an id that is taken nevertheless.
type idSource struct {
	mu sync.Mutex // guards what follows
	ms uint64
	n  uint64
}

// take returns the time and the first of count numbers in a row.
func (s *idSource) take(now job.Time, count int) (ms, first uint64) {
	ms = uint64(max(now, 0)) / 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	if ms > s.ms {
		// Half of the range is left for counting.
		s.ms, s.n = ms, rand.Uint64()>>17 //nolint:gosec // ids are not secret
	}
	first = s.n
	s.n += uint64(count) //nolint:gosec // a few
	return s.ms, first
}

// jobID composes an id. With attributes it is a digit longer.
func jobID(ms, n uint64, delaySeconds uint32, versioned bool) string {
	var u dialect.ULID
	binary.BigEndian.PutUint64(u[4:], n)
	u.SetTime(ms)
	binary.LittleEndian.PutUint32(u[12:], delaySeconds)
	var b [dialect.ULIDLen + 1]byte
	out := b[:0]
	if versioned {
		out = append(out, versionDigit)
	}
	return string(u.Append(out))
}

// versionDigit begins the id of a job that was published with attributes enabled.
const versionDigit = '1'

// publishedAt returns the time in an id of this protocol.
func publishedAt(id string) (ms uint64, ok bool) {
	if len(id) == dialect.ULIDLen+1 && id[0] == versionDigit {
		id = id[1:]
	}
	u, ok := dialect.ParseULID(id)
	if !ok {
		return 0, false
	}
	if _, number := u.JobID(); number {
		return 0, false
	}
	return u.Time(), true
}

// appendID renders the id of a job: the one it was given here, or else the ULID
// that stands for its number. Slots of deleted jobs are left only by those from here.
func appendID(b []byte, j *job.Job) []byte {
	if j.Key != "" && (j.Origin == dialect.DoorLmstfy || j.Flags.Has(job.FlagTombstone)) {
		return append(b, j.Key...)
	}
	return dialect.ULIDOf(j.ID).Append(b)
}

// idMax bounds the ids that are looked up: no job has a longer one.
const idMax = 255

// refTo names the job of a queue that a client calls by an id.
func refTo(namespace, queue, id string) job.Ref {
	if u, ok := dialect.ParseULID(id); ok {
		if n, ok := u.JobID(); ok {
			return job.ByID(namespace, queue, n)
		}
	}
	ref := job.ByKey(namespace, id)
	ref.Queue = queue
	return ref
}

// newRequestID returns a fresh ULID.
func newRequestID(now time.Time) string {
	var u dialect.ULID
	binary.BigEndian.PutUint64(u[:8], rand.Uint64()) //nolint:gosec // not secret
	binary.BigEndian.PutUint64(u[8:], rand.Uint64()) //nolint:gosec // not secret
	u.SetTime(uint64(now.UnixMilli()))
	return u.String()
}

// newToken returns a ULID that nobody can guess.
func newToken(now time.Time) string {
	var u dialect.ULID
	_, _ = crand.Read(u[:]) // never fails
	u.SetTime(uint64(now.UnixMilli()))
	return u.String()
}
