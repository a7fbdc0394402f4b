package torture

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// tarantoolClient speaks IPROTO: frames of MessagePack, of which it sends calls of
// the procedures of the queue module.
type tarantoolClient struct {
	*link
	sync uint64
}

const greetingSize = 128

// The keys and the request of IPROTO that are used here.
const (
	iprotoType     = 0x00
	iprotoSync     = 0x01
	iprotoTuple    = 0x21
	iprotoFunction = 0x22
	iprotoData     = 0x30
	iprotoError    = 0x31
	iprotoCall     = 0x0a
)

func greetTarantool(l *link) (*tarantoolClient, error) {
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	_, err := io.ReadFull(l.in, make([]byte, greetingSize))
	return &tarantoolClient{link: l}, err
}

// request appends a call with arguments that are already MessagePack.
func (c *tarantoolClient) request(function string, args ...[]byte) {
	c.sync++
	b := make([]byte, 5, 64)
	b = msgp.AppendMapHeader(b, 2)
	b = append(b, iprotoType, iprotoCall, iprotoSync)
	b = msgp.AppendUint64(b, c.sync)
	b = msgp.AppendMapHeader(b, 2)
	b = append(b, iprotoFunction)
	b = msgp.AppendString(b, function)
	b = append(b, iprotoTuple)
	b = msgp.AppendArrayHeader(b, uint32(len(args)))
	for _, a := range args {
		b = append(b, a...)
	}
	b[0] = 0xce // the size, an unsigned integer of 32 bits
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
	c.out = append(c.out, b...)
}

// reply reads the next reply and returns its data, an array.
func (c *tarantoolClient) reply() ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c.in, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0xce || size > 1<<24 {
		return nil, fmt.Errorf("a frame begins with % x", head)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return nil, err
	}
	header, body, err := iprotoMap(frame)
	if err != nil {
		return nil, err
	}
	status, _, err := msgp.ReadUint64Bytes(header[iprotoType])
	if err != nil {
		return nil, err
	}
	members, _, err := iprotoMap(body)
	if err != nil {
		return nil, err
	}
	if status != 0 {
		text, _, err := msgp.ReadStringBytes(members[iprotoError])
		if err != nil {
			return nil, err
		}
		return nil, &refusedError{text}
	}
	return members[iprotoData], nil
}

// iprotoMap reads a map with small numbers as keys and returns what is behind it.
func iprotoMap(b []byte) (map[uint8][]byte, []byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return nil, nil, err
	}
	out := make(map[uint8][]byte, n)
	for range n {
		var key uint8
		if key, b, err = msgp.ReadUint8Bytes(b); err != nil {
			return nil, nil, err
		}
		rest, err := msgp.Skip(b)
		if err != nil {
			return nil, nil, err
		}
		out[key], b = b[:len(b)-len(rest)], rest
	}
	return out, b, nil
}

// call calls a procedure.
func (c *tarantoolClient) call(wait time.Duration, function string, args ...[]byte) ([]byte, error) {
	c.request(function, args...)
	if err := c.send(wait); err != nil {
		return nil, err
	}
	return c.reply()
}

// create makes a tube.
func (c *tarantoolClient) create(queue string) error {
	options := msgp.AppendBool(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "if_not_exists"), true)
	_, err := c.call(0, "queue.create_tube", msgp.AppendString(nil, queue), msgp.AppendString(nil, "fifottl"), options)
	return err
}

func (c *tarantoolClient) push(queue string, tokens ...string) error {
	for _, t := range tokens {
		c.request("queue.tube."+queue+":put", msgp.AppendString(nil, `"`+bodyOf(t)+`"`))
	}
	if err := c.send(0); err != nil {
		return err
	}
	for range tokens {
		if _, err := c.reply(); err != nil {
			return err
		}
	}
	return nil
}

func (c *tarantoolClient) fetch(queue string, wait time.Duration) (delivery, bool, error) {
	data, err := c.call(wait, "queue.tube."+queue+":take", msgp.AppendFloat64(nil, wait.Seconds()))
	if err != nil {
		return delivery{}, false, err
	}
	return taskIn(data)
}

// taskIn reads the data of a reply that has a task, or none.
func taskIn(data []byte) (delivery, bool, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(data)
	if err != nil || n == 0 || msgp.IsNil(b) {
		return delivery{}, false, err
	}
	if _, b, err = msgp.ReadArrayHeaderBytes(b); err != nil {
		return delivery{}, false, err
	}
	id, b, err := msgp.ReadUint64Bytes(b)
	if err != nil {
		return delivery{}, false, err
	}
	if b, err = msgp.Skip(b); err != nil { // the state
		return delivery{}, false, err
	}
	text, _, err := msgp.ReadStringBytes(b)
	if err != nil {
		return delivery{}, false, err
	}
	body, err := quoted(text)
	return delivery{id: strconv.FormatUint(id, 10), body: body}, err == nil, err
}

// method calls a method of a tube with the id of a task.
func (c *tarantoolClient) method(queue, name, id string, more ...[]byte) error {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return err
	}
	_, err = c.call(0, "queue.tube."+queue+":"+name, append([][]byte{msgp.AppendUint64(nil, n)}, more...)...)
	return err
}

func (c *tarantoolClient) ack(queue, id string) error { return c.method(queue, "ack", id) }

func (c *tarantoolClient) fail(queue, id string) error { return c.method(queue, "release", id) }

func (c *tarantoolClient) touch(queue, id string) error {
	return c.method(queue, "touch", id, msgp.AppendFloat64(nil, math.Pi))
}

func (c *tarantoolClient) remove(queue, id string) error { return c.method(queue, "delete", id) }

// releaseAll makes every leased job of a queue ready, whoever holds it.
func (c *tarantoolClient) releaseAll(queue string) error {
	_, err := c.call(0, "queue.tube."+queue+":release_all")
	return err
}
