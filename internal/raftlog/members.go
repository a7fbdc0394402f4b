package raftlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Servers returns the members, as the log of this node has them.
func (n *Node) Servers() ([]Server, error) {
	f := n.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	var list []Server
	for _, s := range f.Configuration().Servers {
		list = append(list, Server{ID: string(s.ID), Addr: string(s.Address), Learner: s.Suffrage != raft.Voter})
	}
	return list, nil
}

// ErrNotLeading means that this node ceased to lead before a change of the members was made. Whether it will be is
// unknown.
var ErrNotLeading = errors.New("this node does not lead any more")

// changed returns the outcome of a change of the members.
func changed(f raft.Future) error {
	err := f.Error()
	for _, lost := range []error{raft.ErrNotLeader, raft.ErrLeadershipLost, raft.ErrLeadershipTransferInProgress} {
		if errors.Is(err, lost) {
			return fmt.Errorf("%w: %w", ErrNotLeading, err)
		}
	}
	return err
}

// changePatience is how long a change of the members waits for its turn.
const changePatience = 5 * time.Second

// AddLearner makes a node a member that counts for no majority. Of one that is a member it changes the address. This
// node must lead, as it must for the other changes.
func (n *Node) AddLearner(id, addr string) error {
	return changed(n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, changePatience))
}

// TransferTo gives the leadership to a voter.
func (n *Node) TransferTo(id, addr string) error {
	return n.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(addr)).Error()
}

// Promote has a learner count for majorities.
func (n *Node) Promote(id, addr string) error {
	return changed(n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(addr), 0, changePatience))
}

// Remove takes a member out.
func (n *Node) Remove(id string) error {
	return changed(n.raft.RemoveServer(raft.ServerID(id), 0, changePatience))
}
