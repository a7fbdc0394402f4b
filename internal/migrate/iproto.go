package migrate

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol wants it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What is needed of IPROTO: types of requests, keys of bodies, and iterators of an index.
const (
	iprotoSelect = 1
	iprotoAuth   = 7
	iprotoCall   = 10

	iprotoKeySpace    = 0x10
	iprotoKeyIndex    = 0x11
	iprotoKeyLimit    = 0x12
	iprotoKeyOffset   = 0x13
	iprotoKeyIterator = 0x14
	iprotoKeyKey      = 0x20
	iprotoKeyTuple    = 0x21
	iprotoKeyFunction = 0x22
	iprotoKeyUser     = 0x23
	iprotoKeyData     = 0x30
	iprotoKeyError    = 0x31

	iprotoEqual   = 0
	iprotoAll     = 2
	iprotoGreater = 6

	iprotoGreeting = 128
	iprotoFailed   = 0x8000 // and the code of the error
	iprotoMax      = 1 << 30
)

// iproto is a connection to a Tarantool server. Answers come in any order, and are told apart by a number.
type iproto struct {
	*lineConn
	out      []byte // requests that have not been sent
	sync     uint64 // of the last request
	instance string // the server's own name
}

// iprotoError is an error that the server has answered.
type iprotoError struct{ text string }

func (e *iprotoError) Error() string { return "Tarantool answers: " + e.text }

// dialIProto connects, and logs in if there is a user.
func dialIProto(ctx context.Context, host, user, password string) (*iproto, error) {
	conn, err := dialHost(ctx, "Tarantool", host)
	if err != nil {
		return nil, err
	}
	c := &iproto{lineConn: conn}
	if err := c.hello(user, password); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *iproto) hello(user, password string) error {
	if err := c.conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	var text [iprotoGreeting]byte
	if _, err := io.ReadFull(c.in, text[:]); err != nil {
		return fmt.Errorf("read the greeting of Tarantool: %w", err)
	}
	words := strings.Fields(string(text[:64]))
	salt, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text[64:])))
	if err != nil || len(words) != 4 || words[0] != "Tarantool" || words[2] != "(Binary)" || len(salt) < sha1.Size {
		return fmt.Errorf("it is no Tarantool server: %q", text[:64])
	}
	c.instance = words[3]
	if user == "" {
		return nil
	}
	body := msgp.AppendString([]byte{0x82, iprotoKeyUser}, user)
	body = msgp.AppendString(append(body, iprotoKeyTuple, 0x92), "chap-sha1")
	body = msgp.AppendStringFromBytes(body, scramble(salt[:sha1.Size], password))
	c.request(iprotoAuth, body)
	_, err = c.one()
	return err
}

// scramble answers the salt of a greeting.
func scramble(salt []byte, password string) []byte {
	first := sha1.Sum([]byte(password)) //nolint:gosec // the protocol wants it
	second := sha1.Sum(first[:])        //nolint:gosec // the protocol wants it
	h := sha1.New()                     //nolint:gosec // the protocol wants it
	h.Write(salt)
	h.Write(second[:])
	out := h.Sum(nil)
	for i := range out {
		out[i] ^= first[i]
	}
	return out
}

// request adds a request to what is sent together. It returns its number.
func (c *iproto) request(kind uint64, body []byte) uint64 {
	c.sync++
	head := msgp.AppendUint64([]byte{0x82, 0x00}, kind)
	head = msgp.AppendUint64(append(head, 0x01), c.sync)
	size := uint32(len(head) + len(body)) //nolint:gosec // a request is short
	c.out = binary.BigEndian.AppendUint32(append(c.out, 0xce), size)
	c.out = append(append(c.out, head...), body...)
	return c.sync
}

// find adds the request of some tuples of a space.
func (c *iproto) find(space, index, iterator, limit uint64, key []byte) {
	b := []byte{0x86}
	for _, field := range []struct {
		key   byte
		value uint64
	}{
		{iprotoKeySpace, space},
		{iprotoKeyIndex, index},
		{iprotoKeyLimit, limit},
		{iprotoKeyOffset, 0},
		{iprotoKeyIterator, iterator},
	} {
		b = msgp.AppendUint64(append(b, field.key), field.value)
	}
	c.request(iprotoSelect, append(append(b, iprotoKeyKey), key...))
}

// call adds the call of a procedure with one argument, or none.
func (c *iproto) call(procedure string, argument []byte) uint64 {
	b := msgp.AppendString([]byte{0x82, iprotoKeyFunction}, procedure)
	b = append(b, iprotoKeyTuple, 0x90|byte(min(len(argument), 1)))
	return c.request(iprotoCall, append(b, argument...))
}

// send sends the requests.
func (c *iproto) send() error {
	err := c.ask(string(c.out))
	c.out = c.out[:0]
	return err
}

// one sends a request and returns what it is answered: the elements of an array.
func (c *iproto) one() ([]msgp.Raw, error) {
	if err := c.send(); err != nil {
		return nil, err
	}
	_, data, err := c.answer()
	return data, err
}

// answer reads an answer, and which request it is to. A refusal is an *iprotoError.
func (c *iproto) answer() (sync uint64, data []msgp.Raw, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, fmt.Errorf("read an answer of Tarantool: %w", err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0xce || size > iprotoMax {
		return 0, nil, errIProto
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return 0, nil, fmt.Errorf("read an answer of Tarantool: %w", err)
	}
	header, rest, ok := numbered(b)
	body, _, ok2 := numbered(rest)
	if !ok || !ok2 {
		return 0, nil, errIProto
	}
	kind, _, err := msgp.ReadUint64Bytes(header[0])
	sync, _, err2 := msgp.ReadUint64Bytes(header[1])
	if err != nil || err2 != nil {
		return 0, nil, errIProto
	}
	if kind >= iprotoFailed {
		return sync, nil, &iprotoError{text(body[iprotoKeyError])}
	}
	if body[iprotoKeyData] == nil {
		return sync, nil, nil
	}
	if data, ok = elements(body[iprotoKeyData]); !ok {
		return 0, nil, errIProto
	}
	return sync, data, nil
}

var errIProto = errors.New("an answer of Tarantool cannot be read")

// numbered reads a map whose keys are small numbers.
func numbered(b []byte) (m map[uint64]msgp.Raw, rest []byte, ok bool) {
	n, rest, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return nil, nil, false
	}
	m = make(map[uint64]msgp.Raw)
	for range n {
		key, value, err := msgp.ReadUint64Bytes(rest)
		if err != nil {
			return nil, nil, false
		}
		if rest, err = msgp.Skip(value); err != nil {
			return nil, nil, false
		}
		m[key] = msgp.Raw(value[:len(value)-len(rest)])
	}
	return m, rest, true
}

// elements reads an array.
func elements(b []byte) (all []msgp.Raw, ok bool) {
	n, rest, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, false
	}
	for range n {
		value := rest
		if rest, err = msgp.Skip(value); err != nil {
			return nil, false
		}
		all = append(all, msgp.Raw(value[:len(value)-len(rest)]))
	}
	return all, true
}
