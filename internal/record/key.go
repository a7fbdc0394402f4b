package record

import (
	"encoding/binary"
	"math"

	"millrace/internal/job"
)

// The key spaces. Everything that belongs to one queue and can be dropped with it
// has the queue's number right behind the first byte.
const (
	spaceAlike     = 'a' // queue, digest, id
	spaceBatch     = 'b' // batch, part
	spaceBatches   = 'B' // namespace, batch
	spaceSchedule  = 'c' // schedule, part
	spaceSchedules = 'C' // namespace, name
	spaceDependant = 'd' // blocker id, dependant's queue and id
	spaceEphemeral = 'e' // queue, id: jobs that do not survive a restart
	spaceFlush     = 'F' // the flush that is under way; queue: it is spared
	spaceForget    = 'f' // time, id, space: what is to be forgotten then
	spaceGroup     = 'g' // queue, group: what is known of it
	spaceHook      = 'h' // namespace, queue: what is pushed when a job of it dies
	spaceHolder    = 'H' // name: a holder that outlives restarts
	spaceJob       = 'j' // queue, id, part
	spaceName      = 'i' // queue: its namespace and name
	spaceKey       = 'k' // namespace, client-given key
	spaceList      = 'l' // queue, list, sort key, id
	spaceLock      = 'L' // namespace, lock
	spaceMeta      = 'm' // the shard's counters
	spaceMore      = 'M' // namespace, client-given key that repeats, id
	spaceNumber    = 'n' // 32-bit number
	spaceOutcome   = 'p' // namespace, client-given key of a tracked job that has ended
	spaceQueue     = 'q' // namespace, name
	spaceEnding    = 'r' // id, sequence: dependants still to be released or failed
	spaceSerial    = 's' // queue, serial number
	spaceTimer     = 't' // time, queue, id
	spaceValue     = 'v' // space, name: a named value
	spaceSweep     = 'w' // queue: records left to clean up
)

// QueueID is the number by which keys name a queue. Zero is no queue. A queue that
// is removed and made again has a new number.
type QueueID uint32

// Part is one of the records of a job.
type Part byte

// The parts of a job. The first is written once, by the push, with a small body in it; a
// state change writes only PartState, which then says how the job stands.
const (
	PartFirst Part = iota
	PartBody       // a body that is too large for the first
	PartFailures
	PartResult
	PartState
	PartProgress // what has been reported of a tracked job
)

// List is one of the ordered lists of a queue.
type List byte

// The lists. A state's list has the state's number; the others serve ready jobs
// that have a group.
const (
	ListReady    = List(job.Ready)
	ListLeased   = List(job.Leased)
	ListGrouped  = List(32) // all ready jobs with a group
	ListFirst    = List(33) // the first ready job of each group that is not held
	ListPerGroup = List(34) // the ready jobs of each group, by group
	ListTurn     = List(35) // instead of ListFirst: the first ready job of each group that has a turn
	ListRecheck  = List(36) // no jobs: when the rate of a group is to be looked at
)

func queueSpace(dst []byte, space byte, q QueueID) []byte {
	return binary.BigEndian.AppendUint32(append(dst, space), uint32(q))
}

// JobKey appends the key of one part of a job.
func JobKey(dst []byte, q QueueID, id job.ID, part Part) []byte {
	dst = queueSpace(dst, spaceJob, q)
	return append(binary.BigEndian.AppendUint64(dst, uint64(id)), byte(part))
}

// JobsFrom appends the lowest key of the jobs of q from id on.
func JobsFrom(dst []byte, q QueueID, id job.ID) []byte { return JobKey(dst, q, id, PartFirst) }

// ParseJobKey splits a job's key.
func ParseJobKey(key []byte) (q QueueID, id job.ID, part Part, ok bool) {
	if len(key) != 14 || key[0] != spaceJob {
		return 0, 0, 0, false
	}
	return QueueID(binary.BigEndian.Uint32(key[1:])), job.ID(binary.BigEndian.Uint64(key[5:])), Part(key[13]), true
}

// QueueSpan returns the range of all jobs, lists, groups, serials or fingerprints of q, one
// range per key space.
func QueueSpan(q QueueID) [][2][]byte {
	spans := make([][2][]byte, 0, 5)
	for _, space := range []byte{spaceJob, spaceList, spaceGroup, spaceSerial, spaceAlike} {
		spans = append(spans, [2][]byte{queueSpace(nil, space, q), queueSpace(nil, space, q+1)})
	}
	return spans
}

