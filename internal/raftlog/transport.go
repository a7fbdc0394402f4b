package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"

	"millrace/internal/plant"
)

// Transport is how nodes reach each other.
type Transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// transport keeps pipelines from getting stuck, and notes who has answered.
type transport struct {
	Transport
	acks *acks
}

// AppendEntries implements raft.Transport. Raft's heartbeats go through it.
func (t transport) AppendEntries(
	id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	message := t.acks.begin()
	err := t.Transport.AppendEntries(id, addr, req, resp)
	if err == nil && resp.Success {
		t.acks.answered(id, req.Term, message)
	}
	return err
}

// AppendEntriesPipeline implements raft.Transport.
func (t transport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.Transport.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	if plant.PipelineWaits.On() {
		return p, nil
	}
	return newPipeline(p), nil
}

// pipeline takes answers whether Raft asks for them or not. After an answer that says no, Raft takes no other one and
// ends the pipeline; but it may send once more before it does. A pipeline whose answers nobody takes holds that up for
// good: the other node gets no entries any more, although it hears that all is well.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	closed  chan struct{}
	close   sync.Once
}

func newPipeline(p raft.AppendPipeline) *pipeline {
	w := &pipeline{AppendPipeline: p, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go w.take()
	return w
}

// take hands the answers on. No more of them wait than Raft sends before it notices that it has to end the pipeline.
func (p *pipeline) take() {
	var waiting []raft.AppendFuture
	for {
		var to chan<- raft.AppendFuture
		var first raft.AppendFuture
		if len(waiting) > 0 {
			to, first = p.answers, waiting[0]
		}
		select {
		case f := <-p.AppendPipeline.Consumer():
			waiting = append(waiting, f)
		case to <- first:
			waiting[0] = nil
			waiting = waiting[1:]
		case <-p.closed:
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.close.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}
