package wire

import (
	"crypto/sha1" //nolint:gosec // the protocol wants it
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// Tarantool speaks IPROTO: frames of MessagePack, of which it sends calls of the methods of tubes.
type Tarantool struct {
	*link
	kind string // of the tubes that it makes
	made map[string]bool
	sync uint64
	// The tube that was used last, and the bodies of calls of its methods, up to their first arguments.
	tube                    string
	put, putWith, take, ack []byte
	id                      []byte // of the task taken last, in decimal digits
	arg                     []byte
}

const (
	greetingSize = 128
	saltLine     = 64 // where in a greeting the salt is
	saltSize     = 44 // in base64
	// frameSize is how a frame begins: its size as an unsigned integer of 32 bits.
	frameSize = 5
	// headerSize is how long the header of a request is.
	headerSize = 13
	// replyHeader is how long the header of a reply is: status, sync and schema version in full length.
	replyHeader = 23
	statusAt    = 3 // in a reply's header
)

// The types of requests that are sent here, and what bodies begin with.
const (
	iprotoAuth   = 0x07
	iprotoCall   = 0x0a
	iprotoTuple  = 0x21
	iprotoName   = 0x22
	iprotoUser   = 0x23
	iprotoData   = 0x30
	iprotoError  = 0x31
	iprotoUint32 = 0xce
	iprotoUint64 = 0xcf
)

func newTarantool(l *link, o Options) (Client, error) {
	c := &Tarantool{link: l, kind: o.Kind, made: make(map[string]bool)}
	if err := c.expire(0); err != nil {
		return nil, err
	}
	greeting, err := c.block(greetingSize)
	if err != nil {
		return nil, err
	}
	if user, password, ok := strings.Cut(o.Secret, ":"); ok {
		if err := c.login(greeting, user, password); err != nil {
			return nil, fmt.Errorf("log in as %s: %w", user, err)
		}
	}
	if o.Queue == "" {
		return c, nil
	}
	return c, c.use(o.Queue)
}

// login proves to know a password: chap-sha1.
func (c *Tarantool) login(greeting []byte, user, password string) error {
	salt, err := base64.StdEncoding.DecodeString(string(greeting[saltLine : saltLine+saltSize]))
	if err != nil || len(salt) < sha1.Size {
		return fmt.Errorf("the greeting %q has no salt", greeting)
	}
	once := sha1.Sum([]byte(password))                                  //nolint:gosec // the protocol wants it
	twice := sha1.Sum(once[:])                                          //nolint:gosec // the protocol wants it
	salted := sha1.Sum(append(salt[:sha1.Size:sha1.Size], twice[:]...)) //nolint:gosec // the protocol wants it
	proof := make([]byte, sha1.Size)
	subtle.XORBytes(proof, once[:], salted[:])
	body := msgp.AppendString([]byte{0x82, iprotoUser}, user)
	body = msgp.AppendString(append(body, iprotoTuple, 0x92), "chap-sha1")
	c.request(iprotoAuth, msgp.AppendStringFromBytes(body, proof))
	return c.answered(1)
}

// Create makes sure that there is a tube of a type.
func (c *Tarantool) Create(tube, kind string) error {
	if _, err := c.Call(0, "queue.create_tube", msgp.AppendString(nil, tube), msgp.AppendString(nil, kind),
		msgp.AppendBool(msgp.AppendString([]byte{0x81}, "if_not_exists"), true)); err != nil {
		return fmt.Errorf("make a tube: %w", err)
	}
	return nil
}

// use makes the calls of a tube's methods ready, and the tube if it should.
func (c *Tarantool) use(tube string) error {
	if tube == c.tube {
		return nil
	}
	if c.kind != "" && !c.made[tube] {
		if err := c.Create(tube, c.kind); err != nil {
			return err
		}
		c.made[tube] = true
	}
	method := func(name string, args int) []byte { return callBody("queue.tube."+tube+":"+name, args) }
	c.tube, c.put, c.putWith = tube, method("put", 1), method("put", 2)
	c.take, c.ack = method("take", 1), method("ack", 1)
	return nil
}

// callBody returns the body of a call with less than 16 arguments, up to them.
func callBody(function string, args int) []byte {
	b := msgp.AppendString([]byte{0x82, iprotoName}, function)
	return append(b, iprotoTuple, 0x90|byte(args)) //nolint:gosec // a few
}

// request appends a request whose body is in parts.
func (c *Tarantool) request(kind byte, parts ...[]byte) {
	size := headerSize
	for _, p := range parts {
		size += len(p)
	}
	c.sync++
	c.out = binary.BigEndian.AppendUint32(append(c.out, iprotoUint32), uint32(size))
	c.out = binary.BigEndian.AppendUint64(append(c.out, 0x82, 0x00, kind, 0x01, iprotoUint64), c.sync)
	for _, p := range parts {
		c.out = append(c.out, p...)
	}
}

// answered sends what there is and reads n good replies.
func (c *Tarantool) answered(n int) error {
	if err := c.send(0); err != nil {
		return err
	}
	for range n {
		if _, err := c.reply(); err != nil {
			return err
		}
	}
	return nil
}

// reply returns the data of the next reply; they are valid until the next read.
func (c *Tarantool) reply() ([]byte, error) {
	head, err := c.block(frameSize)
	if err != nil {
		return nil, err
	}
	if head[0] != iprotoUint32 {
		return nil, fmt.Errorf("a frame begins with %#x", head[0])
	}
	frame, err := c.block(int(binary.BigEndian.Uint32(head[1:])))
	if err != nil {
		return nil, err
	}
	if len(frame) <= replyHeader {
		return nil, fmt.Errorf("a frame of %d bytes", len(frame))
	}
	body := frame[replyHeader:]
	status := binary.BigEndian.Uint32(frame[statusAt:])
	switch {
	case status == 0 && body[0] == 0x80: // nothing, as to a login
		return nil, nil
	case status == 0 && len(body) > 1 && body[1] == iprotoData:
		return body[2:], nil
	case status != 0 && len(body) > 1 && body[1] == iprotoError:
		if text, _, err := msgp.ReadStringBytes(body[2:]); err == nil {
			return nil, RefusedError(text)
		}
	}
	return nil, fmt.Errorf("status %#x: %q", status, body)
}

// Call calls a procedure, which may wait, with arguments in MessagePack and returns what it returned, an array.
func (c *Tarantool) Call(wait time.Duration, function string, args ...[]byte) (msgp.Raw, error) {
	c.request(iprotoCall, append([][]byte{callBody(function, len(args))}, args...)...)
	if err := c.send(wait); err != nil {
		return nil, err
	}
	return c.reply()
}

// Push implements Client.
func (c *Tarantool) Push(queue string, jobs ...Job) error {
	if err := c.use(queue); err != nil {
		return err
	}
	for i := range jobs {
		j := &jobs[i]
		c.arg = appendText(c.arg[:0], j.Body)
		if options := putOptions(j); options != nil {
			c.request(iprotoCall, c.putWith, c.arg, options)
		} else {
			c.request(iprotoCall, c.put, c.arg)
		}
	}
	return c.answered(len(jobs))
}

// appendText appends a body as connectors do: as a string if it is text.
func appendText(b, body []byte) []byte {
	if utf8.Valid(body) {
		return msgp.AppendStringFromBytes(b, body)
	}
	return msgp.AppendBytes(b, body)
}

// putOptions returns the second argument of a put, nil if it needs none.
func putOptions(j *Job) []byte {
	n := 0
	var b []byte
	number := func(name string, v float64) {
		n++
		b = msgp.AppendFloat64(msgp.AppendString(b, name), v)
	}
	text := func(name, v string) {
		n++
		b = msgp.AppendString(msgp.AppendString(b, name), v)
	}
	if j.Level < 0 {
		number("pri", float64(-j.Level))
	}
	if j.Delay > 0 {
		number("delay", j.Delay.Seconds())
	}
	if j.TTL > 0 {
		number("ttl", j.TTL.Seconds())
	}
	if j.Lease > 0 {
		number("ttr", j.Lease.Seconds())
	}
	if j.Trace != "" {
		text("traceparent", j.Trace)
	}
	if j.Group != "" {
		text("utube", j.Group)
	}
	if n == 0 {
		return nil
	}
	return append([]byte{0x80 | byte(n)}, b...)
}

// Fetch implements Client.
func (c *Tarantool) Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error) {
	if err := c.use(queue); err != nil {
		return j, false, err
	}
	c.arg = msgp.AppendFloat64(c.arg[:0], wait.Seconds())
	c.request(iprotoCall, c.take, c.arg)
	if err := c.send(wait); err != nil {
		return j, false, err
	}
	data, err := c.reply()
	if err != nil {
		return j, false, err
	}
	id, _, body, err := ParseTask(data)
	if err != nil || body == nil {
		return j, false, err
	}
	c.id = strconv.AppendUint(c.id[:0], id, 10)
	return Fetched{c.id, TextOf(body)}, true, nil
}

