package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/memlog"
	"millrace/internal/engine"
	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// world is the real thing: a core on a store, and the disk below it if it has one.
type world struct {
	settings

	disk   *vfs.MemFS  // nil: the store is in memory
	log    *memlog.Log // of a store on disk; nil: it is on the disk, too
	memory store.Store
	store  store.Store
	faulty *faultyStore // the store, if a fault is planted
	core   *engine.Core

	pieces    []piece  // the Ticks of the last tick, if callers were left over before
	sealed    []sealed // handed out by the core and not committed yet, the oldest first
	last      uint64   // the last step of the newest of them
	committed uint64   // the last step that is in the store

	// deliveries are what the core knows deliveries as, and late those that it has asked for.
	deliveries [len(deliveries)]*job.Delivery
	late       [len(deliveries)]bool
}

// sealed is a batch on its way to the store.
type sealed struct {
	batch *store.Batch
	step  uint64 // its last
}

// sealedMax is how many batches are on their way at once, as with a log of such a depth.
const sealedMax = 3

// newWorld returns an empty world.
func newWorld(s settings) (*world, error) {
	w := &world{settings: s, memory: &strictStore{memstore.New(), map[string]int{}}}
	if s.onDisk {
		w.disk = vfs.NewCrashableMem()
		if s.logInMemory {
			w.log = memlog.New(commitlog.None, sealedMax)
		}
	}
	return w, w.open(startTime)
}

// open opens the store and the core on it.
func (w *world) open(now job.Time) (err error) {
	w.store = w.memory
	if w.disk != nil {
		o := pebblestore.Options{
			Dir: "data", FS: storetest.Disk{FS: w.disk}, CacheBytes: 1 << 20, MemTableBytes: 256 << 10,
			SegmentBytes: 8 << 10, Mode: commitlog.None,
		}
		if w.log != nil {
			o.OpenLog = func(from, safe uint64, visit commitlog.Visit) (commitlog.Log, error) {
				return w.log, w.log.Open(from, safe, visit)
			}
		}
		w.store = nil // there is none to close if it cannot be opened
		s, err := pebblestore.Open(o)
		if err != nil {
			return err
		}
		w.store = s
	}
	if w.fault != nil {
		w.faulty = &faultyStore{Store: w.store, fault: w.fault}
		w.store = w.faulty
	}
	w.sealed, w.last, w.committed = nil, 0, 0
	for i := range w.deliveries {
		w.deliveries[i], w.late[i] = new(job.Delivery), false
	}
	w.core, err = engine.OpenCore(w.store, now, w.options)
	return err
}

// honestly does something while a planted fault is at rest, so that it must show
// in what the core does and not in what is read to compare.
func (w *world) honestly(do func() error) error {
	if w.faulty != nil {
		w.faulty.resting = true
		defer func() { w.faulty.resting = false }()
	}
	return do()
}

// reopen ends the core without a word and opens another one on what the store has.
// What was not committed is lost.
func (w *world) reopen(now job.Time) error {
	if w.disk != nil {
		if err := w.store.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	return w.open(now)
}

// crash is the loss of power: of what was not synced, a part of the given size
// survives.
func (w *world) crash(now job.Time, keepPercent int, seed uint64) error {
	after := w.disk.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: keepPercent, RNG: rand.New(rand.NewPCG(seed, 3)),
	})
	if err := w.store.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	w.disk = after
	if w.log != nil {
		w.log.Crash(rand.New(rand.NewPCG(seed, 5)).IntN(3) * keepPercent / 100)
	}
	return w.open(now)
}

func (w *world) close() {
	if w.store != nil {
		_ = w.store.Close()
	}
}

// answer is a completion with the last step that must be durable before it may leave.
type answer struct {
	Completion

	needs uint64
}

// apply applies a command. What has become due by it is left to tick.
func (w *world) apply(now job.Time, rnd, token uint64, cmd job.Command) []answer {
	var res job.Result
	var out []answer
	if w.fault != nil && w.fault.hears != nil {
		cmd = w.fault.hears(cmd)
	}
	if f, ok := cmd.(*job.Fetch); ok && f.Delivery != nil {
		own := *f
		own.Delivery = w.deliveries[deliveryOf(f.Delivery)]
		cmd = &own
	}
	answered, needs := w.core.Apply(now, rnd, token, cmd, &res)
	if answered {
		out = append(out, answer{Completion{Token: token, Result: res}, w.needs(needs)})
	}
	return append(out, w.completed()...)
}

// tick lets the core do all that is due.
func (w *world) tick(now job.Time, rnd uint64) []answer {
	var out []answer
	w.pieces = nil
	whole := w.sweeping() || w.core.Unfinished() || !w.core.Behind()
	for more := true; more; rnd++ {
		more = w.core.Tick(now, rnd)
		got := w.completed()
		out = append(out, got...)
		if !whole {
			w.pieces = append(w.pieces, piece{got, w.core.Behind(), w.counting()})
		}
	}
	return out
}

// piece is what one Tick of several has answered, and whether it has left callers over.
type piece struct {
	got      []answer
	behind   bool
	counting map[queueName]bool
}

