package bench

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // the protocol wants it
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
)

// TarantoolClient speaks IPROTO: frames of MessagePack, of which it sends calls of the methods of one tube.
type TarantoolClient struct {
	*link
	tube   string
	sync   uint64
	put    []byte // the body of a put, up to its first argument
	option []byte // of a put, its second argument
	take   []byte // the body of a call
	acking []byte // the body of an ack, up to its argument
	id     []byte // of the task taken last, in MessagePack
}

const (
	greetingSize = 128
	saltLine     = 64 // where in a greeting the salt is
	saltSize     = 44 // in base64
	// replyHeader is how long the header of a reply is: status, sync and schema version in full length.
	replyHeader = 23
	statusAt    = 3 // in a reply's header
	syncAt      = 9
	// frameSize is how a frame begins: its size as an unsigned integer of 32 bits.
	frameSize = 5
)

// The types of requests that are sent here.
const (
	iprotoAuth = 0x07
	iprotoCall = 0x0a
)

// DialTarantool connects and makes sure that there is a tube of a type.
func DialTarantool(o DialOptions, kind string) (*TarantoolClient, error) {
	l, err := dialLink(o)
	if err != nil {
		return nil, err
	}
	c := &TarantoolClient{link: l, tube: o.Queue}
	greeting, err := c.block(greetingSize)
	if err != nil {
		return nil, closing(l, err)
	}
	if user, password, ok := strings.Cut(o.Secret, ":"); ok {
		if err := c.login(greeting, user, password); err != nil {
			return nil, closing(l, fmt.Errorf("log in as %s: %w", user, err))
		}
	}
	c.request(iprotoCall, appendCall(nil, "queue.create_tube", mpText(nil, c.tube), mpText(nil, kind),
		append(mpText([]byte{0x81}, "if_not_exists"), mpTrue)))
	if err := c.answered(1); err != nil {
		return nil, closing(l, fmt.Errorf("make a tube: %w", err))
	}
	c.put = c.method("put", nil)
	c.take = c.method("take", binary.BigEndian.AppendUint64([]byte{mpFloat64}, math.Float64bits(FetchWait.Seconds())))
	c.acking = c.method("ack", nil)
	return c, nil
}

func dialFIFO(o DialOptions) (Client, error) { return DialTarantool(o, "fifo") }

// login proves to know a password: chap-sha1.
func (c *TarantoolClient) login(greeting []byte, user, password string) error {
	salt, err := base64.StdEncoding.DecodeString(string(greeting[saltLine : saltLine+saltSize]))
	if err != nil || len(salt) < sha1.Size {
		return fmt.Errorf("the greeting %q has no salt", greeting)
	}
	once := sha1.Sum([]byte(password))                                  //nolint:gosec // the protocol wants it
	twice := sha1.Sum(once[:])                                          //nolint:gosec // the protocol wants it
	salted := sha1.Sum(append(salt[:sha1.Size:sha1.Size], twice[:]...)) //nolint:gosec // the protocol wants it
	proof := make([]byte, sha1.Size)
	subtle.XORBytes(proof, once[:], salted[:])
	body := mpText([]byte{0x82, 0x23}, user)
	body = mpText(append(body, 0x21, 0x92), "chap-sha1")
	c.request(iprotoAuth, mpText(body, string(proof)))
	return c.answered(1)
}

// PutInto makes the following puts go to a sub-queue.
func (c *TarantoolClient) PutInto(key string) {
	c.option = mpText(mpText([]byte{0x81}, "utube"), key)
	c.put = c.method("put", nil, nil)
}

// method returns the body of a call of a method of the tube.
func (c *TarantoolClient) method(name string, args ...[]byte) []byte {
	return appendCall(nil, "queue.tube."+c.tube+":"+name, args...)
}

// appendCall appends the body of a call with less than 16 arguments.
func appendCall(b []byte, function string, args ...[]byte) []byte {
	b = mpText(append(b, 0x82, 0x22), function)
	b = append(b, 0x21, 0x90|byte(len(args))) //nolint:gosec // a few
	return append(b, bytes.Join(args, nil)...)
}