// ListKey appends the key of the entry of j in a list of its queue.
func ListKey(dst []byte, q QueueID, list List, j *job.Job) []byte {
	dst = ListStart(dst, q, list)
	switch list {
	case List(job.Scheduled), List(job.Retrying):
		dst = appendOrdInt(dst, int64(j.RunAt))
	case ListLeased:
		dst = append(dst, leaseSegment(j))
		dst = appendOrdUint(dst, j.Entered)
	case ListReady, ListGrouped, ListFirst:
		dst = appendOrder(dst, &j.Order)
	case List(job.Buried):
		dst = appendOrder(dst, buriedOrder(j))
	case ListPerGroup:
		dst = appendText(dst, j.Group)
		dst = appendOrder(dst, &j.Order)
	case ListTurn, ListRecheck: // have keys of their own
	case List(job.Done), List(job.Failed), List(job.Dead):
		dst = appendOrdUint(dst, j.Entered)
	case List(job.Blocked): // the id alone
	}
	return binary.BigEndian.AppendUint64(dst, uint64(j.ID))
}

// buriedOrder returns where a job is among those that are buried: as it was among the ready ones, or behind
// all of these in the order of burying.
func buriedOrder(j *job.Job) *job.Order {
	if j.Flags.Has(job.FlagBuriedLast) {
		return &job.Order{Rank: math.MaxInt64, Seq: j.Entered}
	}
	return &j.Order
}

// leaseSegment puts leases that end with their holder first, so that a restart
// reads only those.
func leaseSegment(j *job.Job) byte {
	if j.Lease.OnEnd == job.EndKeep {
		return 1
	}
	return 0
}

// ListStart appends the lowest key of a list, ListEnd the first above it.
func ListStart(dst []byte, q QueueID, list List) []byte {
	return append(queueSpace(dst, spaceList, q), byte(list))
}

// ListEnd appends the first key above a list.
func ListEnd(dst []byte, q QueueID, list List) []byte {
	return append(queueSpace(dst, spaceList, q), byte(list)+1)
}

// BoundLeases returns the range of the leases of q that end with their holder.
func BoundLeases(q QueueID) (lo, hi []byte) {
	lo = append(ListStart(nil, q, ListLeased), 0)
	return lo, append(ListStart(nil, q, ListLeased), 1)
}

// GroupSpan returns the range of the ready jobs of one group.
func GroupSpan(q QueueID, group string) (lo, hi []byte) {
	lo = appendText(ListStart(nil, q, ListPerGroup), group)
	hi = append([]byte(nil), lo...)
	hi[len(hi)-1]++ // the terminator of the text
	return lo, hi
}

// EntryID returns the job of a list entry.
func EntryID(key []byte) job.ID {
	if len(key) < 8 {
		return 0
	}
	return job.ID(binary.BigEndian.Uint64(key[len(key)-8:]))
}

// EntryPriority returns the priority in an entry of a list of ready jobs, without the list's own prefix. It is the
// lowest if the entry is none.
func EntryPriority(entry []byte) int64 {
	_, n := ordInt(entry)
	if v, m := ordInt(entry[n:]); m > 0 {
		return -v
	}
	return math.MinInt64
}

// ordInt is the inverse of appendOrdInt. It returns how many bytes it has read; zero if it is malformed.
func ordInt(b []byte) (v int64, read int) {
	if len(b) == 0 {
		return 0, 0
	}
	n, mask := int(b[0])-0x80, byte(0)
	if n < 0 {
		n, mask = -n, 0xff
	}
	if n > 8 || n >= len(b) {
		return 0, 0
	}
	var u uint64
	for _, c := range b[1 : 1+n] {
		u = u<<8 | uint64(c^mask)
	}
	if mask != 0 {
		return -int64(u) - 1, 1 + n
	}
	return int64(u), 1 + n
}

// GroupKey appends the key of the record of a group.
func GroupKey(dst []byte, q QueueID, group string) []byte {
	return append(queueSpace(dst, spaceGroup, q), group...)
}

