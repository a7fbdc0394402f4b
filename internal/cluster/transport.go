package cluster

import (
	"io"

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
func (t Transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	return t.NetworkTransport.AppendEntries(id, to(id, addr), q, r)
}

// RequestVote implements raft.Transport.
func (t Transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, q *raft.RequestVoteRequest, r *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, to(id, addr), q, r)
}

// RequestPreVote implements raft.WithPreVote.
func (t Transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, q *raft.RequestPreVoteRequest, r *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, to(id, addr), q, r)
}

// InstallSnapshot implements raft.Transport.
func (t Transport) InstallSnapshot(
	id raft.ServerID, addr raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, to(id, addr), q, r, data)
}

// TimeoutNow implements raft.Transport.
func (t Transport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, q *raft.TimeoutNowRequest, r *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, to(id, addr), q, r)
}
