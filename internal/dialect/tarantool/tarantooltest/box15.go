package tarantooltest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// The types of packets of the 1.5 protocol.
const (
	Box15TypeCall = 22
	Box15TypePing = 0xff00
)

// Box15Error is an error that a server of the 1.5 protocol has answered.
type Box15Error struct {
	Code uint32 // the number shifted by eight, and 2
	Text string
}

// Error returns code and text.
func (e *Box15Error) Error() string { return fmt.Sprintf("0x%04x %s", e.Code, e.Text) }

// Box15Reply is a packet from the server.
type Box15Reply struct {
	Type uint32
	ID   uint32
	Body []byte
}

// Box15Row is a tuple of a reply.
type Box15Row [][]byte

// Strings returns the fields as strings.
func (r Box15Row) Strings() []string {
	out := make([]string, len(r))
	for i, field := range r {
		out[i] = string(field)
	}
	return out
}

// Number returns a field that is a number of four or eight bytes.
func (r Box15Row) Number(i int) (uint64, error) {
	switch {
	case i >= len(r):
		return 0, fmt.Errorf("no field %d", i)
	case len(r[i]) == 4:
		return uint64(binary.LittleEndian.Uint32(r[i])), nil
	case len(r[i]) == 8:
		return binary.LittleEndian.Uint64(r[i]), nil
	default:
		return 0, fmt.Errorf("field %d has %d bytes", i, len(r[i]))
	}
}

// Box15 is a connection that speaks the protocol of Tarantool 1.5. It is for one
// goroutine at a time.
type Box15 struct {
	conn net.Conn
	r    *bufio.Reader
	last uint32 // the id of the last call
}

// NewBox15 returns a client on a connection.
func NewBox15(conn net.Conn) *Box15 { return &Box15{conn: conn, r: bufio.NewReader(conn)} }

// DialBox15 connects to a server.
func DialBox15(addr string) (*Box15, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial tarantool 1.5: %w", err)
	}
	return NewBox15(conn), nil
}

// Close closes the connection.
func (c *Box15) Close() error { return c.conn.Close() }

// Box15Packet returns the bytes of a packet.
func Box15Packet(kind, id uint32, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body))) //nolint:gosec // tests send less
	b = binary.LittleEndian.AppendUint32(b, id)
	return append(b, body...)
}

// Box15CallPacket returns the bytes of a call.
func Box15CallPacket(id uint32, procedure string, args ...string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0)
	b = appendBox15(b, procedure)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(args))) //nolint:gosec // tests send less
	for _, a := range args {
		b = appendBox15(b, a)
	}
	return Box15Packet(Box15TypeCall, id, b)
}

// appendBox15 appends a field with its length in base 128.
func appendBox15(b []byte, field string) []byte {
	var groups [5]byte
	n, i := len(field), len(groups)-1
	groups[i] = byte(n & 0x7f)
	for n >>= 7; n > 0; n >>= 7 {
		i--
		groups[i] = byte(n&0x7f) | 0x80
	}
	return append(append(b, groups[i:]...), field...)
}

// Send sends the bytes of packets.
func (c *Box15) Send(packets ...[]byte) error {
	var all []byte
	for _, p := range packets {
		all = append(all, p...)
	}
	if _, err := c.conn.Write(all); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Receive reads the next packet, whichever call it answers.
func (c *Box15) Receive() (Box15Reply, error) { return ReadBox15(c.r) }

// ReadBox15 reads a packet.
func ReadBox15(r io.Reader) (Box15Reply, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Box15Reply{}, fmt.Errorf("receive: %w", err)
	}
	p := Box15Reply{
		Type: binary.LittleEndian.Uint32(head[:]), ID: binary.LittleEndian.Uint32(head[8:]),
		Body: make([]byte, binary.LittleEndian.Uint32(head[4:])),
	}
	if _, err := io.ReadFull(r, p.Body); err != nil {
		return Box15Reply{}, fmt.Errorf("receive a body: %w", err)
	}
	return p, nil
}

