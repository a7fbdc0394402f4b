package system

import (
	"fmt"
	"sync"
)

// known is what a client knows about an operation it tried.
type known uint8

const (
	nothing   known = iota // not tried
	ambiguous              // tried, and the connection broke before the answer
	confirmed              // answered
)

// entry is the life of one job as its clients saw it.
type entry struct {
	push   known
	ack    known
	holder int // the worker that has it, from 1; zero: nobody
	life   int // the life of the server in which it was delivered
	// A job pushed in the transaction that acks another stands or falls with that ack.
	parent *entry
	child  *entry
	// forbidden tells that the transaction which pushed it has been seen not to
	// have taken effect.
	forbidden bool
}

// ledger is what all clients know, and the judge of what they see. It is asked
// before a request leaves and told after a reply has come; so whatever another
// client sees in between is judged by a state that already allows for both
// outcomes.
type ledger struct {
	mu         sync.Mutex // guards everything
	jobs       map[string]*entry
	ids        map[uint64]string
	violations []string

	attempted, acknowledged, deliveries, redeliveries, duplicated int
}

func newLedger() *ledger {
	return &ledger{jobs: map[string]*entry{}, ids: map[uint64]string{}}
}

// violationsMax keeps a broken server from filling the log.
const violationsMax = 20

func (l *ledger) violate(format string, args ...any) {
	if len(l.violations) < violationsMax {
		l.violations = append(l.violations, fmt.Sprintf(format, args...))
	}
}

// pushing is called before a push leaves.
func (l *ledger) pushing(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempted++
	l.jobs[job] = &entry{push: ambiguous}
}

// pushed is called when a push has been acknowledged.
func (l *ledger) pushed(job string, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged++
	l.jobs[job].push = confirmed
	if other, taken := l.ids[id]; taken {
		l.violate("%s and %s both got the id %d", other, job, id)
	}
	l.ids[id] = job
}

// delivered is called when a worker has received a job.
func (l *ledger) delivered(job string, life, worker int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries++
	e := l.jobs[job]
	if e == nil {
		l.violate("%q was delivered and never pushed", job)
		return
	}
	if e.life > 0 {
		l.redeliveries++
	}
	switch {
	case e.ack == confirmed:
		l.duplicated++
		l.violate("%s was delivered after its acknowledgement (life %d)", job, life)
	case e.forbidden:
		l.violate("%s exists although the transaction that pushed it did not take effect", job)
	case e.holder != 0 && e.life == life:
		l.violate("%s is in the hands of worker %d and of worker %d in one life", job, e.holder, worker)
	}
	// A job that was handed out is on disk (INV-11), whatever became of the answer to its push.
	e.push = confirmed
	if e.parent != nil {
		// The transaction that pushed it took effect, and so did its ack.
		e.parent.ack = confirmed
	}
	if e.ack == ambiguous {
		// The ack did not take effect, and so nor did what was in the same transaction.
		e.ack = nothing
		if e.child != nil {
			e.child.forbidden = true
			e.child = nil
		}
	}
	e.holder, e.life = worker, life
}

// acking is called before an ack leaves; with a child, before a transaction that
// also pushes it.
func (l *ledger) acking(job, child string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[job]
	e.ack, e.holder = ambiguous, 0
	if child != "" {
		l.attempted++
		e.child = &entry{push: ambiguous, parent: e}
		l.jobs[child] = e.child
	}
}

// acked is called when an ack, or the transaction, has been acknowledged.
func (l *ledger) acked(job, child string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[job].ack = confirmed
	if child != "" {
		l.acknowledged++
		l.jobs[child].push = confirmed
	}
}

// letGo is called before a worker gives a job back.
func (l *ledger) letGo(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[job].holder = 0
}

// broken is called when a client met something that no crash explains.
func (l *ledger) broken(_ int, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate("%s", what)
}

// verdict counts, once everything has been drained, what is lost and what cannot
// be known: a push or an ack whose answer was cut off.
func (l *ledger) verdict() (lost, unknown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for job, e := range l.jobs {
		switch {
		case e.push == ambiguous || e.ack == ambiguous:
			unknown++
		case e.ack == nothing:
			lost++
			l.violate("%s is lost: pushed, never acknowledged by a worker, and not there (last seen in life %d)", job,
				e.life)
		}
	}
	return lost, unknown
}
