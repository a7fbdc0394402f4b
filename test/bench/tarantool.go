package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
)

var tarantool = protocol{
	name: "tarantool",
	bulk: "64 pipelined put",
	dial: func(addr, queue string) (client, error) { return dialTarantool(addr, queue, "fifo") },
	serve: func(l net.Listener) error {
		return serveTCP(l, strings.Repeat(" ", greetingSize), func() answerFunc { return answerTarantool })
	},
}

// tarantoolClient speaks IPROTO: frames of MessagePack, of which it sends calls of the methods of one tube.
type tarantoolClient struct {
	*link
	tube      string
	sync      uint64
	put, take []byte // the bodies of calls
	acking    []byte // the body of an ack, up to its argument
	id        []byte // of the task taken last, in MessagePack
}

const (
	greetingSize = 128
	// replyHeader is how long the header of a reply is: status, sync and schema version in full length.
	replyHeader = 23
	statusAt    = 3 // in a reply's header
	syncAt      = 9
	// frameSize is how a frame begins: its size as an unsigned integer of 32 bits.
	frameSize = 5
)

// The bytes of MessagePack that are written here.
const (
	mpNil     = 0xc0
	mpTrue    = 0xc3
	mpFloat64 = 0xcb
	mpUint32  = 0xce
	mpUint64  = 0xcf
	mpStr8    = 0xd9
	mpArray32 = 0xdd
)

// dialTarantool connects and makes sure that there is a tube of a type.
func dialTarantool(addr, tube, kind string) (*tarantoolClient, error) {
	l, err := dialLink(addr)
	if err != nil {
		return nil, err
	}
	c := &tarantoolClient{link: l, tube: tube}
	if _, err := c.block(greetingSize); err != nil {
		return nil, closing(l, err)
	}
	c.call(appendCall(nil, "queue.create_tube", mpText(nil, tube), mpText(nil, kind), append(mpText([]byte{0x81}, "if_not_exists"), mpTrue)))
	if err := c.send(); err != nil {
		return nil, closing(l, err)
	}
	if _, err := c.reply(); err != nil {
		return nil, closing(l, fmt.Errorf("make a tube: %w", err))
	}
	c.put = c.method("put", mpText(nil, payload))
	c.take = c.method("take", binary.BigEndian.AppendUint64([]byte{mpFloat64}, math.Float64bits(fetchWait.Seconds())))
	c.acking = c.method("ack", nil)
	return c, nil
}

// putInto makes the following puts go to a sub-queue.
func (c *tarantoolClient) putInto(key string) {
	c.put = c.method("put", mpText(nil, payload), mpText(mpText([]byte{0x81}, "utube"), key))
}

// method returns the body of a call of a method of the tube.
func (c *tarantoolClient) method(name string, args ...[]byte) []byte {
	return appendCall(nil, "queue.tube."+c.tube+":"+name, args...)
}

// mpText appends a string of up to 255 bytes.
func mpText(b []byte, s string) []byte { return append(append(b, mpStr8, byte(len(s))), s...) } //nolint:gosec // names and the payload

// appendCall appends the body of a call with less than 16 arguments.
func appendCall(b []byte, function string, args ...[]byte) []byte {
	b = mpText(append(b, 0x82, 0x22), function)
	b = append(b, 0x21, 0x90|byte(len(args))) //nolint:gosec // a few
	return append(b, bytes.Join(args, nil)...)
}

// call appends a request with a body.
func (c *tarantoolClient) call(body []byte) {
	const header = 13 // the bytes from the map on
	c.sync++
	c.out = binary.BigEndian.AppendUint32(append(c.out, mpUint32), uint32(header+len(body))) //nolint:gosec // short
	c.out = binary.BigEndian.AppendUint64(append(c.out, 0x82, 0x00, 0x0a, 0x01, mpUint64), c.sync)
	c.out = append(c.out, body...)
}