// TimerKey appends the key of a job's timer.
func TimerKey(dst []byte, at job.Time, q QueueID, id job.ID) []byte {
	dst = TimerFrom(dst, at)
	dst = binary.BigEndian.AppendUint32(dst, uint32(q))
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

// TimerFrom appends the lowest key of the timers at or after a time.
func TimerFrom(dst []byte, at job.Time) []byte {
	at = max(at, 0) // what is due before 1970 is due
	return binary.BigEndian.AppendUint64(append(dst, spaceTimer), uint64(at))
}

// TimerEnd returns the first key above all timers.
func TimerEnd() []byte { return []byte{spaceTimer + 1} }

// ParseTimerKey splits a timer's key.
func ParseTimerKey(key []byte) (at job.Time, q QueueID, id job.ID, ok bool) {
	if len(key) != 21 || key[0] != spaceTimer {
		return 0, 0, 0, false
	}
	u := binary.BigEndian.Uint64(key[1:])
	if u > math.MaxInt64 {
		return 0, 0, 0, false
	}
	return job.Time(u), QueueID(binary.BigEndian.Uint32(key[9:])), job.ID(binary.BigEndian.Uint64(key[13:])), true
}

// KeyKey appends the entry of a client-given key. Its value is a KeyRef: the
// oldest job with the key, and whether there are more.
func KeyKey(dst []byte, namespace, key string) []byte {
	dst = appendText(append(dst, spaceKey), namespace)
	return append(dst, key...)
}

// IsKeyKey reports whether a key of the store is the entry of a client-given key.
func IsKeyKey(key []byte) bool { return len(key) > 0 && key[0] == spaceKey }

// KeysSpan returns the range of the entries of all client-given keys.
func KeysSpan() (lo, hi []byte) { return []byte{spaceKey}, []byte{spaceKey + 1} }

// MoreKey appends the entry of a further job with a key that repeats. Its value
// is the number of its queue.
func MoreKey(dst []byte, namespace, key string, id job.ID) []byte {
	dst = appendText(append(dst, spaceMore), namespace)
	dst = appendText(dst, key)
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

// MoreSpan returns the range of the further jobs with one key.
func MoreSpan(namespace, key string) (lo, hi []byte) {
	lo = appendText(appendText([]byte{spaceMore}, namespace), key)
	hi = append([]byte(nil), lo...)
	hi[len(hi)-1]++
	return lo, hi
}

// DecodeMore returns the job of an entry that MoreKey made.
func DecodeMore(key, value []byte) (JobRef, error) {
	queue, err := DecodeUint(value)
	return JobRef{Queue: QueueID(queue), ID: EntryID(key)}, err //nolint:gosec // written from a QueueID
}

// NumberKey appends the entry of a job under its 32-bit number. Its value is a JobRef.
func NumberKey(dst []byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, spaceNumber), number)
}

// SerialKey appends the entry of a job under its serial number. Its value is the id.
func SerialKey(dst []byte, q QueueID, serial uint64) []byte {
	return binary.BigEndian.AppendUint64(queueSpace(dst, spaceSerial, q), serial)
}

// AlikeKey appends the entry of a job under what it is about.
func AlikeKey(dst []byte, q QueueID, like job.Digest, id job.ID) []byte {
	return binary.BigEndian.AppendUint64(append(queueSpace(dst, spaceAlike, q), like[:]...), uint64(id))
}

// AlikeFrom returns the range of the jobs of q that are about the same, from an id on.
func AlikeFrom(q QueueID, like job.Digest, id job.ID) (lo, hi []byte) {
	return AlikeKey(nil, q, like, id), append(AlikeKey(nil, q, like, math.MaxUint64), 0)
}

// ParseAlikeKey splits the entry of a job under what it is about.
func ParseAlikeKey(key []byte) (q QueueID, like job.Digest, id job.ID, ok bool) {
	if len(key) != 29 || key[0] != spaceAlike {
		return 0, job.Digest{}, 0, false
	}
	return QueueID(binary.BigEndian.Uint32(key[1:])), job.Digest(key[5:21]), EntryID(key), true
}

// AllAlike returns the range of all such entries.
func AllAlike() (lo, hi []byte) { return []byte{spaceAlike}, []byte{spaceAlike + 1} }

// DependantKey appends the entry that says that job id of queue q waits for blocker.
func DependantKey(dst []byte, blocker job.ID, q QueueID, id job.ID) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, spaceDependant), uint64(blocker))
	dst = binary.BigEndian.AppendUint32(dst, uint32(q))
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

// DependantSpan returns the range of the dependants of a job.
func DependantSpan(blocker job.ID) (lo, hi []byte) {
	lo = binary.BigEndian.AppendUint64([]byte{spaceDependant}, uint64(blocker))
	return lo, binary.BigEndian.AppendUint64([]byte{spaceDependant}, uint64(blocker)+1)
}

// ParseDependantKey returns the waiting job of a dependant entry.
func ParseDependantKey(key []byte) (q QueueID, id job.ID, ok bool) {
	if len(key) != 21 || key[0] != spaceDependant {
		return 0, 0, false
	}
	return QueueID(binary.BigEndian.Uint32(key[9:])), job.ID(binary.BigEndian.Uint64(key[13:])), true
}

// EphemeralKey appends the entry of a job that does not survive a restart.
func EphemeralKey(dst []byte, q QueueID, id job.ID) []byte {
	return binary.BigEndian.AppendUint64(queueSpace(dst, spaceEphemeral, q), uint64(id))
}

