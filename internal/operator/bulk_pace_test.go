package operator

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	commands := uint64(100)
	step := func(took time.Duration, others uint64) int {
		ours := p.jobs()
		commands += uint64(ours) + others
		p.done(took, ours, commands)
		return p.jobs()
	}
	if p.jobs() != 1 {
		t.Errorf("it begins with %d jobs", p.jobs())
	}
	for range 10 {
		step(time.Millisecond, 0)
	}
	if p.jobs() != paceIdle {
		t.Errorf("while nobody else is there a step is for %d jobs", p.jobs())
	}
	if n := step(time.Millisecond, 1); n != paceBusy {
		t.Errorf("when somebody comes it is for %d", n)
	}
	for want := paceBusy / 2; want > 0; want /= 2 {
		if n := step(10*time.Millisecond, 5); n != want {
			t.Errorf("after a slow step it is for %d, want %d", n, want)
		}
	}
	if n := step(10*time.Millisecond, 5); n != 1 {
		t.Errorf("after many slow steps it is for %d", n)
	}
	for range paceBusy {
		step(time.Millisecond, 5)
	}
	if p.jobs() != paceBusy {
		t.Errorf("after quick steps it is for %d", p.jobs())
	}
	// What is slow for long is usual in the end.
	for range 1000 {
		step(10*time.Millisecond, 5)
	}
	if p.jobs() != paceBusy {
		t.Errorf("after a long time of slow steps it is for %d", p.jobs())
	}
	for _, tt := range []struct{ took, rest time.Duration }{
		{0, paceRestMin}, {10 * time.Millisecond, 20 * time.Millisecond}, {time.Minute, paceRestMax},
	} {
		if got := restAfter(tt.took); got != tt.rest {
			t.Errorf("after %v it rests %v, want %v", tt.took, got, tt.rest)
		}
	}
}
