package cluster

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"millrace/internal/job"
	"millrace/internal/plant"
)

// What a connection between nodes is for: its first byte.
const (
	forRaft    = 'R'
	forPing    = 'P'
	forConfirm = 'C'
	forForward = 'F'
	forData    = 'D'
)

const (
	dialTimeout = time.Second
	// helloTimeout is how long a connection may take to say what it is for, and a ping to be answered.
	helloTimeout = 2 * time.Second
	// headerMax is how long what comes before the bytes of a client may be, and a ping and its answer.
	headerMax = 64 << 10
	// hellosMax is how many connections may not have said yet what they are for. More are closed.
	hellosMax = 1024
	// acceptPause is how long the port waits when it cannot take a connection, for want of files for example.
	acceptPause = 10 * time.Millisecond
)

// keepAlive finds a node that has vanished, on connections that stand still.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}

// Options are what a port needs.
type Options struct {
	Addr string
	// ID is which node this is: what the log of another one sends to an id that this node does not have is not taken.
	ID string
	// Advertise is the address by which the other nodes know this one.
	Advertise string
	// TLS is for both sides; nil: none.
	TLS    *tls.Config
	Logger *slog.Logger
	// Cluster returns the identity of the cluster that this node is part of; empty: none is known.
	Cluster func() string
	// Join is asked before what the log of another node sends is taken, with the identity of its cluster.
	Join func(cluster string) error
	// Ping answers a ping.
	Ping func() Pong
	// Confirm answers one that trusts only a leader whom a majority confirms.
	Confirm func() Pong
	// Data takes a connection on which all data of another node comes.
	Data func(net.Conn)
	// Forwarded takes a connection of a client that came to another node, whose id is from.
	Forwarded func(c net.Conn, listener, from string)
}

// Pong is what a node tells about itself.
type Pong struct {
	Node    string `json:"node"`
	ID      string `json:"id"`
	Version string `json:"version"`
	// The newest format of records that it knows; 0: it is of a release before they were counted.
	Format  uint64   `json:"format,omitempty"`
	Cluster string   `json:"cluster,omitempty"` // the identity of its cluster
	Member  bool     `json:"member"`            // it has been part of a cluster
	Members []string `json:"members,omitempty"` // the ids of all, as it knows
	// Leader and LeaderAddr are the id and the address of the node that leads, as it knows.
	Leader     string `json:"leader,omitempty"`
	LeaderAddr string `json:"leader_addr,omitempty"`
	Leads      bool   `json:"leads"` // and serves
	Term       uint64 `json:"term"`
	Applied    uint64 `json:"applied"` // the last entry of the log
	Stored     uint64 `json:"stored"`  // the last one whose changes its store has
	// Received is how much it has of all data that it is sent, and Receives how much that is; 0: it is sent none.
	Received int64             `json:"received,omitempty"`
	Receives int64             `json:"receives,omitempty"`
	NoRoom   string            `json:"no_room,omitempty"`  // why it does not take that; empty: it does
	Free     *uint64           `json:"free,omitempty"`     // bytes that its disk has room for; nil: not known
	Settings map[string]string `json:"settings,omitempty"` // digests of the settings that nodes compare
	Log      uint64            `json:"log"`                // bytes
	Time     job.Time          `json:"time"`               // in the term TimeOf
	TimeOf   uint64            `json:"time_of"`            // 0: it does not know the time
	Clock    time.Time         `json:"clock"`              // of the machine
}

// Port is where other nodes reach this one, and how it reaches them.
type Port struct {
	o        Options
	listener net.Listener
	raft     chan net.Conn
	hellos   chan struct{} // has one for each connection that has not said what it is for
	stop     chan struct{}

	mu   sync.Mutex // guards what follows
	open map[*conn]struct{}
	shut bool
}

// conn is a connection that came to the port.
type conn struct {
	net.Conn
	port *Port
}

// Close closes the connection.
func (c *conn) Close() error {
	c.port.mu.Lock()
	delete(c.port.open, c)
	c.port.mu.Unlock()
	return c.Conn.Close()
}

// Listen opens the port.
func Listen(ctx context.Context, o Options) (*Port, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("cluster.addr: %w", err)
	}
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	return &Port{
		o: o, listener: l, raft: make(chan net.Conn), hellos: make(chan struct{}, hellosMax), stop: make(chan struct{}),
		open: map[*conn]struct{}{},
	}, nil
}

// Serve takes connections until the port is closed.
func (p *Port) Serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			select {
			case <-p.stop:
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		select {
		case p.hellos <- struct{}{}:
			go p.handle(c)
		default:
			_ = c.Close() // it was never ours
		}
	}
}

