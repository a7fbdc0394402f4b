package record

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"millrace/internal/job"
)

// Group is what is known of a group of a queue, besides its jobs. A group of which it would be zero has no record.
type Group struct {
	Running uint32 // how many of its jobs are leased
	// Only is the leased job of a group that is held, if there is only one and nothing else to be known: all that there
	// was of a group before FormatFair, and is still written so.
	Only job.ID
	// Held says that the group is in no list of firsts, because it may not have another job leased.
	Held bool
	// Turn is its place among the groups of a fair queue, Credit how many jobs it is given in that turn. Zero: it has
	// none, because it has no ready job or because the queue was not fair when it last had one leased.
	Turn   uint64
	Credit uint32
	// Bucket is what is left of its rate, and RecheckAt when that is to be looked at again. Zero: it is full.
	Bucket    job.Bucket
	RecheckAt job.Time
}

const groupVersion = 1

// Regroup is what is still to be done with the groups of a queue.
type Regroup byte

// What may be to be done.
const (
	RegroupShow   Regroup = 1 + iota // each is shown, or hidden, as the limits say
	RegroupRefill                    // and its rate begins full
)

// AppendGroup appends the record of a group: the number of its only job, or all of it behind a zero.
func AppendGroup(dst []byte, g *Group) []byte {
	if g.Only != 0 && *g == (Group{Running: 1, Held: true, Only: g.Only}) {
		return AppendUint(dst, uint64(g.Only))
	}
	dst = append(dst, 0, groupVersion)
	var held uint64
	if g.Held {
		held = 1
	}
	vs := []uint64{
		uint64(g.Running), held, g.Turn, uint64(g.Credit),
		uint64(g.Bucket.Level), uint64(g.Bucket.At), uint64(g.RecheckAt), //nolint:gosec // none is negative
	}
	for len(vs) > 0 && vs[len(vs)-1] == 0 {
		vs = vs[:len(vs)-1]
	}
	return appendUints(dst, vs)
}

// DecodeGroup is the inverse of AppendGroup.
func DecodeGroup(b []byte) (Group, error) {
	if len(b) > 0 && b[0] != 0 {
		id, err := DecodeUint(b)
		return Group{Running: 1, Held: true, Only: job.ID(id)}, err
	}
	d := decoder{b: b}
	d.byte()
	if _, err := d.versions("group", groupVersion); err != nil {
		return Group{}, err
	}
	var vs [7]uint64
	d.uints(vs[:])
	if vs[0] > 1<<32-1 || vs[1] > 1 || vs[3] > 1<<32-1 {
		d.fail()
	}
	//nolint:gosec // looked at above, or written from these very types
	g := Group{
		Running: uint32(vs[0]), Held: vs[1] == 1, Turn: vs[2], Credit: uint32(vs[3]),
		Bucket: job.Bucket{Level: int64(vs[4]), At: job.Time(vs[5])}, RecheckAt: job.Time(vs[6]),
	}
	return g, d.end("group")
}

// ParseGroupKey returns the group of such a record.
func ParseGroupKey(key []byte) string {
	if len(key) < 5 {
		return ""
	}
	return string(key[5:])
}

// TurnKey appends the entry of a group of a fair queue: its first job has this priority and number.
func TurnKey(dst []byte, q QueueID, priority int64, turn uint64, id job.ID) []byte {
	dst = appendOrdInt(ListStart(dst, q, ListTurn), -priority)
	return binary.BigEndian.AppendUint64(appendOrdUint(dst, turn), uint64(id))
}

// EntryTurn returns the turn in such an entry, zero if it is none.
func EntryTurn(key []byte) uint64 {
	if len(key) < 6 {
		return 0
	}
	entry := key[6:]
	_, n := ordInt(entry)
	turn, m := ordInt(entry[n:])
	if n == 0 || m == 0 {
		return 0
	}
	return uint64(turn) //nolint:gosec // written from a sequence
}

// RecheckKey appends the entry of a group whose rate is to be looked at again at a time.
func RecheckKey(dst []byte, q QueueID, at job.Time, group string) []byte {
	dst = appendOrdInt(ListStart(dst, q, ListRecheck), int64(at))
	return append(dst, group...)
}

// ParseRecheckKey returns the time and the group of such an entry.
func ParseRecheckKey(key []byte) (at job.Time, group string, ok bool) {
	if len(key) < 6 {
		return 0, "", false
	}
	v, n := ordInt(key[6:])
	return job.Time(v), string(key[6+n:]), n > 0
}

// appendFairness appends the limits of groups and how they take turns.
func appendFairness(dst []byte, q *Queue) []byte {
	l := &q.Limits
	var bits uint64
	for i, on := range [...]bool{q.Fairness.On, q.Turns} {
		if on {
			bits |= 1 << i
		}
	}
	//nolint:gosec // none of them is negative
	dst = appendUints(dst, []uint64{
		uint64(l.GroupConcurrency), uint64(l.GroupRate), uint64(l.GroupPer), uint64(l.GroupBurst), bits, q.Turn,
		uint64(q.Credit),
		uint64(q.Regroup),
	})
	dst = binary.AppendUvarint(dst, uint64(len(q.Fairness.Weights)))
	for _, group := range slices.Sorted(maps.Keys(q.Fairness.Weights)) {
		dst = appendBytes(dst, []byte(group))
		dst = binary.AppendUvarint(dst, uint64(q.Fairness.Weights[group]))
	}
	return dst
}

func (d *decoder) fairness(q *Queue) {
	var vs [8]uint64
	d.uints(vs[:])
	for _, i := range []int{0, 1, 3, 6} {
		if vs[i] > 1<<32-1 {
			d.fail()
		}
	}
	l := &q.Limits
	//nolint:gosec // looked at above, or written from these very types
	l.GroupConcurrency, l.GroupRate, l.GroupPer, l.GroupBurst = uint32(vs[0]), uint32(vs[1]),
		time.Duration(vs[2]), uint32(vs[3])
	q.Regroup = Regroup(vs[7]) //nolint:gosec // looked at below
	q.Fairness.On, q.Turns = vs[4]&1 != 0, vs[4]&2 != 0
	q.Turn, q.Credit = vs[5], uint32(vs[6]) //nolint:gosec // as above
	n := d.uvarint()
	if n > job.WeightsMax || vs[7] > uint64(RegroupRefill) {
		d.fail()
		return
	}
	for range n {
		group := string(d.bytes())
		if q.Fairness.Weights == nil {
			q.Fairness.Weights = map[string]uint32{}
		}
		q.Fairness.Weights[group] = d.uint32()
	}
	fair, err := q.Fairness.Tidy()
	if err != nil || fair.On != q.Fairness.On || len(fair.Weights) != int(n) || q.Fairness.On && !q.Turns {
		d.fail()
	}
}
