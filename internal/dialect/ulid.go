package dialect

import (
	"encoding/binary"

	"millrace/internal/job"
)

// ULID is a ULID in binary form: 48 bits of milliseconds since 1970 and 80 bits
// that its maker chooses.
type ULID [16]byte

// ULIDLen is the length of a ULID's text.
const ULIDLen = 26

// A job without a ULID of its own is shown as one that holds its id: the letters
// "millrace" and the id as a 64-bit number. As a time the first six of them lie in
// the year 5782, so no generator makes such a ULID.
const ulidMark = 0x6d696c6c72616365

// ULIDOf returns the ULID under which a job without one of its own is shown.
func ULIDOf(id job.ID) ULID {
	var u ULID
	binary.BigEndian.PutUint64(u[:8], ulidMark)
	binary.BigEndian.PutUint64(u[8:], uint64(id))
	return u
}

// JobID is the inverse of ULIDOf; not ok for any other ULID.
func (u ULID) JobID() (id job.ID, ok bool) {
	return job.ID(binary.BigEndian.Uint64(u[8:])), binary.BigEndian.Uint64(u[:8]) == ulidMark
}

// SetTime sets the time, in milliseconds since 1970.
func (u *ULID) SetTime(ms uint64) {
	binary.BigEndian.PutUint64(u[:8], ms<<16|uint64(u[6])<<8|uint64(u[7]))
}

// Time returns the time in milliseconds since 1970.
func (u ULID) Time() uint64 { return binary.BigEndian.Uint64(u[:8]) >> 16 }

// crockford are the 32 digits, five bits each: no I, L, O and U.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// uncrockford holds the value of each digit, and notCrockford for other bytes.
var uncrockford = func() (t [256]byte) {
	for i := range t {
		t[i] = notCrockford
	}
	for i := range len(crockford) {
		t[crockford[i]] = byte(i)
	}
	return t
}()

const notCrockford = 0xff

// Append appends the text: 26 digits, of which the first holds only three bits.
func (u ULID) Append(dst []byte) []byte {
	high, low := binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
	dst = append(dst, crockford[high>>61])
	// Twelve digits from the rest of the high half, one across the middle, twelve from the low half.
	for shift := 56; shift >= 1; shift -= 5 {
		dst = append(dst, crockford[high>>shift&31])
	}
	dst = append(dst, crockford[(high<<4|low>>60)&31])
	for shift := 55; shift >= 0; shift -= 5 {
		dst = append(dst, crockford[low>>shift&31])
	}
	return dst
}

// String returns the text.
func (u ULID) String() string {
	var b [ULIDLen]byte
	return string(u.Append(b[:0]))
}

// ParseULID reads the text of a ULID as Append writes it: upper case, and no digit
// that stands for another.
func ParseULID[T string | []byte](text T) (u ULID, ok bool) {
	if len(text) != ULIDLen || text[0] > '7' {
		return ULID{}, false
	}
	var high, low uint64
	for i := range ULIDLen {
		d := uncrockford[text[i]]
		if d == notCrockford {
			return ULID{}, false
		}
		high, low = high<<5|low>>59, low<<5|uint64(d)
	}
	binary.BigEndian.PutUint64(u[:8], high)
	binary.BigEndian.PutUint64(u[8:], low)
	return u, true
}
