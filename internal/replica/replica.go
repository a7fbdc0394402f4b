package replica

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/internal/job"
	"millrace/internal/store"
)

// ErrFenced means that another node leads, or has led in between.
var ErrFenced = errors.New("another term has begun")

// Store is what a replica keeps on each node.
type Store interface {
	store.Store
	// Apply makes the changes of a batch visible together with the entry of the log they come from and a state. It does
	// not wait for the disk: the log has them. The batch is not retained.
	Apply(b *store.Batch, index uint64, state []byte) error
	// Applied returns the last entry of the log whose changes the store has, and the state that came with it.
	Applied() (index uint64, state []byte)
}

// Replica applies the entries of the log on one node.
type Replica struct {
	store Store
	opt   Options

	mu    sync.Mutex // guards what follows
	state State
	index uint64 // of the last entry
	time  estimate
	parts parts
	term  *Term // in which this node leads; nil: none
	begin *beginning
	voids uint64
	begun uint64 // terms
}

// parts are those of a batch of which not all have come.
type parts struct {
	entry entry // the last of them
	data  []byte
}

// beginning is a term that this node wants to begin.
type beginning struct {
	term uint64
	node string
	log  Leadership
	done func(*Term) // gets the term, or nil if the entry was void
}

// is reports whether an entry is the one that was proposed for it. Another node may have wanted the same term, and got
// it.
func (b *beginning) is(e *entry) bool { return b != nil && b.term == e.term && b.node == e.node }

// Options are how a replica runs; zero values are defaults.
type Options struct {
	Now func() time.Time // the clock of the machine
	// Applied is called with each batch that the store has got; nil: nobody is told. It must not keep the batch.
	Applied func(*store.Batch)
	// PartBytes is how long the data of an entry is at most.
	PartBytes int
}

// Open returns the replica of a store.
func Open(s Store) (*Replica, error) { return OpenWith(s, Options{}) }

// OpenWith returns the replica of a store.
func OpenWith(s Store, o Options) (*Replica, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.PartBytes <= 0 {
		o.PartBytes = partBytes
	}
	index, p := s.Applied()
	state, err := decodeState(p)
	if err != nil {
		return nil, err
	}
	return &Replica{store: s, opt: o, state: state, index: index}, nil
}

// State returns what the store has, and the index of the last entry.
func (r *Replica) State() (State, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.index
}

// Counts returns how many entries were void, and how many terms have begun, since the replica was opened.
func (r *Replica) Counts() (voids, begun uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.voids, r.begun
}

// Whole reports whether the store has all entries up to the last one that was given: it lacks the parts of a batch that
// has not come as a whole.
func (r *Replica) Whole() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts.data == nil
}

// Time returns what time it is in the last term this node knows the time of; term 0: of none.
func (r *Replica) Time() (term uint64, t job.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != nil {
		return r.term.number, r.term.Now()
	}
	return r.time.term, r.time.now(r.opt.Now())
}

// Hear notes what time it is in a term, as another node says.
func (r *Replica) Hear(term uint64, t job.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.time.hear(r.opt.Now(), term, t)
}

// Apply applies an entry of the log. Entries come in order; those that the store has already are passed over. It
// reports whether the entry counts. After an error the node must stop: its state would differ from that of others.
func (r *Replica) Apply(index uint64, content []byte) (accepted bool, err error) {
	e, err := decode(content)
	if err != nil {
		return false, fmt.Errorf("entry %d: %w: %w", index, store.ErrCorrupt, err)
	}
	r.mu.Lock()
	if index <= r.index {
		r.mu.Unlock()
		return false, nil
	}
	var tell []func()
	switch e.kind {
	case kindBegin:
		accepted, tell, err = r.applyBegin(index, &e)
	case kindBatch:
		accepted, tell, err = r.applyBatch(index, &e)
	default: // decode knows no others
	}
	r.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("entry %d: %w", index, err)
	}
	for _, f := range tell {
		f()
	}
	return accepted, nil
}