// reply returns the body of the next reply; it is valid until the next read.
func (c *tarantoolClient) reply() ([]byte, error) {
	head, err := c.block(frameSize)
	if err != nil {
		return nil, err
	}
	if head[0] != mpUint32 {
		return nil, fmt.Errorf("a frame begins with %#x", head[0])
	}
	frame, err := c.block(int(binary.BigEndian.Uint32(head[1:])))
	if err != nil {
		return nil, err
	}
	if len(frame) <= replyHeader {
		return nil, io.ErrUnexpectedEOF
	}
	if status := binary.BigEndian.Uint32(frame[statusAt:]); status != 0 {
		return nil, fmt.Errorf("status %#x: %q", status, frame[replyHeader:])
	}
	return frame[replyHeader:], nil
}

func (c *tarantoolClient) push() error { return c.pushMany(1) }

func (c *tarantoolClient) pushMany(n int) error {
	for range n {
		c.call(c.put)
	}
	if err := c.send(); err != nil {
		return err
	}
	for range n {
		if _, err := c.reply(); err != nil {
			return err
		}
	}
	return nil
}

func (c *tarantoolClient) fetch() (ok bool, err error) {
	c.call(c.take)
	if err := c.send(); err != nil {
		return false, err
	}
	body, err := c.reply()
	if err != nil {
		return false, err
	}
	id, err := taskID(body)
	c.id = append(c.id[:0], id...)
	return len(id) > 0, err
}

func (c *tarantoolClient) ack() error {
	c.acking = append(c.acking, c.id...)
	c.call(c.acking)
	c.acking = c.acking[:len(c.acking)-len(c.id)]
	if err := c.send(); err != nil {
		return err
	}
	_, err := c.reply()
	return err
}

var errNoTask = errors.New("malformed answer to a take")

// taskID returns the id, as it is written, in the body of the answer to a take; none if that has
// no task.
func taskID(body []byte) ([]byte, error) {
	b, ok := bytes.CutPrefix(body, []byte{0x81, 0x30})
	if !ok {
		return nil, errNoTask
	}
	n, b, err := arrayLen(b)
	if err != nil || n == 0 || (len(b) > 0 && b[0] == mpNil) {
		return nil, err
	}
	if _, b, err = arrayLen(b); err != nil || len(b) == 0 {
		return nil, errNoTask
	}
	size := 1
	switch {
	case b[0] < 0x80:
	case b[0] >= 0xcc && b[0] <= mpUint64: // unsigned integers of 1, 2, 4 and 8 bytes
		size += 1 << (b[0] - 0xcc)
	default:
		return nil, errNoTask
	}
	if len(b) < size {
		return nil, errNoTask
	}
	return b[:size], nil
}

// arrayLen reads the beginning of an array.
func arrayLen(b []byte) (n int, rest []byte, err error) {
	switch {
	case len(b) > 0 && b[0]&0xf0 == 0x90:
		return int(b[0] & 0x0f), b[1:], nil
	case len(b) > 2 && b[0] == 0xdc:
		return int(binary.BigEndian.Uint16(b[1:])), b[3:], nil
	case len(b) > 4 && b[0] == mpArray32:
		return int(binary.BigEndian.Uint32(b[1:])), b[5:], nil
	}
	return 0, nil, errNoTask
}

// tarantoolTask is what the server that does nothing answers to every request.
var tarantoolTask = func() []byte {
	b := []byte{
		mpUint32, 0, 0, 0, 0, // the size
		0x83, 0x00, mpUint32, 0, 0, 0, 0, // the status
		0x01, mpUint64, 0, 0, 0, 0, 0, 0, 0, 0, // the sync
		0x05, mpUint32, 0, 0, 0, 1, // the schema version
		0x81, 0x30, mpArray32, 0, 0, 0, 1, 0x93, 7, 0xa1, 't',
	}
	b = mpText(b, payload)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-frameSize))
	return b
}()

func answerTarantool(in *bufio.Reader, out []byte) ([]byte, error) {
	head, err := in.Peek(frameSize)
	if err != nil {
		return out, err
	}
	size := frameSize + int(binary.BigEndian.Uint32(head[1:]))
	frame, err := in.Peek(size)
	if err != nil {
		return out, err
	}
	const at = frameSize + 5 // the sync of a request of ours
	start := len(out)
	out = append(out, tarantoolTask...)
	copy(out[start+frameSize+syncAt:][:8], frame[at:])
	_, err = in.Discard(size)
	return out, err
}
