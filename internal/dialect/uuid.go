package dialect

import (
	"crypto/rand"
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

// NewUUID returns a random UUID (version 4).
func NewUUID() (u UUID) {
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// A job without a UUID of its own is shown as one that tells where it is:
//
//	6d696c6c-qqqq-8qqq-8qhh-hhhhhhhhhhhh
//
// The q are the number of its queue in hexadecimal, the h its id, 56 bits. The rest is
// a fixed marker, the letters "mill", a version of 8, which RFC 9562 leaves to
// vendors, and the RFC's variant: no generator of UUIDs makes it by chance.
const (
	uuidMark    = 0x6d696c6c
	uuidVersion = 0x8
	uuidVariant = 0x8
	uuidIDBits  = 56
)

// UUIDOf returns the UUID under which the job of a queue is shown that has none of its
// own.
func UUIDOf(queueNum uint32, id job.ID) UUID {
	q := uint64(queueNum)
	var u UUID
	binary.BigEndian.PutUint64(u[:8], uuidMark<<32|q>>16<<16|uuidVersion<<12|q>>4&0xfff)
	binary.BigEndian.PutUint64(u[8:], uuidVariant<<60|q&0xf<<uuidIDBits|uint64(id)&(1<<uuidIDBits-1))
	return u
}

// Job is the inverse of UUIDOf; not ok for any other UUID.
func (u UUID) Job() (queueNum uint32, id job.ID, ok bool) {
	high, low := binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
	if high>>32 != uuidMark || high>>12&0xf != uuidVersion || low>>60 != uuidVariant {
		return 0, 0, false
	}
	q := high>>16&0xffff<<16 | high&0xfff<<4 | low>>uuidIDBits&0xf
	return uint32(q), job.ID(low & (1<<uuidIDBits - 1)), true //nolint:gosec // put together from 32 bits
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

// ParseUUID reads a UUID of 8-4-4-4-12 hexadecimal digits, upper or lower case.
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
