package raftsim

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/raftlog"
	"millrace/internal/replica"
	"millrace/internal/store/memstore"
)

// node is a machine of the cluster.
type node struct {
	run    *run
	number int
	name   string
	addr   raft.ServerAddress

	ahead time.Duration // its clock
	rate  float64

	mu       sync.Mutex // guards what follows
	id       string
	lives    int
	member   bool       // it has not lost its data
	proc     *process   // nil: it is down
	files    *vfs.MemFS // of the log
	kept     version    // of the store, while it is down
	brought  brought    // by another node, or a part of it
	received *version   // which replaces the store
}

func (r *run) newNode(number int) *node {
	n := &node{run: r, number: number, name: string(rune('a' + number)), member: true}
	n.addr = raft.ServerAddress("at-" + n.name)
	n.ahead = time.Duration(r.rng.Int64N(int64(8*time.Hour))) - 4*time.Hour
	if r.rng.IntN(2) == 0 {
		n.ahead /= 1000
	}
	n.rate = 1 + (r.rng.Float64()-0.5)/1000
	n.erase()
	return n
}

// erase gives the node an empty disk, and with it another identity.
func (n *node) erase() {
	if n.id == "" || !n.run.fault.keepsID {
		n.lives++
		n.id = fmt.Sprintf("%s/%d", n.name, n.lives)
	}
	n.files, n.kept, n.received = vfs.NewCrashableMem(), version{data: memstore.New()}, nil
	n.brought = brought{}
}

// clock is the clock of the machine.
func (n *node) clock() time.Time {
	return n.run.began.Add(n.ahead + time.Duration(float64(time.Since(n.run.began))*n.rate))
}

// up returns the process of the node, or nil.
func (n *node) up() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// process is a node while it runs. After a kill it goes on for a while, without anybody who hears it and on a disk that
// is not its node's any more: nothing can end a goroutine from outside.
type process struct {
	*node

	disk   atomic.Pointer[disk]
	speed  speed
	log    *raftlog.Node
	end    *endpoint
	dead   chan struct{}
	heard  atomic.Bool // somebody has told the time
	paused atomic.Bool
	serve  atomic.Pointer[session]
	ended  sync.WaitGroup
}

// session is what serves clients for a term.
type session struct {
	proc    *process
	term    uint64
	engine  *engine.Engine
	cut     chan struct{} // closed when connections are
	waiting atomic.Int64  // commands that are not answered
}

