package torture

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// known is what the clients know about an operation that was tried.
type known uint8

const (
	nothing   known = iota // not tried, or known to have had no effect
	ambiguous              // tried, and not answered
	confirmed              // answered
)

// entry is the life of one job as its clients saw it.
type entry struct {
	push    known
	ack     known
	ackedAt time.Time // when the answer to the ack was there
	ackLife int       // the life in which it was last tried
	acker   time.Time // which delivery it was last tried for
	seen    bool      // delivered at least once
	swept   bool      // to be deleted, after its ack
	holder  int       // the worker that has it, from 1; zero: nobody
	life    int       // the life of the server in which it was delivered
	by      proto     // through which it was delivered
	at      time.Time // when it was delivered
	until   time.Time // the lease is valid at least until then
	acks    int       // are on their way
	// haunted is until when a request of an earlier holder may still be carried out, which would end the lease of a
	// later one.
	haunted time.Time
	// mortal tells that the lease ends with the life at the latest.
	mortal bool
	trace  []string // what happened to it, for whoever has to find out why
}

// note remembers an event. The last few are enough.
func (e *entry) note(format string, args ...any) {
	const notes = 8
	if len(e.trace) == notes {
		e.trace = e.trace[1:]
	}
	e.trace = append(e.trace, fmt.Sprintf(format, args...))
}

// held is a job in the hands of a worker.
type held struct {
	token string
	delivery
	proto proto
	queue string
	life  int
	sent  time.Time // when the fetch was sent: the lease is not older
	at    time.Time // when the job was there
	until time.Time
	// unsure tells that the worker has acked it and got no answer, kept in which life
	// it has last tried or decided to wait for the next.
	unsure bool
	kept   int
}

// ledger is what all clients know, and the judge of what they see. It is told
// before a request leaves and after a reply has come; so whatever another client
// sees in between is judged by a state that already allows for both outcomes.
type ledger struct {
	mu         sync.Mutex // guards everything
	jobs       map[string]*entry
	violations []violation
	// firm is, for each life, when the last push was sent that was acknowledged in it.
	// But for Faktory a delivery may be answered before its lease is on disk; what is
	// committed is committed in order, though, so that a lease given out before that
	// push was sent has survived the life.
	firm map[int]time.Time
	// slewed tells that time may run faster by a twentieth, and jump a little when all nodes are restarted: so it is
	// in a cluster after a change of leader.
	slewed bool
	latest time.Time // when the last push was sent that was acknowledged

	attempted, acknowledged, deliveries, redeliveries, duplicated, wrong int
	// Deliveries through another protocol than the push.
	crossed int
}

// slewSlack is how far the time of a cluster may be behind the clock of the machine: what a node hears of it is a
// little late, and while it hears nothing it counts a twentieth slower. When all are restarted the time jumps by
// that.
const slewSlack = 500 * time.Millisecond

func newLedger() *ledger { return &ledger{jobs: map[string]*entry{}, firm: map[int]time.Time{}} }

// violationsMax keeps a broken server from filling the log.
const violationsMax = 20

// violation is something that must not happen.
type violation struct {
	text string
	// the life in which it would be explained by a change of the leader that no fault has made; 0: nothing would
	calm int
}

func (v violation) String() string { return v.text }

func (l *ledger) violate(format string, args ...any) { l.violateCalm(0, format, args...) }

func (l *ledger) violateCalm(life int, format string, args ...any) {
	if len(l.violations) < violationsMax {
		l.violations = append(l.violations, violation{fmt.Sprintf(format, args...), life})
	}
}

// broke is called when a connection was lost that no crash explains.
func (l *ledger) broke(life int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violateCalm(life, "%s", text)
}

// excuse is called when the leader has changed in a life although nothing was done to the nodes, which happens on a
// machine that is too busy for their heartbeats.
func (l *ledger) excuse(life int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = slices.DeleteFunc(l.violations, func(v violation) bool { return v.calm == life })
	delete(l.firm, life) // pushes under one leader prove nothing about leases of the one before
}

// complain is called when a client met something that no crash explains.
func (l *ledger) complain(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate("%s", text)
}

// pushing is called before a push leaves.
func (l *ledger) pushing(tokens ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tokens {
		l.attempted++
		l.jobs[t] = &entry{push: ambiguous}
	}
}

// pushed is called when a push that was sent in a life has been acknowledged.
func (l *ledger) pushed(life int, sent time.Time, tokens ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.After(l.firm[life]) {
		l.firm[life] = sent
	}
	if sent.After(l.latest) {
		l.latest = sent
	}
	for _, t := range tokens {
		l.acknowledged++
		l.jobs[t].push = confirmed
	}
}

// sure reports whether a push is known to have been carried out.
func (l *ledger) sure(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jobs[token].push == confirmed
}

// certain is called when it has turned out that pushes were carried out.
func (l *ledger) certain(tokens ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tokens {
		l.jobs[t].push = confirmed
	}
}

// leaseOf returns how long a job is held at least that was pushed through one
// protocol and fetched through another, zero if there is no end.
func leaseOf(push, fetch proto) time.Duration {
	switch {
	case fetch == lmstfy:
		return lmstfyLease
	case push == workq:
		return workqLease
	case push == beanstalkd:
		return beanstalkdLease
	case push == faktory:
		return faktoryLease
	case push == rest:
		return restLease
	case fetch == workq:
		return workqLease // workq.default_ttr
	case fetch == faktory:
		return faktoryDefault
	case fetch == rest:
		return restDefault
	}
	return 0
}

