package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"millrace/internal/job"
	"millrace/internal/store"
)

// Leadership is a log that this node may write to as long as it leads.
type Leadership interface {
	// Propose gives an entry to the log, which keeps the content. Entries are applied in the order of the calls, or
	// none any more from some point on. Failed is called if the outcome of one is unknown.
	Propose(content []byte, failed func(error))
	// Confirm calls done(nil) if this node has led without a break until some moment after the call. It does not call
	// done before it returns: the caller may hold a lock that done takes.
	Confirm(done func(error))
}

const (
	// depth is how many batches are on their way at once.
	depth = 4
	// partBytes is how long an entry is at most: others wait behind a longer one.
	partBytes = 256 << 10
)

// Term is a store whose commits are entries of one term.
type Term struct {
	Store
	replica *Replica
	log     Leadership
	number  uint64
	clock   Clock
	lost    chan struct{}
	over    atomic.Bool // it has ended

	scratch store.Batch // belongs to who commits, as do the next two
	seq     uint64      // of the last batch that was proposed
	chain   uint64

	pending []*proposal // the oldest first; guarded by replica.mu, as is the next
	err     error       // why the term has ended
}

// proposal is a batch on its way.
type proposal struct {
	seq   uint64
	batch *store.Batch
	done  func(error)
}

// Begin begins a term of this node, which leads as far as the log knows.
func (r *Replica) Begin(ctx context.Context, log Leadership, node string) (*Term, error) {
	type outcome struct {
		term *Term
		err  error
	}
	ended := make(chan outcome, 1)
	r.StartTerm(log, node, func(t *Term, err error) {
		select {
		case ended <- outcome{t, err}:
		default: // the log has told of the same entry before
		}
	})
	select {
	case o := <-ended:
		return o.term, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("begin a term: %w", ctx.Err())
	}
}

// StartTerm is Begin for who does not wait: done is called when the term has begun, when it is void, or when its
// outcome is unknown. It may be called again with another outcome after an unknown one.
func (r *Replica) StartTerm(log Leadership, node string, done func(*Term, error)) {
	r.mu.Lock()
	term := r.state.Term + 1
	e := entry{kind: kindBegin, term: term, seq: r.state.Seq, chain: r.state.Chain, node: node}
	r.begin = &beginning{term: term, node: node, log: log, done: func(t *Term) {
		if t == nil {
			done(nil, fmt.Errorf("begin term %d: %w", term, ErrFenced))
			return
		}
		done(t, nil)
	}}
	r.mu.Unlock()
	log.Propose(e.encode(), func(err error) { done(nil, fmt.Errorf("begin term %d: %w", term, err)) })
}

// Number returns the number of the term.
func (t *Term) Number() uint64 { return t.number }

// Now returns the time of the term.
func (t *Term) Now() job.Time { return t.clock.Now() }

// Lost is closed when the term has ended.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Err returns why the term has ended, or nil.
func (t *Term) Err() error {
	t.replica.mu.Lock()
	defer t.replica.mu.Unlock()
	return t.err
}

// Depth implements store.Store.
func (t *Term) Depth() int { return depth }

// Commit implements store.Store: the batch is committed once a majority of the nodes has it on stable storage and it
// was applied here. After an error it is unknown whether it is.
func (t *Term) Commit(b *store.Batch, done func(error)) {
	t.replica.mu.Lock()
	if t.err != nil {
		t.replica.mu.Unlock()
		done(t.err)
		return
	}
	t.seq++
	t.pending = append(t.pending, &proposal{t.seq, b, done})
	t.replica.mu.Unlock()

	content, most := b.Effective(&t.scratch), t.replica.opt.PartBytes
	parts := uint32((len(content) + most - 1) / most) //nolint:gosec // below 2^32
	e := entry{kind: kindBatch, term: t.number, seq: t.seq, time: t.Now(), parts: parts}
	for ; e.part < e.parts; e.part++ {
		e.data = content[:min(len(content), most)]
		content = content[len(e.data):]
		t.chain = chained(t.chain, e.data)
		e.chain = t.chain
		t.log.Propose(e.encode(), t.End)
	}
	if t.scratch.Size() > partBytes {
		t.scratch = store.Batch{}
	}
}

var errOver = errors.New("the term has ended: the store may have what others have written")

// Get implements store.Reader. Once the term has ended the store changes without whoever wrote to it: what is in memory
// there does not fit to it any more. So nothing is read from then on.
func (t *Term) Get(dst, key []byte) ([]byte, bool, error) {
	value, ok, err := t.Store.Get(dst, key)
	if err == nil && t.over.Load() {
		return dst, false, errOver
	}
	return value, ok, err
}

// Scan implements store.Reader, with the limit that Get has. A scan that has begun goes on, because it sees the moment
// of its beginning.
func (t *Term) Scan(r store.Range, visit func(key, value []byte) bool) error {
	begun, over := false, false
	err := t.Store.Scan(r, func(key, value []byte) bool {
		if !begun {
			begun, over = true, t.over.Load()
		}
		return !over && visit(key, value)
	})
	if err == nil && (over || !begun && t.over.Load()) {
		return errOver
	}
	return err
}

// Confirm calls done(nil) if the term had not ended at some moment after the call.
func (t *Term) Confirm(done func(error)) {
	t.log.Confirm(func(err error) {
		if err == nil {
			err = t.Err()
		}
		done(err)
	})
}

// End ends the term: what is on its way may become committed or not, and nobody is told anything else.
func (t *Term) End(err error) {
	r := t.replica
	r.mu.Lock()
	if r.term == t {
		r.term = nil
	}
	if t.err != nil {
		r.mu.Unlock()
		return
	}
	t.over.Store(true)
	t.err = fmt.Errorf("term %d has ended: %w", t.number, err)
	pending := t.pending
	t.pending = nil
	close(t.lost)
	r.mu.Unlock()
	for _, p := range pending {
		p.done(t.err)
	}
}

// take returns the batch of this term with a number, if it is on its way, and forgets it.
func (t *Term) take(seq uint64) *proposal {
	if t == nil || len(t.pending) == 0 || t.pending[0].seq != seq {
		return nil
	}
	p := t.pending[0]
	t.pending[0] = nil
	t.pending = t.pending[1:]
	return p
}
