package engine

import "slices"

// confirmer is a store that several nodes have, of which one at a time may write. What was applied
// here may be out of date without anybody having told: another node may lead since a moment ago,
// and have answered others.
type confirmer interface {
	// Confirm calls done(nil) if this node was the one that may write at some moment after the call. It does not call
	// done before it returns.
	Confirm(done func(error))
}

// proofs are answers that wait for a proof that this node was the one to give them: those that no batch which was
// sealed after they were applied has to commit. A batch that is on its way already proves nothing, because the others
// may have had it before.
type proofs struct {
	confirm func(done func(error)) // nil: none is needed
	waiting []*Request             // for the next round
	asking  bool                   // a round is in progress
	asked   []*Request             // wait for that one
}

// answerProven lets a request go once there is a proof, and what it needs is committed. One round serves
// all who came before it.
func (e *Engine) answerProven(r *Request) {
	e.proofs.waiting = append(e.proofs.waiting, r)
	e.askProof()
}

// askProof begins a round. Those who come during it wait for the next one: a proof counts only for what
// was applied before it was asked for.
func (e *Engine) askProof() {
	p := &e.proofs
	if p.asking || len(p.waiting) == 0 {
		return
	}
	p.asking = true
	p.waiting, p.asked = p.asked[:0], p.waiting
	p.confirm(e.answerRound)
}

// answerRound answers those who have waited for a round. A failed round ends the engine, because another
// node may lead.
func (e *Engine) answerRound(err error) {
	if err != nil {
		e.fail(err)
	}
	now := e.Now()
	e.mu.Lock()
	e.proofs.asking = false
	for _, r := range e.proofs.asked { // none is left if the engine has been given up
		switch {
		case e.Err() != nil:
			answerAll(r, e.closedError())
			e.answered = append(e.answered, r)
		case r.needs <= e.durable:
			e.answered = append(e.answered, r)
			e.meter.atOnce.note(r, r.took(now))
		default:
			i := slices.IndexFunc(e.flights, func(c *flight) bool { return r.needs <= c.step })
			e.flights[i].late = append(e.flights[i].late, r)
		}
	}
	clear(e.proofs.asked)
	e.proofs.asked = e.proofs.asked[:0]
	if e.Err() == nil {
		e.askProof()
	}
	e.unlock()
}
