package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// acks knows which nodes have said that they follow this one, and how lately. Raft's own VerifyLeader does not know
// that well enough: it also counts the answer of a learner, and an answer to what was sent before it was asked.
type acks struct {
	mu      sync.Mutex
	sent    uint64                   // messages so far
	term    uint64                   // of the answers below
	newest  map[raft.ServerID]uint64 // by node: the newest message that it has answered
	changed chan struct{}            // closed by the next answer
}

func newAcks() *acks {
	return &acks{newest: make(map[raft.ServerID]uint64), changed: make(chan struct{})}
}

// begin numbers a message that is about to be sent.
func (a *acks) begin() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	return a.sent
}

// answered says that a node follows this one in a term, by its answer to a message.
func (a *acks) answered(id raft.ServerID, term, message uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term < a.term {
		return
	}
	if term > a.term {
		a.term = term
		clear(a.newest)
	}
	a.newest[id] = max(a.newest[id], message)
	close(a.changed)
	a.changed = make(chan struct{})
}

// last returns the number of the last message that was begun.
func (a *acks) last() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// since returns the nodes that have answered a message in this term after that one. The channel is closed when there
// may be more.
func (a *acks) since(term, message uint64) (list []raft.ServerID, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term == a.term {
		for id, newest := range a.newest {
			if newest > message {
				list = append(list, id)
			}
		}
	}
	return list, a.changed
}