// counting returns the queues whose leases are still to be counted.
func (w *world) counting() map[queueName]bool {
	out := map[queueName]bool{}
	for _, ns := range namespaces {
		for _, name := range allQueues {
			if w.core.Counting(ns, name) {
				out[queueName{ns, name}] = true
			}
		}
	}
	return out
}

// deliveries are what fetches of all runs name. Each world has its own in their places, because the core writes to
// them.
var deliveries [4]job.Delivery

// deliveryOf returns the index of one of them.
func deliveryOf(d *job.Delivery) int {
	for i := range deliveries {
		if d == &deliveries[i] {
			return i
		}
	}
	panic("a delivery of nobody")
}

// sent tells the core that a delivery has been handed over.
func (w *world) sent(now job.Time, i int) {
	w.core.Sent(now, w.deliveries[i])
	w.late[i] = false
}

func (w *world) completed() []answer {
	for _, d := range w.core.Late() {
		w.late[slices.Index(w.deliveries[:], d)] = true
	}
	var out []answer
	for _, c := range w.core.Completed() {
		out = append(out, answer{Completion{Token: c.Token, Result: c.Result}, w.needs(c.Needs)})
	}
	return out
}

// needs returns the step that an answer waits for, which is one that has changed something.
func (w *world) needs(step uint64) uint64 {
	if w.fault != nil && w.fault.early {
		return 0
	}
	return min(step, max(w.core.Dirty(), w.last))
}

// seal closes the open batch, unless too many are sealed already. It reports whether
// there is a new one.
func (w *world) seal() bool {
	if len(w.sealed) == sealedMax {
		return false
	}
	b, step := w.core.Seal()
	if b == nil {
		return false
	}
	w.sealed, w.last = append(w.sealed, sealed{b, step}), step
	return true
}

// commit commits the oldest sealed batch and reports whether there was one.
func (w *world) commit(durable bool) (bool, error) {
	if len(w.sealed) == 0 {
		return false, nil
	}
	if err := store.CommitNow(w.store, w.sealed[0].batch); err != nil {
		return false, err
	}
	if s, ok := w.onDiskStore(); ok && durable && (w.fault == nil || !w.fault.lazy) {
		if err := s.Sync(); err != nil {
			return false, err
		}
	}
	w.core.Committed()
	w.committed = w.sealed[0].step
	w.sealed = w.sealed[1:]
	return true, nil
}

// onDiskStore returns the store if it has a disk below it.
func (w *world) onDiskStore() (*pebblestore.Store, bool) {
	s := w.store
	if w.faulty != nil {
		s = w.faulty.Store
	}
	p, ok := s.(*pebblestore.Store)
	return p, ok
}

// sweeping reports whether the clean-up after a purge is not over.
func (w *world) sweeping() (left bool) {
	lo, hi := record.SweepSpan()
	w.core.Storage().Scan(lo, hi, false, func(_, _ []byte) bool {
		left = true
		return false
	})
	return left
}

// busy reports whether a step has left anything to later ones.
func (w *world) busy() bool { return w.sweeping() || w.core.Unfinished() || w.core.Behind() }

// proceed has a fetch go on that takes several steps.
func (w *world) proceed(now job.Time, rnd, token uint64) []answer {
	var res job.Result
	var out []answer
	answered, needs := w.core.Continue(now, rnd, token, &res)
	if answered {
		out = append(out, answer{Completion{Token: token, Result: res}, w.needs(needs)})
	}
	return append(out, w.completed()...)
}

// jump makes the next job be numbered from 2^32 on, as if so many had been pushed.
// The core must be opened again afterwards. It reports whether any number had been given.
func (w *world) jump() (bool, error) {
	b, ok, err := w.store.Get(nil, record.MetaKey())
	if err != nil || !ok {
		return false, err
	}
	shard, err := record.DecodeShard(b)
	if err != nil {
		return false, err
	}
	shard.NextID = farID
	var batch store.Batch
	batch.Set(record.MetaKey(), record.AppendShard(nil, &shard))
	return true, store.CommitNow(w.store, &batch)
}

// farID is the first id whose 32-bit number is not the id itself.
const farID job.ID = 1 << 32

// stored reads the state back, pending changes included.
func (w *world) stored() (stored, error) {
	w.core.Flush()
	src := records(w.core.Storage())
	if w.faulty != nil {
		src = honestRecords{w, src}
	}
	return readStored(src)
}

// honestRecords reads while the planted fault is at rest.
type honestRecords struct {
	w   *world
	src records
}

func (h honestRecords) Get(dst, key []byte) (value []byte, pending, ok bool) {
	_ = h.w.honestly(func() error {
		value, pending, ok = h.src.Get(dst, key)
		return nil
	})
	return value, pending, ok
}

func (h honestRecords) Scan(lo, hi []byte, reverse bool, visit func(key, value []byte) bool) {
	_ = h.w.honestly(func() error {
		h.src.Scan(lo, hi, reverse, visit)
		return nil
	})
}

// guard turns a panic of the machine into an error.
func guard(do func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *machine.CorruptError:
			err = fmt.Errorf("panic: %w", p)
		case error:
			err = fmt.Errorf("panic: %w", p)
		default:
			err = errors.New(fmt.Sprint("panic: ", p))
		}
	}()
	return do()
}