// ParseTask reads the task that a call has returned; its data are nil if it returned none.
func ParseTask(returned msgp.Raw) (id uint64, state string, data msgp.Raw, err error) {
	n, b, err := msgp.ReadArrayHeaderBytes(returned)
	if err != nil || n == 0 || msgp.IsNil(b) {
		return 0, "", nil, err
	}
	if n, b, err = msgp.ReadArrayHeaderBytes(b); err != nil || n < 3 {
		return 0, "", nil, fmt.Errorf("a task of %d fields: %w", n, err)
	}
	if id, b, err = msgp.ReadUint64Bytes(b); err != nil {
		return 0, "", nil, err
	}
	text, b, err := msgp.ReadStringZC(b)
	return id, string(text), b, err
}

// TextOf returns the content of a string or of binary data, and the MessagePack of anything else.
func TextOf(data msgp.Raw) []byte {
	switch msgp.NextType(data) { //nolint:exhaustive // all others are shown as they are
	case msgp.BinType:
		if body, _, err := msgp.ReadBytesZC(data); err == nil {
			return body
		}
	case msgp.StrType:
		if body, _, err := msgp.ReadStringZC(data); err == nil {
			return body
		}
	}
	return data
}

// Ack implements Client.
func (c *Tarantool) Ack(queue string, id []byte) error { return c.method(queue, "ack", id) }

