package torture

import (
	"testing"
	"time"
)

// play is a history for the ledger, in which time passes as it is told.
type play struct {
	*ledger
	now time.Time
	h   *held
}

func (p *play) push(token string) *play {
	p.pushing(token)
	p.pushed(1, p.now, token)
	return p
}

// deliver delivers a job through a protocol.
func (p *play) deliver(token string, by proto, life, worker int) *play {
	p.now = p.now.Add(time.Millisecond)
	p.h = p.delivered(delivery{id: "1", body: bodyOf(token)}, by, "q", life, worker, p.now, p.now, false)
	return p
}

// later lets time pass.
func (p *play) later(d time.Duration) *play {
	p.now = p.now.Add(d)
	return p
}

// try sends an ack of what was delivered last, and ack also gets the answer.
func (p *play) try(life int) *play {
	p.acking(p.h, life)
	return p
}

func (p *play) ack(life int) *play {
	p.try(life)
	p.later(time.Millisecond)
	p.acked(p.h, p.h.proto, p.now)
	return p.later(time.Millisecond)
}

// TestLedger shows that the judge of TestKill would convict.
func TestLedger(t *testing.T) {
	t.Parallel()
	const f, w, m, l = "f1", "w1", "m1", "l1"
	tests := []struct {
		name       string
		play       func(p *play)
		lost       int
		violations int
	}{
		{"acknowledged and gone", func(p *play) { p.push(f) }, 1, 1},
		{"never answered and gone", func(p *play) { p.pushing(f) }, 0, 0},
		{"never answered, seen, and then gone", func(p *play) { p.pushing(f); p.deliver(f, faktory, 1, 1) }, 1, 1},
		{"a whole life", func(p *play) { p.push(m).deliver(m, workq, 1, 1).ack(1) }, 0, 0},
		{"back after its ack", func(p *play) {
			p.push(m).deliver(m, workq, 1, 1).ack(1).deliver(m, masenko, 2,
				2).ack(2)
		}, 0, 1},
		{"back because the ack was cut off", func(p *play) {
			p.push(m).deliver(m, masenko, 1, 1).try(1).deliver(m, masenko, 2, 2).ack(2)
		}, 0, 0},
		{"in two hands", func(p *play) { p.push(m).deliver(m, masenko, 1, 1).deliver(m, masenko, 1, 2).ack(1) }, 0, 1},
		{
			"a connection's lease ends with the life",
			func(p *play) { p.push(m).deliver(m, masenko, 1, 1).deliver(m, masenko, 2, 2).ack(2) }, 0, 0,
		},
		{"a reservation does not", func(p *play) {
			p.push(m).deliver(m, faktory, 1, 1).deliver(m, masenko, 2, 2).ack(2)
		}, 0, 1},
		{
			"a lease may, if nothing was committed after it",
			func(p *play) { p.push(m).deliver(m, workq, 1, 1).deliver(m, masenko, 2, 2).ack(2) }, 0, 0,
		},
		{"a lease does not, if something was", func(p *play) {
			p.push(m).deliver(m, workq, 1, 1).later(time.Millisecond).push(f)
			p.deliver(m, masenko, 2, 2).ack(2).deliver(f, masenko, 2, 2).ack(2)
		}, 0, 1},
		{"a lease that has ended", func(p *play) {
			p.push(w).deliver(w, workq, 1, 1).later(workqLease).deliver(w, workq, 1, 2).ack(1)
		}, 0, 0},
		{"a lease of REST, which outlives its connection", func(p *play) {
			p.push("r1").deliver("r1", rest, 1, 1).later(restLease-time.Second).deliver("r1", rest, 1, 2).ack(1)
		}, 0, 1},
		{"a lease of REST that has ended", func(p *play) {
			p.push("r1").deliver("r1", rest, 1, 1).later(restLease).deliver("r1", rest, 1, 2).ack(1)
		}, 0, 0},
		{"a late ack that means nothing", func(p *play) {
			p.push(w).deliver(w, faktory, 1, 1).later(workqLease).ack(1).deliver(w, workq, 2, 2).ack(2)
		}, 0, 0},
		{"a late ack that means something", func(p *play) {
			p.push(w).deliver(w, workq, 1, 1).later(workqLease).ack(1).deliver(w, workq, 2, 2).ack(2)
		}, 0, 1},
		{"refused to its holder", func(p *play) {
			p.push(l).deliver(l, workq, 1, 1).try(1)
			p.refused(p.h, p.now, "no")
		}, 0, 1},
		{"refused because an earlier ack came late", func(p *play) {
			p.push(w).deliver(w, workq, 1, 1).try(1)
			p.haunt(p.h, p.now)
			p.later(workqLease).deliver(w, workq, 2, 2).try(2)
			p.refused(p.h, p.now, "no")
		}, 0, 0},
		{"refused although nothing can come any more", func(p *play) {
			p.push(w).deliver(w, workq, 1, 1).try(1)
			p.haunt(p.h, p.now)
			p.later(hauntedMax).deliver(w, workq, 2, 2).try(2)
			p.refused(p.h, p.now, "no")
		}, 0, 1},
		{"another body", func(p *play) {
			p.push(m).deliver(m, masenko, 1, 1).ack(1)
			p.delivered(delivery{body: bodyOf(m) + "x"}, masenko, "q", 1, 1, p.now, p.now, false)
		}, 0, 1},
		{"out of nothing", func(p *play) { p.deliver(m, masenko, 1, 1) }, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &play{ledger: newLedger(), now: time.Now()}
			tt.play(p)
			lost, _ := p.verdict()
			if lost != tt.lost || len(p.violations) != tt.violations {
				t.Errorf("lost %d, want %d; %d violations, want %d: %q", lost, tt.lost, len(p.violations),
					tt.violations, p.violations)
			}
		})
	}
}

// A change of the leader that no fault has made explains lost connections and leases of its life, and of no other.
func TestLedgerExcuses(t *testing.T) {
	t.Parallel()
	p := &play{ledger: newLedger(), now: time.Now()}
	p.push("m1").deliver("m1", masenko, 1, 1).deliver("m1", workq, 1, 2).ack(1)
	p.broke(1, "cut off")
	p.broke(3, "cut off")
	p.deliver("m1", masenko, 1, 1) // after its ack
	if len(p.violations) != 4 {
		t.Errorf("%d violations: %q", len(p.violations), p.violations)
	}
	p.excuse(1)
	if len(p.violations) != 2 || p.violations[0].calm != 3 || p.violations[1].calm != 0 {
		t.Errorf("with another leader in the first life: %q", p.violations)
	}
}