var errBox15Reply = errors.New("malformed reply")

// Rows reads the body of the reply to a call.
func (p *Box15Reply) Rows() ([]Box15Row, error) {
	if len(p.Body) < 4 {
		return nil, errBox15Reply
	}
	code, rest := binary.LittleEndian.Uint32(p.Body), p.Body[4:]
	if code != 0 {
		if len(rest) == 0 || rest[len(rest)-1] != 0 {
			return nil, errBox15Reply
		}
		return nil, &Box15Error{Code: code, Text: string(rest[:len(rest)-1])}
	}
	if len(rest) < 4 {
		return nil, errBox15Reply
	}
	count := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	rows := []Box15Row{}
	for range count {
		if len(rest) < 8 {
			return nil, errBox15Reply
		}
		size, fields := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:])
		rest = rest[8:]
		if uint64(size) > uint64(len(rest)) {
			return nil, errBox15Reply
		}
		row, err := readBox15Fields(rest[:size], fields)
		if err != nil {
			return nil, err
		}
		rows, rest = append(rows, row), rest[size:]
	}
	if len(rest) > 0 {
		return nil, errBox15Reply
	}
	return rows, nil
}

// readBox15Fields reads the fields of a row, which must be all of b.
func readBox15Fields(b []byte, count uint32) (Box15Row, error) {
	row := Box15Row{}
	for range count {
		size, more := 0, true
		for more {
			if len(b) == 0 || size > len(b) {
				return nil, errBox15Reply
			}
			size, more = size<<7|int(b[0]&0x7f), b[0] >= 0x80
			b = b[1:]
		}
		if size > len(b) {
			return nil, errBox15Reply
		}
		row, b = append(row, b[:size]), b[size:]
	}
	if len(b) > 0 {
		return nil, errBox15Reply
	}
	return row, nil
}

// Call calls a procedure and returns the rows of its reply.
func (c *Box15) Call(procedure string, args ...string) ([]Box15Row, error) {
	c.last++
	if err := c.Send(Box15CallPacket(c.last, procedure, args...)); err != nil {
		return nil, err
	}
	reply, err := c.Receive()
	if err != nil {
		return nil, err
	}
	if reply.Type != Box15TypeCall || reply.ID != c.last {
		return nil, fmt.Errorf("call %d is answered by type %d, id %d", c.last, reply.Type, reply.ID)
	}
	return reply.Rows()
}

// Ping asks for a sign of life.
func (c *Box15) Ping() error {
	c.last++
	if err := c.Send(Box15Packet(Box15TypePing, c.last, nil)); err != nil {
		return err
	}
	reply, err := c.Receive()
	if err != nil {
		return err
	}
	if reply.Type != Box15TypePing || reply.ID != c.last || len(reply.Body) != 0 {
		return fmt.Errorf("ping %d is answered by type %d, id %d, %d bytes", c.last, reply.Type, reply.ID,
			len(reply.Body))
	}
	return nil
}

// Put puts a task into tube of space 0 with the default times and priority, and
// returns its id.
func (c *Box15) Put(tube string, data ...string) (string, error) {
	rows, err := c.Call("queue.put", append([]string{"0", tube, "0", "0", "0", "127"}, data...)...)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 3+len(data) {
		return "", errBox15Reply
	}
	return string(rows[0][0]), nil
}

// Take takes a task of space 0 within some seconds; not ok if there was none.
func (c *Box15) Take(tube string, seconds float64) (task Box15Row, ok bool, err error) {
	rows, err := c.Call("queue.take", "0", tube, strconv.FormatFloat(seconds, 'f', -1, 64))
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	return rows[0], true, nil
}

// Ack settles a task of space 0.
func (c *Box15) Ack(id string) error {
	_, err := c.Call("queue.ack", "0", id)
	return err
}