// void passes over an entry. While parts of a batch are held the store stays where it is, so that they come again after
// a crash.
func (r *Replica) void(index uint64) error {
	r.voids++
	if r.parts.data != nil {
		return nil
	}
	if err := r.store.Apply(&store.Batch{}, index, r.state.encode()); err != nil {
		return err
	}
	r.index = index
	return nil
}

// applyBegin begins a term. That voids what the one before has not finished.
func (r *Replica) applyBegin(index uint64, e *entry) (accepted bool, tell []func(), err error) {
	if e.term != r.state.Term+1 || e.seq != r.state.Seq {
		if b := r.begin; b.is(e) {
			r.begin = nil
			tell = append(tell, func() { b.done(nil) })
		}
		return false, tell, r.void(index)
	}
	if e.chain != r.state.Chain {
		return false, nil, fmt.Errorf("%w: what node %s has at batch %d differs from what this node has",
			store.ErrCorrupt, e.node, e.seq)
	}
	r.parts = parts{}
	if t := r.term; t != nil {
		r.term = nil
		tell = append(tell, func() { t.End(ErrFenced) })
	}
	next := r.state
	next.Term, next.Node = e.term, e.node
	if err := r.store.Apply(&store.Batch{}, index, next.encode()); err != nil {
		return false, nil, err
	}
	r.state, r.index = next, index
	r.begun++
	if b := r.begin; b.is(e) {
		r.begin = nil
		now := r.opt.Now()
		r.term = &Term{
			Store: r.store, replica: r, log: b.log, number: e.term, seq: r.state.Seq, chain: r.state.Chain,
			clock: newClock(r.opt.Now, now, r.time.base(now, r.state.Time)), lost: make(chan struct{}),
		}
		r.time = estimate{e.term, now, r.term.clock.base}
		t := r.term
		tell = append(tell, func() { b.done(t) })
	}
	return true, tell, nil
}

// applyBatch applies a batch once all its parts are there.
func (r *Replica) applyBatch(index uint64, e *entry) (accepted bool, tell []func(), err error) {
	held := &r.parts
	expected := uint32(0)
	chain := r.state.Chain
	if held.data != nil {
		expected, chain = held.entry.part+1, held.entry.chain
	}
	if e.term > r.state.Term {
		return false, nil, fmt.Errorf("%w: a batch of term %d, whose beginning this node does not have",
			store.ErrCorrupt, e.term)
	}
	if e.term != r.state.Term || e.seq != r.state.Seq+1 || e.part != expected || e.part >= e.parts {
		if t := r.term; t != nil && t.number == e.term {
			r.term = nil
			tell = append(tell, func() { t.End(ErrFenced) })
		}
		return false, tell, r.void(index)
	}
	if e.chain != chained(chain, e.data) {
		return false, nil, fmt.Errorf("%w: batch %d of term %d does not follow from what this node has: its data "+
			"differs from that of others", store.ErrCorrupt, e.seq, e.term)
	}
	if e.part+1 < e.parts {
		if held.data == nil {
			held.data = []byte{}
		}
		held.data = append(held.data, e.data...)
		held.entry = *e
		held.entry.data = nil
		return true, nil, nil
	}
	data := e.data
	if held.data != nil {
		data = append(held.data, e.data...)
	}
	r.parts = parts{}
	next := r.state
	next.Seq, next.Chain, next.Time = e.seq, e.chain, e.time
	own := r.term.take(e.seq)
	var b *store.Batch
	if own != nil {
		b = own.batch
	} else {
		decoded, err := store.DecodeBatch(data)
		if err != nil {
			return false, nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		b = &decoded
	}
	if err := r.store.Apply(b, index, next.encode()); err != nil {
		return false, nil, err
	}
	if r.opt.Applied != nil {
		r.opt.Applied(b)
	}
	r.state, r.index = next, index
	if r.time.term <= e.term {
		r.time.raise(r.opt.Now(), e.time)
	}
	if own != nil {
		tell = append(tell, func() { own.done(nil) })
	}
	return true, tell, nil
}