// Fail implements Client: it releases the task.
func (c *Tarantool) Fail(queue string, id []byte) error { return c.method(queue, "release", id) }

// Touch prolongs the life of a task.
func (c *Tarantool) Touch(queue string, id []byte) error {
	return c.method(queue, "touch", id, msgp.AppendFloat64(nil, math.Pi))
}

// Delete deletes a task.
func (c *Tarantool) Delete(queue string, id []byte) error { return c.method(queue, "delete", id) }

// method calls a method of a tube with the id of a task.
func (c *Tarantool) method(queue, name string, id []byte, more ...[]byte) error {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return err
	}
	c.arg = msgp.AppendUint64(c.arg[:0], n)
	if name == "ack" && queue == c.tube {
		c.request(iprotoCall, c.ack, c.arg)
		return c.answered(1)
	}
	_, err = c.Call(0, "queue.tube."+queue+":"+name, append([][]byte{c.arg}, more...)...)
	return err
}

// ReleaseAll makes every leased job of a queue ready, whoever holds it.
func (c *Tarantool) ReleaseAll(queue string) error {
	_, err := c.Call(0, "queue.tube."+queue+":release_all")
	return err
}

// Look implements Client. It reads the tasks of the statistics, [{"tasks": {...}, "calls": {...}}].
func (c *Tarantool) Look(queue string) (Sight, error) {
	if err := c.use(queue); err != nil {
		return Sight{}, err
	}
	raw, err := c.Call(0, "queue.statistics", msgp.AppendString(nil, queue))
	if err != nil {
		return Sight{}, err
	}
	value, _, err := msgp.ReadIntfBytes(raw)
	if err != nil {
		return Sight{}, fmt.Errorf("statistics: %w", err)
	}
	list, _ := value.([]any)
	if len(list) != 1 {
		return Sight{}, fmt.Errorf("statistics of %d values", len(list))
	}
	all, _ := list[0].(map[string]any)
	tasks, _ := all["tasks"].(map[string]any)
	count := func(name string) int {
		n, err := strconv.Atoi(fmt.Sprint(tasks[name]))
		if err != nil {
			return Untold
		}
		return n
	}
	return Sight{Ready: count("ready"), Delayed: count("delayed"), Held: count("taken"), Dead: count("buried")}, nil
}