// EphemeralSpan returns the range of all such entries.
func EphemeralSpan() (lo, hi []byte) { return []byte{spaceEphemeral}, []byte{spaceEphemeral + 1} }

// ParseEphemeralKey returns the job of such an entry.
func ParseEphemeralKey(key []byte) JobRef {
	if len(key) != 13 {
		return JobRef{}
	}
	return JobRef{Queue: QueueID(binary.BigEndian.Uint32(key[1:])), ID: EntryID(key)}
}

// QueueKey appends the key of a queue's record.
func QueueKey(dst []byte, namespace, name string) []byte {
	return append(appendText(append(dst, spaceQueue), namespace), name...)
}

// QueueNameKey appends the key under which the name of a queue is found by its number.
// Its value is the QueueKey.
func QueueNameKey(dst []byte, q QueueID) []byte { return queueSpace(dst, spaceName, q) }

// QueuesSpan returns the range of the queues of a namespace in order of their
// names, or of all queues if it is empty.
func QueuesSpan(namespace string) (lo, hi []byte) {
	if namespace == "" {
		return []byte{spaceQueue}, []byte{spaceQueue + 1}
	}
	return textSpan(spaceQueue, namespace)
}

// MetaKey is the key of the shard's counters.
func MetaKey() []byte { return []byte{spaceMeta} }

// SweepKey appends the key of the sweep of a queue.
func SweepKey(dst []byte, q QueueID) []byte { return queueSpace(dst, spaceSweep, q) }

// SweepSpan returns the range of all sweeps.
func SweepSpan() (lo, hi []byte) { return []byte{spaceSweep}, []byte{spaceSweep + 1} }

// ParseSweepKey returns the queue of a sweep.
func ParseSweepKey(key []byte) QueueID {
	if len(key) != 5 {
		return 0
	}
	return QueueID(binary.BigEndian.Uint32(key[1:]))
}

// textSpan returns the range of the keys of a space that go on with a text.
func textSpan(space byte, s string) (lo, hi []byte) {
	lo = appendText([]byte{space}, s)
	hi = append([]byte(nil), lo...)
	hi[len(hi)-1]++ // the terminator of the text
	return lo, hi
}

// appendText appends s so that texts sort as their bytes and none is the prefix
// of another: zero bytes are escaped and a terminator follows.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, s[i])
		if s[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}

// parseText is the inverse of appendText. It returns the text and what follows.
func parseText(b []byte) (s string, rest []byte, ok bool) {
	var buf []byte
	for i := 0; i < len(b); i++ {
		if b[i] != 0 {
			continue
		}
		if i+1 >= len(b) {
			break
		}
		switch b[i+1] {
		case 1:
			if buf == nil {
				return string(b[:i]), b[i+2:], true
			}
			return string(append(buf, b[:i]...)), b[i+2:], true
		case 0xff:
			buf = append(append(buf, b[:i]...), 0)
			b = b[i+2:]
			i = -1
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

// ParseQueueKey splits the key of a queue's record.
func ParseQueueKey(key []byte) (namespace, name string, ok bool) { return parseNamed(key, spaceQueue) }

// parseNamed splits a key that is a text and what follows it.
func parseNamed(key []byte, space byte) (text, name string, ok bool) {
	if len(key) < 1 || key[0] != space {
		return "", "", false
	}
	text, rest, ok := parseText(key[1:])
	return text, string(rest), ok
}

func appendOrder(dst []byte, o *job.Order) []byte {
	dst = appendOrdInt(dst, o.Rank)
	dst = appendOrdInt(dst, -o.Priority)
	dst = appendOrdInt(dst, int64(o.At))
	return appendOrdUint(dst, o.Seq)
}

// appendOrdUint appends v so that values sort as numbers: the count of significant
// bytes, then those bytes.
func appendOrdUint(dst []byte, v uint64) []byte {
	n := byteLen(v)
	dst = append(dst, 0x80+byte(n)) //nolint:gosec // at most 8
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i))) //nolint:gosec // one byte after the other
	}
	return dst
}

// appendOrdInt does the same for signed numbers: zero is 0x80, negative ones lie below.
func appendOrdInt(dst []byte, v int64) []byte {
	if v >= 0 {
		return appendOrdUint(dst, uint64(v))
	}
	u := uint64(-(v + 1)) //nolint:gosec // the complement, not negative
	n := max(byteLen(u), 1)
	dst = append(dst, 0x80-byte(n)) //nolint:gosec // at most 8
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, ^byte(u>>(8*i))) //nolint:gosec // one byte after the other
	}
	return dst
}

func byteLen(v uint64) int {
	n := 0
	for ; v != 0; v >>= 8 {
		n++
	}
	return n
}
