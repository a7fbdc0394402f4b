package bench

import "encoding/binary"

// The bytes of MessagePack that are written and read here.
const (
	mpNil     = 0xc0
	mpTrue    = 0xc3
	mpFloat64 = 0xcb
	mpUint32  = 0xce
	mpUint64  = 0xcf
	mpStr8    = 0xd9
	mpStr16   = 0xda
	mpStr32   = 0xdb
	mpArray16 = 0xdc
	mpArray32 = 0xdd
)

// mpText appends a string.
func mpText(b []byte, s string) []byte { return append(mpHead(b, len(s)), s...) }

// mpHead appends how a string of n bytes begins.
func mpHead(b []byte, n int) []byte {
	switch {
	case n <= 0xff:
		return append(b, mpStr8, byte(n)) //nolint:gosec // of 8 bits
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, mpStr16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, mpStr32), uint32(n)) //nolint:gosec // bodies are far smaller
}

// mpString reads a string.
func mpString(b []byte) (s, rest []byte, err error) {
	var n int
	switch {
	case len(b) > 0 && b[0]&0xe0 == 0xa0:
		n, b = int(b[0]&0x1f), b[1:]
	case len(b) > 1 && b[0] == mpStr8:
		n, b = int(b[1]), b[2:]
	case len(b) > 2 && b[0] == mpStr16:
		n, b = int(binary.BigEndian.Uint16(b[1:])), b[3:]
	case len(b) > 4 && b[0] == mpStr32:
		n, b = int(binary.BigEndian.Uint32(b[1:])), b[5:]
	default:
		return nil, nil, errNoTask
	}
	if len(b) < n {
		return nil, nil, errNoTask
	}
	return b[:n], b[n:], nil
}

// mpArray reads the beginning of an array.
func mpArray(b []byte) (n int, rest []byte, err error) {
	switch {
	case len(b) > 0 && b[0]&0xf0 == 0x90:
		return int(b[0] & 0x0f), b[1:], nil
	case len(b) > 2 && b[0] == mpArray16:
		return int(binary.BigEndian.Uint16(b[1:])), b[3:], nil
	case len(b) > 4 && b[0] == mpArray32:
		return int(binary.BigEndian.Uint32(b[1:])), b[5:], nil
	}
	return 0, nil, errNoTask
}
