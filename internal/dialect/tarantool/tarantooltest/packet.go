package tarantooltest

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // the protocol wants it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// The types of requests.
const (
	TypeSelect    = 1
	TypeCall16    = 6
	TypeAuth      = 7
	TypeEval      = 8
	TypeCall      = 10
	TypeNop       = 12
	TypePing      = 64
	TypeID        = 73
	TypeWatch     = 74
	TypeUnwatch   = 75
	TypeEvent     = 76
	TypeWatchOnce = 77
)

// The keys of bodies that tests need.
const (
	keySpace      = 0x10
	keyTuple      = 0x21
	keyFunction   = 0x22
	keyUser       = 0x23
	keyExpression = 0x27
	keyData       = 0x30
	keyError      = 0x31
	keyErrorStack = 0x52
	keyVersion    = 0x54
	keyFeatures   = 0x55
	keyEvent      = 0x57
	keyEventData  = 0x58
)

// Packet returns a request: header and body in MessagePack behind their length. An
// empty body is left out.
func Packet(kind, sync uint64, body []byte) []byte {
	b := make([]byte, 0, 32+len(body))
	b = append(b, 0x82, 0x00)
	b = msgp.AppendUint64(b, kind)
	b = append(b, 0x01)
	b = msgp.AppendUint64(b, sync)
	return Frame(append(b, body...))
}

// Frame puts the length before the content of a packet.
func Frame(content []byte) []byte {
	b := append(make([]byte, 0, 5+len(content)), 0xce)
	b = binary.BigEndian.AppendUint32(b, uint32(len(content))) //nolint:gosec // what a test sends
	return append(b, content...)
}

// CallPacket returns a call of a procedure. The arguments are MessagePack values, one
// after the other, and count says how many.
func CallPacket(kind, sync uint64, procedure string, count int, args []byte) []byte {
	b := append(make([]byte, 0, 32+len(procedure)+len(args)), 0x82, keyFunction)
	b = msgp.AppendString(b, procedure)
	b = append(b, keyTuple)
	b = msgp.AppendArrayHeader(b, uint32(count)) //nolint:gosec // what a test sends
	return Packet(kind, sync, append(b, args...))
}

// count returns how many values b holds.
func count(b []byte) (n int, err error) {
	for ; len(b) > 0 && err == nil; n++ {
		b, err = msgp.Skip(b)
	}
	return n, err
}

// Greeting is what a server says first.
type Greeting struct {
	Version string
	Salt    []byte
}

// GreetingSize is the length of a greeting.
const GreetingSize = 128

// ParseGreeting reads a greeting.
func ParseGreeting(b []byte) (Greeting, error) {
	if len(b) != GreetingSize || b[63] != '\n' || b[127] != '\n' {
		return Greeting{}, fmt.Errorf("greeting %q is not two lines of 64 bytes", b)
	}
	words := strings.Fields(string(b[:63]))
	if len(words) != 4 || words[0] != "Tarantool" || words[2] != "(Binary)" || len(words[3]) != 36 {
		return Greeting{}, fmt.Errorf("greeting %q", b[:63])
	}
	salt, err := base64.StdEncoding.DecodeString(strings.TrimRight(string(b[64:127]), " "))
	if err != nil || len(salt) != 32 {
		return Greeting{}, fmt.Errorf("salt %q: %w", b[64:127], err)
	}
	return Greeting{Version: words[1], Salt: salt}, nil
}

// Scramble returns the answer to the salt of a greeting.
func (g Greeting) Scramble(password string) []byte {
	step1 := sha1.Sum([]byte(password)) //nolint:gosec // the protocol wants it
	step2 := sha1.Sum(step1[:])         //nolint:gosec // the protocol wants it
	h := sha1.New()                     //nolint:gosec // the protocol wants it
	h.Write(g.Salt[:sha1.Size])
	h.Write(step2[:])
	out := h.Sum(nil)
	for i := range out {
		out[i] ^= step1[i]
	}
	return out
}

// Reply is a packet from the server.
type Reply struct {
	Kind uint64 // zero, TypeEvent, or 0x8000 and the code of an error
	Sync uint64
	// Body holds the values of the body by their keys, Keys these in their order.
	Body map[uint64]msgp.Raw
	Keys []uint64
}

// Error is an error that the server has answered.
type Error struct {
	Code uint32
	Text string
}

// Error returns code and text.
func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Text) }

// errPacket means that a packet is not what the protocol asks of a server.
var errPacket = errors.New("malformed packet")

// packetMax is the longest packet that a test expects.
const packetMax = 128 << 20

// ReadReply reads one packet.
func ReadReply(r *bufio.Reader) (Reply, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Reply{}, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0xce || size > packetMax { // clients read exactly these five bytes
		return Reply{}, fmt.Errorf("%w: begins with %x", errPacket, head)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return Reply{}, err
	}
	return parseReply(b)
}

func parseReply(b []byte) (Reply, error) {
	header, _, rest, err := readMap(b)
	if err != nil {
		return Reply{}, fmt.Errorf("%w: header of %x: %w", errPacket, b, err)
	}
	var p Reply
	if p.Kind, _, err = msgp.ReadUint64Bytes(header[0]); err != nil {
		return p, fmt.Errorf("%w: kind in %x: %w", errPacket, b, err)
	}
	if p.Kind != TypeEvent {
		// The same 23 bytes before every body.
		if len(b)-len(rest) != 23 || string(header[5]) != "\xce\x00\x00\x00\x01" {
			return p, fmt.Errorf("%w: header of %x", errPacket, b)
		}
		if p.Sync, _, err = msgp.ReadUint64Bytes(header[1]); err != nil {
			return p, fmt.Errorf("%w: sync in %x: %w", errPacket, b, err)
		}
	}
	if p.Body, p.Keys, rest, err = readMap(rest); err != nil || len(rest) > 0 {
		return p, fmt.Errorf("%w: body of %x: %w", errPacket, b, err)
	}
	return p, nil
}

// readMap reads a map whose keys are numbers.
func readMap(b []byte) (m map[uint64]msgp.Raw, keys []uint64, rest []byte, err error) {
	n, rest, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return nil, nil, nil, err
	}
	m = make(map[uint64]msgp.Raw)
	for range n {
		var key uint64
		if key, rest, err = msgp.ReadUint64Bytes(rest); err != nil {
			return nil, nil, nil, err
		}
		after, err := msgp.Skip(rest)
		if err != nil {
			return nil, nil, nil, err
		}
		m[key] = msgp.Raw(rest[:len(rest)-len(after)])
		keys = append(keys, key)
		rest = after
	}
	return m, keys, rest, nil
}

// Err returns the error that the packet tells, *Error, or nil. It checks that the
// stack of the error says the same.
func (p *Reply) Err() error {
	if p.Kind < 0x8000 || p.Kind == TypeEvent {
		return nil
	}
	e := &Error{Code: uint32(p.Kind & 0x7fff)}
	text, _, err := msgp.ReadStringBytes(p.Body[keyError])
	if err != nil || text == "" {
		return fmt.Errorf("%w: text of error %d: %w", errPacket, e.Code, err)
	}
	e.Text = text
	kind := "ClientError"
	if e.Code == 32 {
		kind = "LuajitError"
	}
	want := fmt.Sprintf(`{0: [{0: %q, 1: "millrace", 2: 1, 3: %q, 4: 0, 5: %d}]}`, kind, text, e.Code)
	if stack, err := Format(p.Body[keyErrorStack]); err != nil || stack != want {
		return fmt.Errorf("%w: stack %s, want %s: %w", errPacket, stack, want, err)
	}
	return e
}
