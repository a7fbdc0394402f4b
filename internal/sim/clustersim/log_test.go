package clustersim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"millrace/internal/job"
	"millrace/internal/replica"
	"millrace/internal/sim"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// leadership is the right of a node to write to the log, until another one begins. The node is told of its end late, or
// by what it applies.
type leadership struct {
	run   *run
	node  *node
	life  int  // of the node
	tries bool // its node waits for the beginning of a term

	queue   []proposal // given and neither in the log nor dropped
	dropped []proposal
	rounds  []*round

	confirmed bool // the last round was
}

type proposal struct {
	content []byte
	failed  func(error)
}

// round is a confirmation that was asked for.
type round struct {
	done  func(error)
	asked bool // the others were, and have said whether
	leads bool
}

var errLost = errors.New("leadership lost")

// Propose implements replica.Leadership.
func (l *leadership) Propose(content []byte, failed func(error)) {
	p := proposal{l.run.fault.keeps(content), failed}
	current := l.run.leads
	switch {
	case current == l:
		l.queue = append(l.queue, p)
	case l.run.careless && current.node == l.node && current.life == l.life:
		// A log that does not know of leaderships takes for one what was meant for another.
		current.queue = append(current.queue, p)
	case l.run.rng.IntN(2) == 0:
		failed(errLost)
	default:
		l.dropped = append(l.dropped, p)
	}
}

// Confirm implements replica.Leadership.
func (l *leadership) Confirm(done func(error)) {
	known := l.run.fault.oldRounds && l.confirmed
	l.rounds = append(l.rounds, &round{done: done, asked: known, leads: known})
}

// alive reports whether the process to which it was given still runs.
func (l *leadership) alive() bool { return l.node.up && l.node.life == l.life }

// kinds of entries, and where their fields are.
const (
	kindBegin = 1
	kindBatch = 2
	atTerm    = 6
	atSeq     = 14
	atChain   = 22
	atNode    = 30
	atTime    = 30
	atPart    = 38
	atParts   = 42
	atData    = 46
)

// entry is an entry of the log as its bytes say.
type entry struct {
	kind             byte
	term, seq, chain uint64
	node             string
	time             job.Time
	part, parts      uint32
	data             []byte
}

func parse(p []byte) entry {
	e := entry{
		kind: p[1], term: binary.BigEndian.Uint64(p[atTerm:]), seq: binary.BigEndian.Uint64(p[atSeq:]),
		chain: binary.BigEndian.Uint64(p[atChain:]),
	}
	if e.kind == kindBegin {
		e.node = string(p[atNode:])
		return e
	}
	e.time = job.Time(binary.BigEndian.Uint64(p[atTime:]))
	e.part, e.parts, e.data = binary.BigEndian.Uint32(p[atPart:]), binary.BigEndian.Uint32(p[atParts:]), p[atData:]
	return e
}

// meaning is what the log means up to an entry. It is what all replicas are compared with, and is made without any of
// their code.
type meaning struct {
	content  []byte
	entry    entry
	accepted bool
	whole    bool // no part of a batch waits for others

	state   replica.State
	data    *memstore.Store
	history uint64
	model   *sim.Model
	at      job.Time // of the world, when the last batch came
	parts   []byte
	part    uint32
}

// batchName names a batch that an engine has sealed.
type batchName struct{ term, seq uint64 }

// enter puts an entry into the log: a majority has it from now on.
func (r *run) enter(p proposal) error {
	before := r.log[len(r.log)-1]
	m := *before
	m.content, m.entry = p.content, parse(p.content)
	e := &m.entry
	switch e.kind {
	case kindBegin:
		m.accepted = e.term == m.state.Term+1 && e.seq == m.state.Seq
		if m.accepted {
			m.state.Term, m.state.Node = e.term, e.node
			m.parts, m.part, m.whole = nil, 0, true
		}
	default:
		m.accepted = e.term == m.state.Term && e.seq == m.state.Seq+1 && e.part == m.part && e.part < e.parts
		if m.accepted {
			if err := r.enterPart(&m); err != nil {
				return err
			}
		}
	}
	r.log = append(r.log, &m)
	r.tracef("log: entry %d is kind %d, term %d, seq %d, part %d/%d: counts %v", r.end(), e.kind, e.term, e.seq, e.part,
		e.parts, m.accepted)
	return nil
}

// enterPart adds a part to its batch.
func (r *run) enterPart(m *meaning) error {
	e := &m.entry
	m.parts = append(slices.Clip(m.parts), e.data...)
	m.part++
	if m.whole = m.part == e.parts; !m.whole {
		return nil
	}
	b, err := store.DecodeBatch(m.parts)
	if err != nil {
		return err
	}
	m.parts, m.part = nil, 0
	m.data = m.data.Fork()
	if err := store.CommitNow(m.data, &b); err != nil {
		return err
	}
	m.history = withBatch(m.history, &b)
	if e.time < m.state.Time {
		return fmt.Errorf("R-8: batch %d of term %d was sealed at %d, the one before it at %d", e.seq, e.term,
			e.time, m.state.Time)
	}
	m.state.Seq, m.state.Chain, m.state.Time, m.at = e.seq, e.chain, e.time, job.Time(r.now.Microseconds())
	r.noteTime(e.time)
	r.batches[e.seq] = placed{e.term, r.end() + 1}
	m.model = r.sealed[batchName{e.term, e.seq}]
	if m.model == nil {
		return fmt.Errorf("R-5: batch %d of term %d is in the log, and nobody has sealed it", e.seq, e.term)
	}
	return r.compareMeaning(m)
}

// placed says where in the log a batch is.
type placed struct{ term, index uint64 }

// end is the index of the last entry.
func (r *run) end() uint64 { return uint64(len(r.log) - 1) }
