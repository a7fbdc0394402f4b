package raftlog

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"millrace/internal/plant"
	"millrace/internal/replica"
)

// leadership is a term of Raft in which this node leads.
type leadership struct {
	raft      *raft.Raft
	id        raft.ServerID // of this node
	acks      *acks
	term      uint64
	times     *times
	lost      chan struct{}
	ended     sync.WaitGroup
	proposals chan proposed

	mu      sync.Mutex
	waiting []func(error) // for the next confirmation
	asked   chan struct{} // capacity 1: somebody waits
}

var _ replica.Leadership = (*leadership)(nil)

// proposalsMax is how many proposals wait for their outcome before the next one has to.
const proposalsMax = 1024

type proposed struct {
	outcome raft.ApplyFuture
	failed  func(error)
}

// end ends it before Raft goes on.
func (l *leadership) end() {
	close(l.lost)
	l.ended.Wait()
}

// Propose implements replica.Leadership.
func (l *leadership) Propose(content []byte, failed func(error)) {
	p := proposed{l.raft.Apply(content, 0), failed}
	select {
	case l.proposals <- p:
	case <-l.lost:
		failed(raft.ErrLeadershipLost)
	}
}

// await waits for the outcomes. What was committed the replica has told of already. Nobody waits for it, because Raft
// does not tell all of them when it is shut down.
func (l *leadership) await() {
	for {
		select {
		case p := <-l.proposals:
			if err := p.outcome.Error(); err != nil {
				p.failed(err)
			}
		case <-l.lost:
			for {
				select {
				case p := <-l.proposals:
					p.failed(raft.ErrLeadershipLost)
				default:
					return
				}
			}
		}
	}
}

// Confirm implements replica.Leadership. Those who ask during a round share the next one.
func (l *leadership) Confirm(done func(error)) {
	l.mu.Lock()
	l.waiting = append(l.waiting, done)
	l.mu.Unlock()
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// confirmLoop makes the rounds.
func (l *leadership) confirmLoop() {
	for {
		select {
		case <-l.asked:
			l.round()
		case <-l.lost:
			l.round()
			return
		}
	}
}

// round confirms the leadership for those who have asked before it.
func (l *leadership) round() {
	l.mu.Lock()
	list := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	began := time.Now()
	err := l.confirm()
	if err == nil {
		l.times.confirms.Observe(time.Since(began))
	}
	for _, done := range list {
		done(err)
	}
}

// confirm returns nil once a majority has answered something that was sent after the call, in this term. No other node
// can have been elected before the call then: one of those who answered would have had to vote for it, and who votes
// leaves this term.
func (l *leadership) confirm() error {
	before := l.acks.last()
	verified := make(chan error, 1)
	go func() { verified <- l.raft.VerifyLeader().Error() }() // Raft does not answer it any more when it is shut down
	for {
		answered, changed := l.acks.since(l.term, before)
		if l.majority(answered) {
			return nil
		}
		select {
		case <-changed:
		case err := <-verified: // Raft has asked all nodes, and they answer each message in its turn
			if err != nil || plant.RaftVerifies.On() {
				return err
			}
			verified = nil
		case <-l.lost:
			return raft.ErrLeadershipLost
		}
	}
}

// majority reports whether these nodes, and this one if it has not left the term, are more than half of those who vote.
func (l *leadership) majority(nodes []raft.ServerID) bool {
	f := l.raft.GetConfiguration()
	if f.Error() != nil {
		return false
	}
	if l.raft.CurrentTerm() == l.term {
		nodes = append(nodes, l.id)
	}
	var voters, found int
	for _, s := range f.Configuration().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if slices.Contains(nodes, s.ID) {
			found++
		}
	}
	return found > voters/2
}
