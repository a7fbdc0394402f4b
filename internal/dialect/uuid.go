package dialect

import (
	"encoding/binary"

	"millrace/internal/job"
)

// Every dialect shows jobs that others have pushed under an id in its own format.
// The text forms of ids that are not plain numbers live here side by side, so that
// no two of them can be taken for each other.

// UUID is a UUID in binary form.
type UUID [16]byte

// UUIDLen is the length of a UUID's canonical text.
const UUIDLen = 36

// A job without a UUID of its own is shown as one that holds its id:
//
//	6d696c6c-7261-8365-8hhh-hhhhhhhhhhhh
//
// The h are the id in hexadecimal, 60 bits. The rest is a fixed marker, the
// letters "millrace" with a version of 8, which RFC 9562 leaves to vendors, and
// the RFC's variant: no generator of UUIDs makes it by chance.
const (
	uuidMarkHigh = 0x6d696c6c72618365
	uuidMarkLow  = 0x8 << uuidIDBits
	uuidIDBits   = 60
)

// UUIDOf returns the UUID under which a job without one of its own is shown.
func UUIDOf(id job.ID) UUID {
	var u UUID
	binary.BigEndian.PutUint64(u[:8], uuidMarkHigh)
	binary.BigEndian.PutUint64(u[8:], uuidMarkLow|uint64(id)&(1<<uuidIDBits-1))
	return u
}

// JobID is the inverse of UUIDOf; not ok for any other UUID.
func (u UUID) JobID() (id job.ID, ok bool) {
	low := binary.BigEndian.Uint64(u[8:])
	if binary.BigEndian.Uint64(u[:8]) != uuidMarkHigh || low>>uuidIDBits != uuidMarkLow>>uuidIDBits {
		return 0, false
	}
	return job.ID(low & (1<<uuidIDBits - 1)), true
}

// unhex holds the value of each hexadecimal digit, and notHex for other bytes.
var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = notHex
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	for i, c := range []byte("ABCDEF") {
		t[c] = byte(10 + i)
	}
	return t
}()

const notHex = 0xff

// ParseUUID reads a UUID of 8-4-4-4-12 hexadecimal digits in whatever case.
func ParseUUID[T string | []byte](text T) (u UUID, ok bool) {
	if len(text) != UUIDLen || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return UUID{}, false
	}
	at := 0
	for i := range u {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := unhex[text[at]], unhex[text[at+1]]
		if high == notHex || low == notHex {
			return UUID{}, false
		}
		u[i] = high<<4 | low
		at += 2
	}
	return u, true
}

// Append appends the canonical text: lower case, 8-4-4-4-12.
func (u UUID) Append(dst []byte) []byte {
	const digits = "0123456789abcdef"
	for i, b := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}

// String returns the canonical text.
func (u UUID) String() string {
	var b [UUIDLen]byte
	return string(u.Append(b[:0]))
}
