package legacy

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// What the procedures take for an argument that was not given.
const (
	defaultTTL      = 25 * 24 * time.Hour
	defaultTTR      = time.Minute
	defaultPriority = 127
)

// The limits of arguments.
const (
	priorityMin = -127
	priorityMax = 255
	spaceMax    = 1<<53 - 1
	tubeNameMax = 255 // bytes of a name
)

// readNumber reads an argument that is a number: of any width, a float, or
// decimal text. An empty text, which is all that a client of Tarantool 1.5 can send
// for nil, was not given.
func readNumber(v iproto.Value) (f float64, given, ok bool) {
	if v.IsNil() {
		return 0, false, true
	}
	if text, isText := v.Bytes(); isText && len(text) == 0 {
		return 0, false, true
	}
	f, ok = v.NumberOrText()
	return f, ok, ok
}

// readSpace reads the number of a space.
func readSpace(v iproto.Value) (space uint64, ok bool) {
	if space, ok = v.Uint(); ok {
		return space, space <= spaceMax
	}
	f, given, _ := readNumber(v)
	if !given || f < 0 || f > spaceMax || f != math.Trunc(f) {
		return 0, false
	}
	return uint64(f), true
}

// readSeconds reads a time in seconds. One that is not positive was not given.
func readSeconds(v iproto.Value, def time.Duration) (d time.Duration, ok bool) {
	f, given, ok := readNumber(v)
	if !given || f <= 0 {
		return def, ok
	}
	return max(proc.Seconds(f).Round(time.Microsecond), time.Microsecond), true
}

// readPriority reads a priority.
func readPriority(v iproto.Value) (pri int64, ok bool) {
	f, given, ok := readNumber(v)
	if !given {
		return defaultPriority, ok
	}
	return int64(math.Floor(min(max(f, priorityMin), priorityMax))), true
}

// readCount reads how many tasks something is to be done to; one if it does not say.
func readCount(v iproto.Value) (n int, ok bool) {
	f, given, ok := readNumber(v)
	if !given {
		return 1, ok
	}
	return int(min(max(f, 0), math.MaxInt32)), true
}

// dataFrom returns the arguments from the i-th on, one after the other, and how
// many they are. Nils at the end were not given.
func dataFrom(a *iproto.Args, i int) (raw []byte, n int) {
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
	idLen      = 2 * len(dialect.UUID{})
	idNumbered = 0x10 // in byte idDigit
	idDigit    = 8
)

// appendID appends the id of a job of a queue.
func appendID(b []byte, queueNum uint32, id job.ID, numbered bool) []byte {
	if numbered {
		queueNum = 0 // it is found wherever it is
	}
	u := dialect.UUIDOf(queueNum, id)
	if numbered {
		u[idDigit] |= idNumbered
	}
	return hex.AppendEncode(b, u[:])
}

// readRef names the job that has an id; not ok if none can have it.
func readRef(namespace string, v iproto.Value) (ref job.Ref, ok bool) {
	text, ok := v.Bytes()
	if !ok || len(text) != idLen {
		return job.Ref{}, false
	}
	var u dialect.UUID
	if _, err := hex.Decode(u[:], text); err != nil {
		return job.Ref{}, false
	}
	numbered := u[idDigit]&idNumbered != 0
	u[idDigit] &^= idNumbered
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
func (a *API) namespaceOf(c *proc.Call, space uint64) string {
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
	return c.Conn.Names.String(b)
}

// defaultNamespace is the namespace of a listener that is not told another.
const defaultNamespace = "default"
