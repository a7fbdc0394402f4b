package iproto

import (
	"encoding/base64"
	"errors"
	"math"

	"github.com/tinylib/msgp/msgp"
)

const (
	greetingSize = 128
	greetingLine = 64
)

// SaltSize is the length of the random bytes that a greeting has.
const SaltSize = 32

// Greeting is two lines: who speaks, with the text of its UUID, and the salt of this connection.
func Greeting(version string, instance []byte, salt *[SaltSize]byte) []byte {
	b := make([]byte, 0, greetingSize)
	b = append(b, "Tarantool "+version+" (Binary) "...)
	b = append(b, instance...)
	b = append(pad(b, greetingLine-1), '\n')
	b = base64.StdEncoding.AppendEncode(b, salt[:])
	return append(pad(b, greetingSize-1), '\n')
}

func pad(b []byte, size int) []byte {
	for len(b) < size {
		b = append(b, ' ')
	}
	return b
}

// ErrFrame means that a packet has no length.
var ErrFrame = errors.New("malformed packet length")

// Frame reads the length before a packet. It returns that of both together; zero if in does not tell yet.
func Frame(in []byte) (uint64, error) {
	if len(in) == 0 {
		return 0, nil
	}
	head := sizeOfSize(in[0])
	if head == 0 {
		return 0, ErrFrame
	}
	if len(in) < head {
		return 0, nil
	}
	size, _, err := msgp.ReadUint64Bytes(in)
	return min(size, math.MaxInt64) + uint64(head), err //nolint:gosec // small
}

// Content returns a packet without the length before it.
func Content(packet []byte) []byte { return packet[sizeOfSize(packet[0]):] }

// sizeOfSize returns how many bytes a number of an unsigned type has that begins so, as the length of a packet does;
// zero if it is none.
func sizeOfSize(first byte) int {
	switch {
	case first < 0x80:
		return 1
	case first >= msgUint8 && first <= msgUint64:
		return 1 + 1<<(first-msgUint8)
	default:
		return 0
	}
}

// The first bytes of some values.
const (
	msgTrue    = 0xc3
	msgUint8   = 0xcc
	msgUint32  = 0xce
	msgUint64  = 0xcf
	msgArray32 = 0xdd
)
