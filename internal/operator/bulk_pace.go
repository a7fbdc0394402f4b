package operator

import "time"

// How a bulk action makes way for clients. While nobody else uses the engine its steps are large. Otherwise they are
// small, because a step holds up everybody who comes meanwhile, and it rests after each of them; and if a step takes
// much longer than steps usually do, the engine or the disk has enough to do, and the next one is smaller still.
const (
	paceIdle    = 64 // jobs of a step while nobody else is there
	paceBusy    = 10 // at most, while somebody is
	paceSlow    = 3  // this many times the usual is much longer
	paceRest    = 2  // rest this many times as long as the step took
	paceRestMin = time.Millisecond
	paceRestMax = time.Second
	paceForget  = 64 // the usual time grows by one part of this number with each step, so that it follows
)

// pace is how fast a bulk action goes.
type pace struct {
	size  int           // jobs of the next step
	usual time.Duration // how long a step takes when it is quick
	seen  uint64        // commands of the engine after the last step
}

// jobs returns how many jobs the next step may be for.
func (p *pace) jobs() int { return max(1, p.size) }

// done is told about a step: how long its request took, how many commands it had, and how many the engine has had
// so far.
func (p *pace) done(took time.Duration, ours int, commands uint64) {
	busy := p.seen != 0 && commands > p.seen+uint64(ours) //nolint:gosec // a length
	first := p.usual == 0
	p.usual = min(took, p.usual+max(p.usual/paceForget, time.Microsecond))
	if first {
		p.usual = took
	}
	switch {
	case !busy:
		p.size = min(max(2*p.size, 1), paceIdle)
	case took > paceSlow*p.usual:
		p.size = max(min(p.size, paceBusy)/2, 1)
	default:
		p.size = min(p.size+1, paceBusy)
	}
	p.seen = commands
}

// restAfter returns how long to rest after a step that has taken so long, the search included.
func restAfter(took time.Duration) time.Duration {
	return min(max(paceRest*took, paceRestMin), paceRestMax)
}
