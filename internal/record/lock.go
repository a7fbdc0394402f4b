package record

import (
	"encoding/binary"

	"millrace/internal/job"
)

// Lock is who has taken a lock, and until when. What counts is the time: a record
// that lies behind it means nothing.
type Lock struct {
	Taker job.ID
	Until job.Time
}

// LockKey appends the key of a lock. Its value is a Lock.
func LockKey(dst []byte, namespace, lock string) []byte {
	return append(appendText(append(dst, spaceLock), namespace), lock...)
}

// LocksSpan returns the range of the locks of a namespace.
func LocksSpan(namespace string) (lo, hi []byte) { return textSpan(spaceLock, namespace) }

// AllLocks returns the range of the locks of all namespaces.
func AllLocks() (lo, hi []byte) { return []byte{spaceLock}, []byte{spaceLock + 1} }

// ParseLockKey splits the key of a lock.
func ParseLockKey(key []byte) (namespace, lock string, ok bool) { return parseNamed(key, spaceLock) }

// AppendLock appends a Lock.
func AppendLock(dst []byte, l Lock) []byte {
	return binary.AppendVarint(binary.AppendUvarint(dst, uint64(l.Taker)), int64(l.Until))
}

// DecodeLock is the inverse of AppendLock.
func DecodeLock(b []byte) (Lock, error) {
	d := decoder{b: b}
	l := Lock{Taker: job.ID(d.uvarint()), Until: job.Time(d.varint())}
	return l, d.end("lock")
}

// ForgetKey appends the entry that says that a record is to be forgotten at a time:
// the lock or the outcome, as its key tells, of a job. Its value is that key.
func ForgetKey(dst []byte, at job.Time, id job.ID, key []byte) []byte {
	dst = ForgetFrom(dst, at)
	return append(binary.BigEndian.AppendUint64(dst, uint64(id)), key[0])
}

// ForgetFrom appends the lowest key of the entries at or after a time.
func ForgetFrom(dst []byte, at job.Time) []byte {
	return binary.BigEndian.AppendUint64(append(dst, spaceForget), uint64(max(at, 0)))
}

// ForgetEnd returns the first key above all such entries.
func ForgetEnd() []byte { return []byte{spaceForget + 1} }

// ParseForgetKey returns the time and the job of such an entry, and whether it is
// about the job's lock; otherwise it is about its outcome.
func ParseForgetKey(key []byte) (at job.Time, id job.ID, lock, ok bool) {
	if len(key) != 18 || key[0] != spaceForget || (key[17] != spaceLock && key[17] != spaceOutcome) {
		return 0, 0, false, false
	}
	u := binary.BigEndian.Uint64(key[1:])
	return job.Time(u), job.ID(binary.BigEndian.Uint64(key[9:])), key[17] == spaceLock, u < 1<<63 //nolint:gosec // checked
}
