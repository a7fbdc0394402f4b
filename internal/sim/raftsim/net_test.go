package raftsim

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"millrace/internal/raftlog"
)

const (
	// rpcTimeout is how long a node waits for an answer, as in the product.
	rpcTimeout = 5 * time.Second
	// underway is how long a message may be on its way. Who has sent it may not wait for it any more, and may be gone.
	underway = 12 * time.Second
)

var (
	errNetTimeout = errors.New("no answer in time")
	errRefused    = errors.New("nobody answers at this address")
	errGone       = errors.New("this node is gone")
)

type link struct{ from, to raft.ServerAddress }

// network carries messages between nodes. It delays them, loses some, and holds up those that go where nothing gets
// through.
type network struct {
	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	at     map[raft.ServerAddress]*endpoint
	cut    map[link]bool
	healed chan struct{} // closed and replaced when a cut ends
	slow   time.Duration // how long a message takes at most
	loss   int           // how many of a thousand are lost
}

func newNetwork(rng *rand.Rand) *network {
	return &network{
		rng: rng, at: map[raft.ServerAddress]*endpoint{}, cut: map[link]bool{}, healed: make(chan struct{}),
		slow: 2 * time.Millisecond,
	}
}

// set changes how messages fare.
func (n *network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.healed)
	n.healed = make(chan struct{})
}

// heal lets everything through.
func (n *network) heal() {
	n.set(func() {
		clear(n.cut)
		n.slow, n.loss = 2*time.Millisecond, 0
	})
}

// isolate cuts a node off, or only what it sends, or only what is sent to it.
func (n *network) isolate(addr raft.ServerAddress, others []raft.ServerAddress, out, in bool) {
	n.set(func() {
		for _, o := range others {
			if o != addr {
				n.cut[link{addr, o}] = n.cut[link{addr, o}] || out
				n.cut[link{o, addr}] = n.cut[link{o, addr}] || in
			}
		}
	})
}

// travel returns when a message has arrived.
func (n *network) travel(l link, late <-chan time.Time) error {
	for {
		n.mu.Lock()
		cut, healed := n.cut[l], n.healed
		takes, lost := time.Duration(n.rng.Int64N(int64(n.slow))), n.rng.IntN(1000) < n.loss
		n.mu.Unlock()
		var arrived <-chan time.Time
		switch {
		case cut:
		case lost:
			healed = nil
		default:
			arrived, healed = time.After(takes), nil
		}
		select {
		case <-arrived:
			return nil
		case <-healed:
		case <-late:
			return errNetTimeout
		}
	}
}

// endpoint is the network as one process sees it.
type endpoint struct {
	net  *network
	addr raft.ServerAddress
	id   raft.ServerID
	rpcs chan raft.RPC
	dead <-chan struct{}

	mu        sync.Mutex
	heartbeat func(raft.RPC)
}

var (
	_ raftlog.Transport   = (*endpoint)(nil)
	_ raft.AppendPipeline = (*pipeline)(nil)
)

func (n *network) listen(addr raft.ServerAddress, id raft.ServerID, dead <-chan struct{}) *endpoint {
	e := &endpoint{net: n, addr: addr, id: id, rpcs: make(chan raft.RPC), dead: dead}
	n.set(func() { n.at[addr] = e })
	return e
}

// find returns who answers at an address, if it is the node that is meant.
func (n *network) find(id raft.ServerID, addr raft.ServerAddress) *endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.at[addr]; e != nil && e.id == id && !gone(e.dead) {
		return e
	}
	return nil
}

func gone(dead <-chan struct{}) bool {
	select {
	case <-dead:
		return true
	default:
		return false
	}
}

// message is what is sent, and what comes back.
type message struct {
	command any
	data    []byte
}

// call sends a message and waits for the answer.
func (e *endpoint) call(id raft.ServerID, to raft.ServerAddress, m message) (any, error) {
	if gone(e.dead) {
		return nil, errGone
	}
	answered := make(chan raft.RPCResponse, 1)
	go func() {
		answer, err := e.exchange(id, to, m)
		answered <- raft.RPCResponse{Response: answer, Error: err}
	}()
	select {
	case a := <-answered:
		return a.Response, a.Error
	case <-time.After(rpcTimeout):
		return nil, errNetTimeout
	case <-e.dead:
		return nil, errGone
	}
}

func (e *endpoint) exchange(id raft.ServerID, to raft.ServerAddress, m message) (any, error) {
	late := time.After(underway)
	if err := e.net.travel(link{e.addr, to}, late); err != nil {
		return nil, err
	}
	peer := e.net.find(id, to)
	if peer == nil {
		return nil, errRefused
	}
	answer, err := peer.serve(m, late)
	if err != nil {
		return nil, err
	}
	if err := e.net.travel(link{to, e.addr}, late); err != nil {
		return nil, err
	}
	return answer.Response, answer.Error
}