// start starts the process.
func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		return nil
	}
	p := &process{node: n, dead: make(chan struct{})}
	if n.received != nil { // it was killed when it had just been received
		n.kept, n.received = *n.received, nil
	}
	d := newDisk(n.run, n.name, n.kept)
	p.disk.Store(d)
	n.run.tracef("%s starts as %s, its store has entry %d", n.name, n.id, n.kept.index)
	r, err := p.openReplica(d)
	if err != nil {
		return err
	}
	p.end = n.run.net.listen(n.addr, raft.ServerID(n.id), p.dead)
	p.log, err = raftlog.Open(raftlog.Options{
		Name: n.name, ID: n.id, Dir: "log", FS: errorfs.Wrap(n.files, &p.speed), Replica: r, Transport: p.end,
		Snapshots: snapshotter{p},
		Election:  election, KeepBytes: n.run.keepBytes, SegmentBytes: 64 << 10, OnFatal: p.fatal,
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	n.proc = p
	p.ended.Go(p.loop)
	p.ended.Go(p.pingLoop)
	return nil
}

func (p *process) openReplica(d *disk) (*replica.Replica, error) {
	return replica.OpenWith(d, replica.Options{Now: p.clock, PartBytes: p.run.partBytes})
}

// fatal ends the goroutine that cannot go on, as if it were the process. No disk fails here, so nothing may be wrong.
func (p *process) fatal(err error) {
	if gone(p.dead) {
		return
	}
	p.run.fail(fmt.Errorf("node %s stops: %w", p.name, err))
	runtime.Goexit()
}

// kill ends the process: of what was not synced a part is lost.
func (n *node) kill() {
	n.mu.Lock()
	p := n.proc
	n.proc = nil
	if p == nil {
		n.mu.Unlock()
		return
	}
	close(p.dead)
	// First the store, so that nothing is in it that the log has not.
	n.kept = p.disk.Load().end(n.run.intN)
	n.files = n.run.crash(n.files)
	n.mu.Unlock()
	n.run.tracef("%s is killed, its store is left at %d", n.name, n.kept.index)
	n.run.count(&n.run.seen.kills)
	p.speed.set(0)
	p.speed.goOn()
	n.run.reaped.Go(func() {
		// Raft steps down first: it does not answer all who wait when it is shut down while it leads.
		<-time.After(6 * election)
		_ = p.log.Close() // nobody is interested
		p.ended.Wait()
	})
}

// loop serves clients while the node leads.
func (p *process) loop() {
	for {
		select {
		case t := <-p.log.Terms():
			p.lead(t)
		case <-p.dead:
			return
		}
	}
}

// lead serves clients for a term, as the server does.
func (p *process) lead(t *replica.Term) {
	p.run.tracef("%s begins term %d", p.name, t.Number())
	p.run.count(&p.run.seen.terms)
	now := t.Now
	if p.run.fault.wallClock {
		now = func() job.Time { return job.TimeOf(p.clock()) }
	}
	if !gone(p.dead) {
		p.run.fail(p.run.truth.begins(t.Number(), now(), job.TimeOf(p.clock()), p.heard.Swap(true)))
	}
	s := &session{proc: p, term: t.Number(), cut: make(chan struct{})}
	o := engine.Options{
		Store: p.run.fault.store(t), Now: now, Node: uint32(p.number + 1), Run: t.Number() << 8,
		Seed:      1 + p.run.number>>1,
		OnFailure: func() { close(s.cut) },
	}
	var err error
	if s.engine, err = engine.Open(o); err != nil {
		if t.Err() == nil && !gone(p.dead) {
			p.run.fail(fmt.Errorf("node %s: term %d: %w", p.name, t.Number(), err))
		}
		t.End(replica.ErrFenced)
		return
	}
	p.run.opened(s)
	p.serve.Store(s)
	select {
	case <-t.Lost():
	case <-s.engine.Failed():
	case <-p.dead:
	}
	p.serve.Store(nil)
	s.engine.Abandon(replica.ErrFenced)
	t.End(replica.ErrFenced)
	_ = s.engine.Close() // it tells why it was abandoned
	p.run.tracef("%s does not lead any more: %v", p.name, t.Err())
}

// pause has the main goroutine of Raft stop for a time, in which nothing reaches or leaves the node: it cannot notice
// that it leads no more. So does a process that was stopped and goes on, until Raft gets its turn. What was written
// before comes to its end first, because reads wait for it.
func (p *process) pause(d time.Duration) {
	p.run.tracef("%s pauses for %v", p.name, d)
	p.run.count(&p.run.seen.pauses)
	p.paused.Store(true)
	answer := make(chan raft.RPCResponse) // Raft waits until somebody takes it
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
	p.run.reaped.Go(func() {
		defer p.paused.Store(false)
		<-time.After(100 * time.Millisecond)
		select {
		case p.end.rpcs <- raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: header}, RespChan: answer}:
		case <-p.dead:
			return
		}
		p.run.isolate([]*node{p.node})
		select {
		case <-time.After(d):
		case <-p.dead:
		}
		<-answer
		p.run.net.heal()
	})
}

// pingLoop asks the other nodes for the time, as the server does.
func (p *process) pingLoop() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		for _, o := range p.run.nodes {
			if o != p.node {
				go p.ping(o)
			}
		}
		select {
		case <-tick.C:
		case <-p.dead:
			return
		}
	}
}

func (p *process) ping(o *node) {
	late := time.After(time.Second)
	if p.run.net.travel(link{p.addr, o.addr}, late) != nil {
		return
	}
	other := o.up()
	if other == nil {
		return
	}
	term, t := other.log.Time()
	if p.run.net.travel(link{o.addr, p.addr}, late) != nil || term == 0 || gone(p.dead) {
		return
	}
	p.log.Hear(term, t)
	p.heard.Store(true)
}

var errNoLeader = errors.New("no node leads")

// session returns what serves clients at some node, or nil. Who wants to write has noticed if one is paused: reads
// would wait for what was written.
func (r *run) session(first int, writes bool) *session {
	for i := range r.nodes {
		if p := r.nodes[(first+i)%len(r.nodes)].up(); p != nil && (!writes || !p.paused.Load()) {
			if s := p.serve.Load(); s != nil {
				return s
			}
		}
	}
	return nil
}
