package system

import "testing"

// taken has a job pushed, confirmed and delivered, and ended acknowledged.
func (l *ledger) taken(job string, id uint64) {
	l.pushing(job)
	l.pushed(job, id)
	l.delivered(job, 1, 1)
}

func (l *ledger) ended(job string) {
	l.acking(job, "")
	l.acked(job, "")
}

// TestLedger shows that the judge of TestKill would convict.
func TestLedger(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		history    func(l *ledger)
		lost       int
		violations int
	}{
		{
			name:    "acknowledged and gone without a trace",
			history: func(l *ledger) { l.pushing("a"); l.pushed("a", 1) },
			lost:    1, violations: 1,
		},
		{
			name:    "never answered and gone",
			history: func(l *ledger) { l.pushing("a") },
		},
		{
			name: "never answered, seen, and then gone",
			history: func(l *ledger) {
				l.pushing("a")
				l.delivered("a", 1, 1)
			},
			lost: 1, violations: 1,
		},
		{
			name: "a whole life",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.ended("a")
			},
		},
		{
			name: "back after its acknowledgement",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.ended("a")
				l.delivered("a", 2, 1)
			},
			violations: 1,
		},
		{
			name: "back because the acknowledgement was cut off",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.acking("a", "")
				l.delivered("a", 2, 1)
				l.ended("a")
			},
		},
		{
			name: "in two hands",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.delivered("a", 1, 2)
				l.ended("a")
			},
			violations: 1,
		},
		{
			name: "half of a transaction: the ack is undone, the push is not",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.acking("a", "b")
				l.delivered("a", 2, 1)
				l.delivered("b", 2, 2)
				l.ended("a")
				l.ended("b")
			},
			violations: 1,
		},
		{
			name: "half of a transaction: the push is there, the ack is undone",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.acking("a", "b")
				l.delivered("b", 2, 2)
				l.delivered("a", 2, 1)
				l.ended("b")
			},
			violations: 1,
		},
		{
			name: "a transaction lost whole",
			history: func(l *ledger) {
				l.taken("a", 1)
				l.acking("a", "b")
				l.delivered("a", 2, 1)
				l.ended("a")
			},
		},
		{
			name: "one id twice",
			history: func(l *ledger) {
				for _, job := range []string{"a", "b"} {
					l.taken(job, 1)
					l.ended(job)
				}
			},
			violations: 1,
		},
		{
			name:       "out of nothing",
			history:    func(l *ledger) { l.delivered("a", 1, 1) },
			violations: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			tt.history(l)
			lost, _ := l.verdict()
			if lost != tt.lost || len(l.violations) != tt.violations {
				t.Errorf("lost %d, want %d; %d violations, want %d: %q", lost, tt.lost, len(l.violations),
					tt.violations, l.violations)
			}
		})
	}
}
