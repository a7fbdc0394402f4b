//go:build linux

package faults

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/store/storetest"
	"millrace/test/tier"
)

// outage is a disk as a loss of power left it.
type outage struct {
	disk  *vfs.MemFS
	kept  int             // percent of what was not synced
	told  map[string]fate // what callers knew before
	asked map[string]fate // and what they had asked for a moment later
}

// outages cuts the power, as far as the disk is concerned, before some of its changes.
type outages struct {
	mem    *vfs.MemFS
	ledger *ledger
	wanted int
	chance int // one in so many changes

	mu  sync.Mutex // guards what follows
	rng *rand.Rand
	all []outage
}

func (o *outages) String() string { return "outages" }

// MaybeError is called before each operation and never injects an error.
func (o *outages) MaybeError(op errorfs.Op) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || len(o.all) == o.wanted || o.rng.IntN(o.chance) > 0 {
		return nil
	}
	cut := outage{kept: [...]int{0, o.rng.IntN(101), 100}[o.rng.IntN(3)], told: o.ledger.now()}
	cut.disk = o.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: cut.kept, RNG: o.rng})
	cut.asked = o.ledger.now()
	o.all = append(o.all, cut)
	return nil
}

// TestPowerLoss cuts the power at random moments while many callers push, fetch and settle: whatever had been
// acknowledged by then is there, whatever part of the rest has reached the disk.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	const each = 30 // outages of one life
	var mu sync.Mutex
	var cuts, jobs, ambiguous, told int
	deal(t, (cmp.Or(*powerFlag, tier.Pick(30, 4))+each-1)/each, func(t *testing.T, life int) { //nolint:thelper // a part of the test
		mem := vfs.NewCrashableMem()
		l := newLedger()
		rng := rand.New(rand.NewPCG(*seedFlag, uint64(life)+1<<33))
		o := &outages{mem: mem, ledger: l, wanted: each, chance: 20 + rng.IntN(30), rng: rng}
		n := open(t, storetest.Hooked(mem, o), memDir)
		load(t.Context(), n.Engine, l, fmt.Sprint("life", life, "-"), 8, 400)
		n.mustClose(t)
		mu.Lock()
		defer mu.Unlock()
		for i, cut := range o.all {
			j, a, err := judge(t, cut.disk, memDir, cut.told, cut.asked)
			if err != nil {
				t.Errorf("life %d, outage %d, %d%% of what was not synced is kept: %v", life, i, cut.kept, err)
			}
			jobs, ambiguous, told = jobs+j, ambiguous+a, told+len(cut.told)
		}
		cuts += len(o.all)
		final := l.now()
		if _, _, err := judge(t, mem, memDir, final, final); err != nil {
			t.Errorf("life %d, in the end: %v", life, err)
		}
	})
	if cuts == 0 {
		t.Error("the power was never cut")
	}
	t.Logf("%d outages; %d jobs known to callers, %d found, %d ambiguous", cuts, told, jobs, ambiguous)
}
