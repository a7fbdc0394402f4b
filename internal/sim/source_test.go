package sim

import (
	"math/rand/v2"
	"slices"
)

// random returns a source of random actions: mostly commands, with batches sealed,
// committed and lost in between.
func random(rng *rand.Rand, steps int, crashes bool) source {
	var g *generator
	rough := rng.IntN(4) // how often the process ends
	var soon []deed
	return func(r *run) (action, bool) {
		if r.step >= steps {
			return action{}, false
		}
		if len(soon) > 0 {
			a := action{deed: soon[0]}
			soon = soon[1:]
			return a, true
		}
		if g == nil {
			g = newGenerator(rng, nil)
			g.crowds = choose(g, 0, 0, 30, 80)
		}
		g.model = r.model
		a := action{rnd: rng.Uint64(), token: uint64(r.step + 1)}
		left := r.model.unfinished() // what is left over goes on between commands
		switch n := rng.IntN(200); {
		case left && n%4 == 0:
			a.deed = deedPiece
		case n < 24:
			a.deed = deedSeal
		case n < 40:
			a.deed = deedCommit
		case n < 52:
			a.deed = deedCommitDurable
		case n < 60:
			a.deed, a.pass = deedTick, g.pass(r.now)
		case n < 61:
			a.deed = deedEndWaits
		case n < 85 && r.world.busy() && rng.IntN(2) == 0:
			a.deed = deedPiece
		case n < 110 && slices.ContainsFunc(r.model.Waiting(), r.model.Walking):
			a.deed, a.pass = deedProceed, g.pass(r.now)
		case n < 62 && rng.IntN(4) == 0:
			a.deed, a.pass = deedJump, g.pass(r.now)
		case n < 62+rough && crashes && rng.IntN(3) > 0:
			a.deed, a.pass, a.keep = deedCrash, g.pass(r.now), [...]int{0, rng.IntN(101), 100}[rng.IntN(3)]
		case n < 90 && (g.fragile() || n < 66 && g.lasting()):
			a.deed, soon = deedCommit, []deed{deedSeal, deedCommitDurable, deedReopen}
		case n < 62+rough:
			a.deed, a.pass = deedReopen, g.pass(r.now)
		case n >= 190:
			a.deed, a.pass, a.which = deedSent, g.pass(r.now), rng.IntN(len(deliveries))
		default:
			a.pass, a.cmd, a.seal, a.later = g.pass(r.now), g.next(), rng.IntN(8) == 0, rng.IntN(2) == 0
			if left && n%4 < 3 {
				a.pass = 0
			}
		}
		return a, true
	}
}

// crashing returns a source like random that ends the process at every batch
// boundary: each time before or after the commit.
func crashing(rng *rand.Rand, steps int) source {
	plain := random(rng, steps, false)
	var queue []action
	return func(r *run) (action, bool) {
		if len(queue) > 0 {
			a := queue[0]
			queue = queue[1:]
			return a, true
		}
		a, ok := plain(r)
		if ok && rng.IntN(6) == 0 {
			crash := action{deed: deedCrash, rnd: rng.Uint64(), keep: [...]int{0, rng.IntN(101), 100}[rng.IntN(3)]}
			commit := action{deed: [...]deed{deedCommit, deedCommitDurable}[rng.IntN(2)]}
			queue = append(queue, action{deed: deedSeal})
			if rng.IntN(3) == 0 {
				queue = append(queue, crash)
			} else {
				queue = append(queue, commit, crash)
			}
		}
		return a, ok
	}
}

// replay returns a source of given actions.
func replay(actions []action) source {
	return func(r *run) (action, bool) {
		if r.step >= len(actions) {
			return action{}, false
		}
		return actions[r.step], true
	}
}
