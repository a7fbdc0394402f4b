package tarantooltest

import (
	"bufio"
	"fmt"
	"io"
	"net"

	"github.com/tinylib/msgp/msgp"
)

// Client is a connection that speaks IPROTO. It is for one goroutine at a time.
type Client struct {
	Greeting Greeting

	conn net.Conn
	r    *bufio.Reader
	sync uint64
	out  []byte
}

// New returns a client on a connection. It reads the greeting.
func New(conn net.Conn) (*Client, error) {
	c := &Client{conn: conn, r: bufio.NewReader(conn)}
	var b [GreetingSize]byte
	if _, err := io.ReadFull(c.r, b[:]); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	var err error
	c.Greeting, err = ParseGreeting(b[:])
	return c, err
}

// Dial connects to a server.
func Dial(addr string) (*Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c, err := New(conn)
	if err != nil {
		_ = conn.Close() // the error is told
	}
	return c, err
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Reader returns what follows the greeting.
func (c *Client) Reader() *bufio.Reader { return c.r }

// Queue adds a call to what the next Send sends, and returns its sync. The arguments
// are MessagePack values, one after the other.
func (c *Client) Queue(kind uint64, procedure string, args []byte) (sync uint64, err error) {
	n, err := count(args)
	if err != nil {
		return 0, err
	}
	c.sync++
	c.out = append(c.out, CallPacket(kind, c.sync, procedure, n, args)...)
	return c.sync, nil
}

// Send sends what has been queued, with one write.
func (c *Client) Send() error {
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

// Receive reads the next packet.
func (c *Client) Receive() (Reply, error) { return ReadReply(c.r) }

// Call calls a procedure with arguments in notation and returns what it returned, in
// notation. A refusal is an *Error.
func (c *Client) Call(procedure, args string) (string, error) {
	raw, err := Encode(args)
	if err != nil {
		return "", err
	}
	data, err := c.CallRaw(procedure, raw)
	if err != nil {
		return "", err
	}
	return Format(data)
}

// CallRaw is Call with MessagePack.
func (c *Client) CallRaw(procedure string, args []byte) (msgp.Raw, error) {
	sync, err := c.Queue(TypeCall, procedure, args)
	if err != nil {
		return nil, err
	}
	if err := c.Send(); err != nil {
		return nil, err
	}
	p, err := c.Receive()
	if err != nil {
		return nil, err
	}
	if p.Sync != sync {
		return nil, fmt.Errorf("%w: sync %d, want %d", errPacket, p.Sync, sync)
	}
	return p.Body[keyData], p.Err()
}

// Auth logs in.
func (c *Client) Auth(user, password string) error {
	c.sync++
	body := msgp.AppendString([]byte{0x82, keyUser}, user)
	body = msgp.AppendString(append(body, keyTuple, 0x92), "chap-sha1")
	body = msgp.AppendStringFromBytes(body, c.Greeting.Scramble(password))
	if _, err := c.conn.Write(Packet(TypeAuth, c.sync, body)); err != nil {
		return err
	}
	p, err := c.Receive()
	if err != nil {
		return err
	}
	return p.Err()
}

// Data returns what a call has returned.
func (p *Reply) Data() msgp.Raw { return p.Body[keyData] }

// Task is a task of today's API.
type Task struct {
	ID    uint64
	State string
	Data  msgp.Raw
}

// ParseTask reads the one task that a call has returned; not ok if it returned none.
func ParseTask(data msgp.Raw) (t Task, ok bool, err error) {
	n, rest, err := msgp.ReadArrayHeaderBytes(data)
	if err != nil || n == 0 {
		return t, false, err
	}
	if n, rest, err = msgp.ReadArrayHeaderBytes(rest); err != nil || n != 3 {
		return t, false, fmt.Errorf("%w: a task of %d fields: %w", errPacket, n, err)
	}
	if t.ID, rest, err = msgp.ReadUint64Bytes(rest); err != nil {
		return t, false, err
	}
	if t.State, rest, err = msgp.ReadStringBytes(rest); err != nil {
		return t, false, err
	}
	t.Data = msgp.Raw(rest)
	return t, true, nil
}

// CreateTube creates a tube unless it is there.
func (c *Client) CreateTube(name, kind string) error {
	_, err := c.Call("queue.create_tube", fmt.Sprintf(`%q, %q, {"if_not_exists": true}`, name, kind))
	return err
}

// Put puts a task.
func (c *Client) Put(tube string, data msgp.Raw) (Task, error) {
	raw, err := c.CallRaw("queue.tube."+tube+":put", data)
	if err != nil {
		return Task{}, err
	}
	t, _, err := ParseTask(raw)
	return t, err
}

// Take takes a task; not ok if there was none in time.
func (c *Client) Take(tube string, seconds float64) (t Task, ok bool, err error) {
	raw, err := c.CallRaw("queue.tube."+tube+":take", msgp.AppendFloat64(nil, seconds))
	if err != nil {
		return t, false, err
	}
	return ParseTask(raw)
}

// Ack acknowledges a task.
func (c *Client) Ack(tube string, id uint64) error {
	_, err := c.CallRaw("queue.tube."+tube+":ack", msgp.AppendUint64(nil, id))
	return err
}