// request appends a request whose body is in parts.
func (c *TarantoolClient) request(kind byte, parts ...[]byte) {
	size := 13 // the header, from its map on
	for _, p := range parts {
		size += len(p)
	}
	c.sync++
	c.out = binary.BigEndian.AppendUint32(append(c.out, mpUint32), uint32(size))
	c.out = binary.BigEndian.AppendUint64(append(c.out, 0x82, 0x00, kind, 0x01, mpUint64), c.sync)
	for _, p := range parts {
		c.out = append(c.out, p...)
	}
}

func (c *TarantoolClient) addPut(body []byte) {
	var head [frameSize]byte
	c.request(iprotoCall, c.put, mpHead(head[:0], len(body)), body, c.option)
}

// answered sends what there is and reads n good replies.
func (c *TarantoolClient) answered(n int) error {
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

// reply returns the body of the next reply; it is valid until the next read.
func (c *TarantoolClient) reply() ([]byte, error) {
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

// Push implements Client.
func (c *TarantoolClient) Push(body []byte) error {
	c.addPut(body)
	return c.answered(1)
}

// PushMany implements Client.
func (c *TarantoolClient) PushMany(bodies [][]byte) error {
	for _, b := range bodies {
		c.addPut(b)
	}
	return c.answered(len(bodies))
}

// Fetch implements Client.
func (c *TarantoolClient) Fetch() (body []byte, ok bool, err error) {
	c.request(iprotoCall, c.take)
	if err := c.send(); err != nil {
		return nil, false, err
	}
	reply, err := c.reply()
	if err != nil {
		return nil, false, err
	}
	id, body, err := task(reply)
	c.id = append(c.id[:0], id...)
	return body, len(id) > 0, err
}

// Ack implements Client.
func (c *TarantoolClient) Ack() error {
	c.request(iprotoCall, c.acking, c.id)
	return c.answered(1)
}

var errNoTask = errors.New("malformed answer to a take")

// task returns the id, as it is written, and the data in the body of the answer to a take; no id if
// that has no task.
func task(body []byte) (id, data []byte, err error) {
	b, ok := bytes.CutPrefix(body, []byte{0x81, 0x30})
	if !ok {
		return nil, nil, errNoTask
	}
	n, b, err := mpArray(b)
	if err != nil || n == 0 || (len(b) > 0 && b[0] == mpNil) {
		return nil, nil, err
	}
	if n, b, err = mpArray(b); err != nil || n < 3 || len(b) == 0 {
		return nil, nil, errNoTask
	}
	size := 1
	switch {
	case b[0] < 0x80:
	case b[0] >= 0xcc && b[0] <= mpUint64: // unsigned integers of 1, 2, 4 and 8 bytes
		size += 1 << (b[0] - 0xcc)
	default:
		return nil, nil, errNoTask
	}
	if len(b) < size {
		return nil, nil, errNoTask
	}
	id = b[:size]
	if _, b, err = mpString(b[size:]); err != nil { // the state
		return nil, nil, err
	}
	data, _, err = mpString(b)
	return id, data, err
}

func serveTarantool(l net.Listener, o Nothing) error {
	// What every request is answered with: a task.
	reply := []byte{
		mpUint32, 0, 0, 0, 0, // the size
		0x83, 0x00, mpUint32, 0, 0, 0, 0, // the status
		0x01, mpUint64, 0, 0, 0, 0, 0, 0, 0, 0, // the sync
		0x05, mpUint32, 0, 0, 0, 1, // the schema version
		0x81, 0x30, mpArray32, 0, 0, 0, 1, 0x93, 7, 0xa1, 't',
	}
	reply = mpText(reply, string(o.Body))
	binary.BigEndian.PutUint32(reply[1:], uint32(len(reply)-frameSize)) //nolint:gosec // bounded by the body
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
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
		out = append(out, reply...)
		copy(out[start+frameSize+syncAt:][:8], frame[at:])
		_, err = in.Discard(size)
		return out, err
	}
	return serveTCP(l, o, strings.Repeat(" ", greetingSize), func() answerFunc { return answer })
}