// admit notes a connection. It reports false if the port is closed.
func (p *Port) admit(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shut {
		p.open[c] = struct{}{}
	}
	return !p.shut
}

// hello finds out what a connection is for.
func (p *Port) hello(c net.Conn) (byte, error) {
	defer func() { <-p.hellos }()
	if err := c.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return 0, err
	}
	var kind [1]byte
	_, err := io.ReadFull(c, kind[:])
	return kind[0], err
}

// handle serves a connection, or gives it to who does.
func (p *Port) handle(nc net.Conn) {
	c := &conn{nc, p}
	if !p.admit(c) {
		_ = nc.Close() // there is nobody to tell
		return
	}
	kind, err := p.hello(c)
	if err == nil {
		switch kind {
		case forRaft, forData:
			var h raftHeader
			if err = readFrame(c, &h, headerMax); err != nil {
				break
			}
			if h.To != p.o.ID && !plant.AnyNodeTaken.On() {
				err = fmt.Errorf("it is meant for node %s, and this is %s", h.To, p.o.ID)
				break
			}
			if p.o.Join != nil {
				if err = p.o.Join(h.Cluster); err != nil {
					break
				}
			}
			if err = c.SetDeadline(time.Time{}); err != nil {
				break
			}
			if kind == forData {
				p.o.Data(c)
				return
			}
			select {
			case p.raft <- c:
				return
			case <-p.stop:
			}
		case forPing:
			err = writeFrame(c, p.o.Ping())
		case forConfirm:
			err = writeFrame(c, p.o.Confirm())
		case forForward:
			var h header
			if err = readFrame(c, &h, headerMax); err != nil {
				break
			}
			if err = c.SetDeadline(time.Time{}); err != nil {
				break
			}
			p.o.Forwarded(&forwarded{Conn: c, client: tcpAddr(h.Client), local: tcpAddr(h.Local)}, h.Listener, h.From)
			return
		default:
			err = fmt.Errorf("unknown kind of connection %q", kind)
		}
	}
	if err != nil {
		p.o.Logger.Debug("connection of a node ended", slog.String("from", c.RemoteAddr().String()),
			slog.Any("error", err))
	}
	_ = c.Close() // there is nobody to tell
}

func (p *Port) dial(addr string, kind byte, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}
	var c net.Conn
	var err error
	if p.o.TLS != nil {
		c, err = tls.DialWithDialer(&d, "tcp", addr, p.o.TLS)
	} else {
		c, err = d.Dial("tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{kind}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Ping asks another node about itself.
func (p *Port) Ping(addr string) (Pong, error) { return p.ask(addr, forPing) }

// Confirm asks another node about itself. If that says that it leads, it has led at some moment since.
func (p *Port) Confirm(addr string) (Pong, error) { return p.ask(addr, forConfirm) }

func (p *Port) ask(addr string, kind byte) (Pong, error) {
	var pong Pong
	c, err := p.dial(addr, kind, dialTimeout)
	if err != nil {
		return pong, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return pong, err
	}
	return pong, readFrame(c, &pong, headerMax)
}

// header comes before the bytes of a client.
type header struct {
	Listener string `json:"listener"`
	Client   string `json:"client"`
	Local    string `json:"local"`
	From     string `json:"from,omitempty"` // the id of the node that it has come to
}

// Forward returns a connection to a listener of another node, for a client that has come to the address local here.
func (p *Port) Forward(addr, listener, client, local string) (net.Conn, error) {
	c, err := p.dial(addr, forForward, dialTimeout)
	if err != nil {
		return nil, err
	}
	if err := writeFrame(c, header{listener, client, local, p.o.ID}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the port and all connections that came to it.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		return nil
	}
	p.shut = true
	close(p.stop)
	list := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	for _, c := range list {
		_ = c.Close() // the other side sees it
	}
	return p.listener.Close()
}

func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)) //nolint:gosec // short
	return err
}

func readFrame(r io.Reader, v any, most uint32) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return fmt.Errorf("%d bytes are too many", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// forwarded is the connection of a client that came to another node: it has the addresses that it had there.
type forwarded struct {
	net.Conn
	client, local net.Addr
}

// RemoteAddr returns the address of the client.
func (f *forwarded) RemoteAddr() net.Addr { return f.client }

// LocalAddr returns the address that the client has come to.
func (f *forwarded) LocalAddr() net.Addr { return f.local }

func tcpAddr(text string) net.Addr {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return &net.TCPAddr{}
	}
	return net.TCPAddrFromAddrPort(a)
}
