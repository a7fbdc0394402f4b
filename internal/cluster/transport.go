package cluster

import (
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Transport is what the log of a node uses to reach the others. It sends to ids. The library sends to addresses, and
// takes whoever answers there for the node that it means: one that has lost its data would vote and count for a
// majority as the node that it was.
type Transport struct{ *raft.NetworkTransport }

var (
	_ raft.Transport   = Transport{}
	_ raft.WithPreVote = Transport{}
	_ raft.WithClose   = Transport{}
)

// idEnd is between the id and the address of a node.
const idEnd = "@"

// to returns the address by which stream knows a node.
func to(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + idEnd + addr
}

// AppendEntriesPipeline implements raft.Transport.
func (t Transport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	return t.NetworkTransport.AppendEntriesPipeline(id, to(id, addr))
}

// AppendEntries implements raft.Transport.
func (t Transport) AppendEntries(
	id raft.ServerID, addr raft.ServerAddress, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse,
) error {
	return t.NetworkTransport.AppendEntries(id, to(id, addr), q, r)
}

// RequestVote implements raft.Transport.
func (t Transport) RequestVote(
	id raft.ServerID, addr raft.ServerAddress, q *raft.RequestVoteRequest, r *raft.RequestVoteResponse,
) error {
	return t.NetworkTransport.RequestVote(id, to(id, addr), q, r)
}

// RequestPreVote implements raft.WithPreVote.
func (t Transport) RequestPreVote(
	id raft.ServerID, addr raft.ServerAddress, q *raft.RequestPreVoteRequest, r *raft.RequestPreVoteResponse,
) error {
	return t.NetworkTransport.RequestPreVote(id, to(id, addr), q, r)
}

// InstallSnapshot implements raft.Transport.
func (t Transport) InstallSnapshot(
	id raft.ServerID, addr raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse,
	data io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, to(id, addr), q, r, data)
}

// TimeoutNow implements raft.Transport.
func (t Transport) TimeoutNow(
	id raft.ServerID, addr raft.ServerAddress, q *raft.TimeoutNowRequest, r *raft.TimeoutNowResponse,
) error {
	return t.NetworkTransport.TimeoutNow(id, to(id, addr), q, r)
}

// raftHeader comes first on a connection of the log, or for all data.
type raftHeader struct {
	To      string `json:"to"`                // the id of the node that is meant
	Cluster string `json:"cluster,omitempty"` // the identity of the cluster; empty: not known
}

// Transport returns what the log of this node uses to reach the others.
func (p *Port) Transport() Transport {
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: stream{p}, MaxPool: 4, Timeout: 5 * time.Second, MaxRPCsInFlight: 2, Logger: hclog.NewNullLogger(),
	})
	// What the library sends of a snapshot is the name of a checkpoint that the other node has. That node opens it
	// before it answers, which may take long: it has the timeout for each byte of the name.
	t.TimeoutScale = 1
	return Transport{t}
}

// stream is the port as the library of the log sees it.
type stream struct{ p *Port }

var _ raft.StreamLayer = stream{}

func (s stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.p.raft:
		return c, nil
	case <-s.p.stop:
		return nil, net.ErrClosed
	}
}

func (s stream) Close() error   { return s.p.Close() }
func (s stream) Addr() net.Addr { return advertised(s.p.o.Advertise) }

// advertised is an address as it is configured.
type advertised string

func (a advertised) Network() string { return "tcp" }
func (a advertised) String() string  { return string(a) }

func (s stream) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, host, _ := strings.Cut(string(addr), idEnd)
	return s.p.reach(id, host, forRaft, timeout)
}

// Data returns a connection to another node for all data of this one.
func (p *Port) Data(id, addr string) (net.Conn, error) {
	return p.reach(id, addr, forData, dialTimeout)
}

// reach connects to a node, and to no other that has its address.
func (p *Port) reach(id, addr string, kind byte, timeout time.Duration) (net.Conn, error) {
	c, err := p.dial(addr, kind, timeout)
	if err != nil {
		return nil, err
	}
	h := raftHeader{To: id}
	if p.o.Cluster != nil {
		h.Cluster = p.o.Cluster()
	}
	if err := writeFrame(c, h); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
