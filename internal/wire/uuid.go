package wire

import (
	"crypto/rand"
	"encoding/hex"
)

// uuids makes ids that nobody else has: half of one is random, the rest counts.
type uuids struct {
	random [8]byte
	count  uint32
}

// NewID returns an id that nobody else has, a UUID of version 4.
func NewID() string { return string(newUUIDs().appendNext(nil)) }

func newUUIDs() *uuids {
	u := &uuids{}
	_, _ = rand.Read(u.random[:]) // never fails
	return u
}

// appendNext appends a new UUID of version 4 in text form.
func (u *uuids) appendNext(b []byte) []byte {
	u.count++
	n, r := u.count, &u.random
	raw := [16]byte{
		r[0], r[1], r[2], r[3], r[4], r[5], r[6]&0x0f | 0x40, r[7], 0x80, 0,
		0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), //nolint:gosec // one byte each
	}
	at := 0
	for i, size := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, raw[at:at+size])
		at += size
	}
	return b
}