// endless stands for the end of a lease that has none.
const endless = 1000 * time.Hour

// delivered is called when a worker has received something that it asked for at
// sent. It returns what the worker then holds, nil if that is nothing.
func (l *ledger) delivered(d delivery, p proto, queue string, life, worker int, sent, now time.Time, loose bool) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries++
	token, ok := tokenIn(d.body)
	if !ok {
		l.wrong++
		l.violate("a body that nobody pushed: %.200q", d.body)
		return nil
	}
	e := l.jobs[token]
	if e == nil {
		l.wrong++
		l.violate("%q was delivered and never pushed", token)
		return nil
	}
	if e.seen {
		l.redeliveries++
	}
	if pushedBy(token) != p {
		l.crossed++
	}
	lease := leaseOf(pushedBy(token), p)
	if lease == 0 {
		lease = endless
	}
	if l.slewed {
		lease -= lease/20 + slewSlack
	}
	until := sent.Add(lease)
	e.note("life %d: delivered to worker %d through %v as %s", life, worker, p, d.id)
	switch {
	case e.ack == confirmed && sent.After(e.ackedAt):
		l.duplicated++
		l.violate("%s was delivered through %v after its acknowledgement: %q", token, p, e.trace)
	case !loose && sent.After(e.haunted) && e.holder != 0 && now.Before(e.until) && now.Before(until) &&
		(!e.mortal || e.life == life) && l.lasts(e.by, e.at, e.life, life):
		l.violateCalm(life, "%s is in the hands of two workers: %q", token, e.trace)
	}
	// A job that was handed out is on disk (INV-11), whatever became of the answer to its push.
	e.push, e.seen = confirmed, true
	if !now.Before(until) {
		return nil // it took so long that the lease may have ended
	}
	if e.ack == ambiguous && e.ackLife < life && sent.After(e.haunted) {
		e.ack = nothing // it has had no effect, and cannot have one any more
	}
	e.holder, e.life, e.by, e.at, e.until, e.mortal = worker, life, p, now, until, p.connected()
	return &held{token: token, delivery: d, proto: p, queue: queue, life: life, sent: sent, at: now, until: until}
}

// lasts reports whether a lease given out through a protocol at a time in one life is
// known to be there in another.
func (l *ledger) lasts(p proto, at time.Time, from, to int) bool {
	return from == to || p == faktory || at.Before(l.firm[from])
}

// lasting is lasts for a job in a worker's hands.
func (l *ledger) lasting(h *held, life int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lasts(h.proto, h.at, h.life, life)
}

// acking is called before an ack leaves.
func (l *ledger) acking(h *held, life int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[h.token]
	e.note("life %d: acking for worker %d", life, e.holder)
	e.acks++
	if e.ack != confirmed {
		e.ack, e.ackLife, e.acker = ambiguous, life, h.sent
	}
	e.holder = 0
}

// heard is called when there is an answer to an ack, or will be none. If that took longer than the lease, somebody else
// may have had the job already when the ack was carried out.
func (l *ledger) heard(h *held, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[h.token]
	if e.acks--; l.slewed && !now.Before(h.until) {
		e.haunted = now.Add(hauntedMax)
	}
}

// acked is called when an ack has been acknowledged. Faktory and LMSTFY say yes
// also to the ack of a job that nobody holds or somebody else does, so there only
// the time tells whether it was carried out.
func (l *ledger) acked(h *held, p proto, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[h.token]
	e.note("acked through %v as %s, %v before the end of its lease", p, h.id, h.until.Sub(now))
	if (p == faktory || p == lmstfy) && !now.Before(h.until) {
		return
	}
	if e.ack != confirmed {
		e.ack, e.ackedAt = confirmed, now
	}
}

// refused is called when an ack has been refused: the lease must have ended, or the
// job must have been acked before.
func (l *ledger) refused(h *held, now time.Time, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[h.token]
	e.note("ack as %s refused: %s", h.id, text)
	switch {
	case e.ack == confirmed:
	case h.unsure:
		e.ack, e.ackedAt = confirmed, now // it was the first time that counted
	case now.Before(e.haunted) || l.slewed && e.acks > 0:
	case now.Before(h.until):
		l.violate("the ack of %s was refused although it is held: %q", h.token, e.trace)
	case e.acker.Equal(h.sent):
		e.ack = nothing // nobody else has tried since: if it is gone now, it is lost
	}
}

// hauntedMax is how long a request may be on its way that nobody waits for any more: a node may have been paused with
// it, and while two cannot reach each other TCP tries again after twice as long each time.
const hauntedMax = time.Minute

// haunt is called when a request about a job was not answered.
func (l *ledger) haunt(h *held, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[h.token].haunted = now.Add(hauntedMax)
}

// letGo is called before a worker gives a job back.
func (l *ledger) letGo(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[h.token]
	e.note("let go by worker %d", e.holder)
	e.holder = 0
}

// sweep reports whether a job is known to be acknowledged, the first time it is.
func (l *ledger) sweep(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[token]
	if e.ack != confirmed || e.swept {
		return false
	}
	e.swept = true
	return true
}

// verdict counts, once everything has been drained, what is lost and what cannot
// be known: a push or an ack whose answer was cut off.
func (l *ledger) verdict() (lost, unknown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for token, e := range l.jobs {
		switch {
		case e.push == ambiguous || e.ack == ambiguous:
			unknown++
		case e.ack == nothing:
			lost++
			l.violate("%s is lost: pushed, never acknowledged by a worker, and not there: %q", token, e.trace)
		}
	}
	return lost, unknown
}
