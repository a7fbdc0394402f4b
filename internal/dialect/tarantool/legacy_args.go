package tarantool

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// What the legacy procedures take for an argument that was not given.
const (
	legacyTTL      = 25 * 24 * time.Hour
	legacyTTR      = time.Minute
	legacyPriority = 127
)

// The limits of arguments.
const (
	legacyPriorityMin = -127
	legacyPriorityMax = 255
	legacySpaceMax    = 1<<53 - 1
	legacyTubeMax     = 255 // bytes of a name
)

// legacyNumber reads an argument that is a number: of whatever width, a float, or
// decimal text. An empty text, which is all that a client of Tarantool 1.5 can send
// for nil, was not given.
func legacyNumber(v iproto.Value) (f float64, given, ok bool) {
	if v.IsNil() {
		return 0, false, true
	}
	if text, isText := v.Bytes(); isText && len(text) == 0 {
		return 0, false, true
	}
	f, ok = v.NumberOrText()
	return f, ok, ok
}

// legacySpace reads the number of a space.
func legacySpace(v iproto.Value) (space uint64, ok bool) {
	if space, ok = v.Uint(); ok {
		return space, space <= legacySpaceMax
	}
	f, given, _ := legacyNumber(v)
	if !given || f < 0 || f > legacySpaceMax || f != math.Trunc(f) {
		return 0, false
	}
	return uint64(f), true
}

// legacySeconds reads a time in seconds. One that is not positive was not given.
func legacySeconds(v iproto.Value, def time.Duration) (d time.Duration, ok bool) {
	f, given, ok := legacyNumber(v)
	if !given || f <= 0 {
		return def, ok
	}
	return max(seconds(f).Round(time.Microsecond), time.Microsecond), true
}

// legacyPri reads a priority.
func legacyPri(v iproto.Value) (pri int64, ok bool) {
	f, given, ok := legacyNumber(v)
	if !given {
		return legacyPriority, ok
	}
	return int64(math.Floor(min(max(f, legacyPriorityMin), legacyPriorityMax))), true
}

// legacyCount reads how many tasks something is to be done to; one if it does not say.
func legacyCount(v iproto.Value) (n int, ok bool) {
	f, given, ok := legacyNumber(v)
	if !given {
		return 1, ok
	}
	return int(min(max(f, 0), math.MaxInt32)), true
}

// legacyData returns the arguments from the i-th on, one after the other, and how
// many they are. Nils at the end were not given.
func legacyData(a *iproto.Args, i int) (raw []byte, n int) {
	raw, n = a.From(i), max(a.Count()-i, 0)
	if n == 0 || raw[len(raw)-1] != iproto.Nil {
		return raw, n
	}
	end, last := 0, 0 // behind the last that is not nil
	for rest, k := raw, 1; len(rest) > 0; k++ {
		var v iproto.Value
		if v, rest = iproto.Cut(rest); !v.IsNil() {
			end, last = len(raw)-len(rest), k
		}
	}
	return raw[:end], last
}

// A task's id is 32 hexadecimal digits: the UUID that tells where a job is, without its
// hyphens. The id of a job that the engine finds by its 32-bit number has another digit
// and names no queue, so that it stays the same when the job is moved.
const (
	legacyIDLen    = 2 * len(dialect.UUID{})
	legacyNumbered = 0x10 // in byte legacyDigit
	legacyDigit    = 8
)

// appendLegacyID appends the id of a job of a queue.
func appendLegacyID(b []byte, queueNum uint32, id job.ID, numbered bool) []byte {
	if numbered {
		queueNum = 0 // it is found wherever it is
	}
	u := dialect.UUIDOf(queueNum, id)
	if numbered {
		u[legacyDigit] |= legacyNumbered
	}
	return hex.AppendEncode(b, u[:])
}

// legacyRef names the job that has an id; not ok if none can have it.
func legacyRef(namespace string, v iproto.Value) (ref job.Ref, ok bool) {
	text, ok := v.Bytes()
	if !ok || len(text) != legacyIDLen {
		return job.Ref{}, false
	}
	var u dialect.UUID
	if _, err := hex.Decode(u[:], text); err != nil {
		return job.Ref{}, false
	}
	numbered := u[legacyDigit]&legacyNumbered != 0
	u[legacyDigit] &^= legacyNumbered
	queue, id, ok := u.Job()
	if !numbered {
		return job.ByPlace(namespace, queue, id), ok
	}
	ref = job.ByNumber(namespace, id.Number())
	ref.ID = id
	return ref, ok
}

// namespaceOf returns where the tubes of a space are: space 0 is the listener's
// own namespace, others have one each.
func (a *legacyAPI) namespaceOf(c *call, space uint64) string {
	own := a.namespace
	if space == 0 {
		return own
	}
	var buf [64]byte
	b := buf[:0]
	if own != defaultNamespace {
		b = append(append(b, own...), '-')
	}
	b = strconv.AppendUint(append(b, "space-"...), space, 10)
	return c.conn.names.String(b)
}

// defaultNamespace is the namespace of a listener that is not told another.
const defaultNamespace = "default"