// serve has a node answer.
func (e *endpoint) serve(m message, late <-chan time.Time) (raft.RPCResponse, error) {
	answered := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: m.command, Reader: bytes.NewReader(m.data), RespChan: answered}
	e.mu.Lock()
	heartbeat := e.heartbeat
	e.mu.Unlock()
	if q, ok := m.command.(*raft.AppendEntriesRequest); ok && heartbeat != nil && isHeartbeat(q) {
		heartbeat(rpc) // beside everything else, as in the product
	} else {
		select {
		case e.rpcs <- rpc:
		case <-late:
			return raft.RPCResponse{}, errNetTimeout
		case <-e.dead:
			return raft.RPCResponse{}, errRefused
		}
	}
	select {
	case a := <-answered:
		return a, nil
	case <-late:
		return raft.RPCResponse{}, errNetTimeout
	case <-e.dead:
		return raft.RPCResponse{}, errRefused
	}
}

func isHeartbeat(q *raft.AppendEntriesRequest) bool {
	return q.Term != 0 && q.PrevLogEntry == 0 && q.PrevLogTerm == 0 && len(q.Entries) == 0 && q.LeaderCommitIndex == 0
}

// ask is call with a typed answer.
func ask[T any](e *endpoint, id raft.ServerID, to raft.ServerAddress, m message, into *T) error {
	answer, err := e.call(id, to, m)
	if err == nil {
		*into = *answer.(*T)
	}
	return err
}

// copied is a request as who gets it sees it: nothing is shared.
func copied(q *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	c := *q
	c.Entries = make([]*raft.Log, len(q.Entries))
	for i, l := range q.Entries {
		entry := *l
		entry.Data, entry.Extensions = slices.Clone(l.Data), slices.Clone(l.Extensions)
		c.Entries[i] = &entry
	}
	return &c
}

// Consumer implements raft.Transport.
func (e *endpoint) Consumer() <-chan raft.RPC { return e.rpcs }

// LocalAddr implements raft.Transport.
func (e *endpoint) LocalAddr() raft.ServerAddress { return e.addr }

// EncodePeer implements raft.Transport.
func (e *endpoint) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements raft.Transport.
func (e *endpoint) DecodePeer(p []byte) raft.ServerAddress { return raft.ServerAddress(p) }

// SetHeartbeatHandler implements raft.Transport.
func (e *endpoint) SetHeartbeatHandler(f func(raft.RPC)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heartbeat = f
}

// Close implements raft.WithClose: who is dead is not heard any more anyway.
func (e *endpoint) Close() error { return nil }

// AppendEntries implements raft.Transport.
func (e *endpoint) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest,
	r *raft.AppendEntriesResponse,
) error {
	return ask(e, id, to, message{command: copied(q)}, r)
}

// RequestVote implements raft.Transport.
func (e *endpoint) RequestVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest,
	r *raft.RequestVoteResponse,
) error {
	c := *q
	return ask(e, id, to, message{command: &c}, r)
}

// RequestPreVote implements raft.WithPreVote.
func (e *endpoint) RequestPreVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest,
	r *raft.RequestPreVoteResponse,
) error {
	c := *q
	return ask(e, id, to, message{command: &c}, r)
}

// TimeoutNow implements raft.Transport.
func (e *endpoint) TimeoutNow(id raft.ServerID, to raft.ServerAddress, q *raft.TimeoutNowRequest,
	r *raft.TimeoutNowResponse,
) error {
	c := *q
	return ask(e, id, to, message{command: &c}, r)
}

// InstallSnapshot implements raft.Transport. Some names do not arrive as a whole.
func (e *endpoint) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest,
	r *raft.InstallSnapshotResponse, from io.Reader,
) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	e.net.mu.Lock()
	if e.net.rng.IntN(5) == 0 {
		data = data[:e.net.rng.IntN(len(data)+1)]
	}
	e.net.mu.Unlock()
	c := *q
	return ask(e, id, to, message{command: &c, data: data}, r)
}

// pipeline sends requests one after the other. Like that of the library over the network it holds none back.
type pipeline struct {
	queue chan *future
	done  chan raft.AppendFuture
	shut  chan struct{}
	once  sync.Once
}

// future is the answer to a request of a pipeline. Raft looks at it once it comes out of the pipeline.
type future struct {
	start time.Time
	q     *raft.AppendEntriesRequest
	r     *raft.AppendEntriesResponse
	err   error
}

func (f *future) Error() error                          { return f.err }
func (f *future) Start() time.Time                      { return f.start }
func (f *future) Request() *raft.AppendEntriesRequest   { return f.q }
func (f *future) Response() *raft.AppendEntriesResponse { return f.r }

// AppendEntriesPipeline implements raft.Transport.
func (e *endpoint) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p := &pipeline{queue: make(chan *future), done: make(chan raft.AppendFuture), shut: make(chan struct{})}
	go func() {
		for {
			select {
			case f := <-p.queue:
				f.err = e.AppendEntries(id, to, f.q, f.r)
				select {
				case p.done <- f:
				case <-p.shut:
					return
				}
			case <-p.shut:
				return
			}
		}
	}()
	return p, nil
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(q *raft.AppendEntriesRequest,
	r *raft.AppendEntriesResponse,
) (raft.AppendFuture, error) {
	f := &future{start: time.Now(), q: q, r: r}
	select {
	case p.queue <- f:
		return f, nil
	case <-p.shut:
		return nil, raft.ErrPipelineShutdown
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.shut) })
	return nil
}
