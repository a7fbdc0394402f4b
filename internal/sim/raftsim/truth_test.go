package raftsim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"millrace/internal/job"
)

// truth is what all nodes have applied. The first one that applies an entry says what it does; all others must agree.
type truth struct {
	mu     sync.Mutex
	points map[uint64]point // by index
	last   uint64
	told   told
}

// point is the state behind an entry.
type point struct {
	version

	term, seq uint64
	time      job.Time
}

// told is a time that a node may know of.
type told struct {
	value job.Time
	at    time.Time
}

// most is what a clock may have come to since.
func (t told) most() job.Time {
	passed := time.Since(t.at)
	return t.value.Add(passed + passed/10 + time.Millisecond)
}

func newTruth(first version) *truth {
	return &truth{points: map[uint64]point{0: {version: first}}, told: told{at: time.Now()}}
}

// term is the last term that has begun.
func (t *truth) term() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.points[t.last].term
}

// end is the last entry.
func (t *truth) end() point {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.points[t.last]
}

// note compares what a node has applied.
func (t *truth) note(name string, before uint64, v version) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := point{version: v, term: binary.BigEndian.Uint64(v.state[1:]), seq: binary.BigEndian.Uint64(v.state[9:])}
	p.time = job.Time(binary.BigEndian.Uint64(v.state[25:]))
	if v.index <= t.last {
		return t.agree(name, p)
	}
	if before != t.last {
		return fmt.Errorf("R-1: node %s applies entry %d behind %d, others have %d", name, v.index, before, t.last)
	}
	last := t.points[t.last]
	switch {
	case p.term == last.term && (p.seq == last.seq || p.seq == last.seq+1):
	case p.term == last.term+1 && p.seq == last.seq:
	default:
		return fmt.Errorf("R-5: node %s has batch %d of term %d behind batch %d of term %d", name, p.seq, p.term,
			last.seq, last.term)
	}
	if p.time < last.time {
		return fmt.Errorf("R-8: batch %d of term %d is of %d, the one before of %d", p.seq, p.term, p.time, last.time)
	}
	t.points[v.index], t.last = p, v.index
	t.tell(p.time)
	return nil
}

// agree compares what a node has applied with what another one has.
func (t *truth) agree(name string, p point) error {
	w, ok := t.points[p.index]
	if !ok {
		return fmt.Errorf("R-1: node %s has a state behind entry %d, and no other has", name, p.index)
	}
	if p.history != w.history || !bytes.Equal(p.state, w.state) {
		return fmt.Errorf("R-2: behind entry %d node %s has batch %d of term %d, state %x; another one had batch %d "+
			"of term %d, state %x",
			p.index, name, p.seq, p.term, p.state, w.seq, w.term, w.state)
	}
	return nil
}

// compare compares a copy.
func (t *truth) compare(v version) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.points[v.index]
	if !ok || v.history != w.history || !bytes.Equal(v.state, w.state) {
		return fmt.Errorf("R-11: a copy behind entry %d is not what any node has had there", v.index)
	}
	if err := sameContent(v.data, w.data); err != nil {
		return fmt.Errorf("R-11: a copy behind entry %d: %w", v.index, err)
	}
	return nil
}

// tell notes a time that nodes may know of.
func (t *truth) tell(value job.Time) { t.told = told{max(value, t.told.most()), time.Now()} }

// begins looks at the time with which a term begins, on a node that has heard the time or may take its clock.
func (t *truth) begins(term uint64, now, clock job.Time, heard bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.points[t.last]; term == last.term && now < last.time {
		return fmt.Errorf("R-8: term %d begins at %d, the last batch is of %d", term, now, last.time)
	}
	most := t.told.most()
	if !heard {
		most = max(most, clock.Add(time.Millisecond))
	}
	if now > most {
		return fmt.Errorf("R-8: term %d begins at %d, %v after all that was known", term, now, now.Sub(most))
	}
	t.tell(now)
	return nil
}
