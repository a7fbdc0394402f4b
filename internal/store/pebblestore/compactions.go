package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions is Pebble's scheduler of them, and its grant to run one. Unlike the one that Pebble has by itself it lets
// none run before begin: opening a database that was not closed flushes what its log has, and then waits for the compactions that this
// brings about, which may take seconds. Nor does any run behind a blown fuse, where tables that it would read may be missing, or
// look ten times a second whether there is something to do.
type compactions struct {
	fuse *fuse

	mu      sync.Mutex // guards what follows; Pebble's own locks come before it
	db      pebble.DBForCompaction
	begun   bool
	running int

	poke  chan struct{} // capacity 1: more may be allowed than are running
	stop  chan struct{}
	ended sync.WaitGroup
}

func newCompactions(f *fuse) *compactions {
	return &compactions{fuse: f, poke: make(chan struct{}, 1), stop: make(chan struct{})}
}

// begin lets compactions run from now on. The database is open.
func (c *compactions) begin() {
	c.mu.Lock()
	c.begun = true
	c.mu.Unlock()
	c.ended.Go(c.grantLoop)
	c.UpdateGetAllowedWithoutPermission()
}

// grantLoop has Pebble run what had to wait.
func (c *compactions) grantLoop() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.poke:
		}
		for {
			if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.take() {
				break
			}
			if !c.db.Schedule(c) {
				c.give() // and look again: meanwhile another may have been told to wait
			}
		}
	}
}

// take counts one more as running, if that is allowed.
func (c *compactions) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun || c.fuse.blown() || c.running >= c.db.GetAllowedWithoutPermission() {
		return false
	}
	c.running++
	return true
}

func (c *compactions) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// Register implements pebble.CompactionScheduler, as do the next three.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db = db
}

func (c *compactions) Unregister() {
	c.mu.Lock()
	c.begun = false
	c.mu.Unlock()
	close(c.stop)
	c.ended.Wait()
}

func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.take() {
		return false, nil
	}
	return true, c
}

func (c *compactions) UpdateGetAllowedWithoutPermission() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Done implements pebble.CompactionGrantHandle, as do the next three.
func (c *compactions) Done() {
	c.give()
	c.UpdateGetAllowedWithoutPermission()
}

func (c *compactions) Started() {}

func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}
