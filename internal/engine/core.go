package engine

import (
	"bytes"
	"fmt"
	"slices"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// Core is the machine on a store, with the batches that are not committed yet, and without any
// goroutine, clock or chance. The engine and the simulation drive it, so that what the simulation
// proves holds for the server.
type Core struct {
	machine *machine.Machine
	store   store.Store
	open    *pending   // takes the changes
	sealed  []*pending // are being committed, the oldest first
	spare   []*pending
	filter  filter
	gaps    gaps
}

// pending is a batch that is not committed yet, with an index by which its changes can be read
// back.
type pending struct {
	store.Overlay
	step uint64 // of its last change
}

// CoreOptions bound what the machine keeps in memory; zero values are defaults.
type CoreOptions = machine.Options

// StoreError is what Core panics with when the store cannot be read.
type StoreError struct{ Err error }

// Error describes the failed read.
func (e *StoreError) Error() string { return "read the store: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// OpenCore loads the state of a shard and applies the rules of a restart. Their changes are in the
// open batch, to be committed like those of a command.
func OpenCore(s store.Store, now job.Time, o CoreOptions) (*Core, error) {
	return openCore(s, now, o, nil)
}

// openCore is OpenCore with a filter of keys that was kept for the store. The machine panics over
// what it cannot read; here that becomes an error, because nothing has begun yet.
func openCore(s store.Store, now job.Time, o CoreOptions, keys *KeyFilter) (c *Core, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *StoreError:
			err = p
		case *machine.CorruptError:
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, p)
		default:
			panic(p)
		}
	}()
	if err := CheckFormat(s, record.Format); err != nil {
		return nil, err
	}
	c = &Core{store: s, open: &pending{}, filter: filter{now: keys.lend()}}
	c.machine = machine.New(coreStorage{c}, now, o)
	return c, nil
}

// CheckFormat refuses a store that may hold records of a later format than the given one: they
// could be read wrongly, and what is written beside them could break what the newer release relies
// on.
func CheckFormat(s store.Reader, knows uint64) error {
	value, ok, err := s.Get(nil, record.FormatKey())
	if err != nil || !ok {
		return err
	}
	format, err := record.DecodeFormat(value)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	if format > knows {
		return fmt.Errorf("%w: its records have format %d, and this release knows %d: run the newer release",
			store.ErrNewerFormat, format, knows)
	}
	return nil
}

// Apply applies one command; see machine.Machine.Apply.
func (c *Core) Apply(now job.Time, rnd, token uint64, cmd job.Command, res *job.Result) (answered bool, needs uint64) {
	return c.machine.Apply(now, rnd, token, cmd, res)
}

// Continue goes on with a fetch that takes more than one step; see
// machine.Machine.Continue.
func (c *Core) Continue(now job.Time, rnd, token uint64, res *job.Result) (answered bool, needs uint64) {
	return c.machine.Continue(now, rnd, token, res)
}

// Walking reports whether the last step was of a fetch that has to go on.
func (c *Core) Walking(token uint64) bool { return c.machine.Walking(token) }

// Tick applies what is due; it reports whether more is left to do at once.
func (c *Core) Tick(now job.Time, rnd uint64) (more bool) { return c.machine.Tick(now, rnd) }

// Unfinished reports whether earlier steps have left work over; see machine.Unfinished.
func (c *Core) Unfinished() bool { return c.machine.Unfinished() }

// Completed returns the answers of commands that had waited, since the last call.
func (c *Core) Completed() []machine.Completion { return c.machine.Completed() }

// NextWake returns when Tick has something to do.
func (c *Core) NextWake() job.Time { return c.machine.NextWake() }

// Due reports whether timers of jobs are due, which every command applies first.
func (c *Core) Due(now job.Time) bool { return c.machine.Due(now) }

// Fire applies them as a command does.
func (c *Core) Fire(now job.Time, rnd uint64) { c.machine.Fire(now, rnd) }

// Late returns the deliveries for which the machine waits, since the last call.
func (c *Core) Late() []*job.Delivery { return c.machine.Late() }

// Sent tells that a delivery has been handed over, or never will be.
func (c *Core) Sent(now job.Time, d *job.Delivery) { c.machine.Sent(now, d) }

// EndWaits answers everybody who waits.
func (c *Core) EndWaits(now job.Time) { c.machine.EndWaits(now) }

// Waiting returns how many callers wait.
func (c *Core) Waiting() int { return c.machine.Waiting() }

// Counting reports whether the leases of a queue are still to be counted for its limits.
func (c *Core) Counting(namespace, queue string) bool { return c.machine.Counting(namespace, queue) }

// Usage returns how far the limits of a queue are used.
func (c *Core) Usage(now job.Time, namespace, queue string) machine.Usage {
	return c.machine.Usage(now, namespace, queue)
}

// Behind reports whether callers are still to be served, let in or told.
func (c *Core) Behind() bool { return c.machine.Behind() }

// NamesPerStep returns how many queues one step of a fetch looks at.
func (c *Core) NamesPerStep() int { return c.machine.NamesPerStep() }

// WaitingNames returns how many names fetches wait on that name more than a few.
func (c *Core) WaitingNames() int { return c.machine.WaitingNames() }

// KeptHolders returns how many holders outlive a restart, and how many may.
func (c *Core) KeptHolders() (kept, most int) { return c.machine.KeptHolders() }

// Sums returns the figures of the queues of a namespace together; see machine.Machine.Sums.
func (c *Core) Sums(namespace string) job.Sums { return c.machine.Sums(namespace) }

// Activity returns what has happened to queues since the last call.
func (c *Core) Activity() machine.Activity { return c.machine.Activity() }

// Queues returns how many queues there are.
func (c *Core) Queues() int { return c.machine.QueueCount() }

// HasQueue reports whether there is a queue.
func (c *Core) HasQueue(namespace, name string) bool { return c.machine.HasQueue(namespace, name) }

// Check returns the first broken invariant, or nil. It reads everything.
func (c *Core) Check() error { return c.machine.Check() }

// Dirty returns the last step that left changes which are not sealed yet, or zero. Counters count,
// although Seal has still to write them.
func (c *Core) Dirty() uint64 {
	return max(c.open.step, c.machine.Unsealed())
}

// Changes returns how many changes the open batch has.
func (c *Core) Changes() int { return c.open.Len() }

// Bytes returns how long the open batch is.
func (c *Core) Bytes() int { return c.open.Size() }

// Seal closes the open batch and returns it to be committed, with its last step; nil if nothing has
// changed. The batch stays readable until Committed, which must follow for each, in the same order.
func (c *Core) Seal() (*store.Batch, uint64) {
	if c.Dirty() == 0 {
		return nil, 0
	}
	c.machine.Seal()
	p := c.open
	c.seal()
	return &p.Batch, p.step
}

// seal makes another batch the open one. Batches are used again with their buffers.
func (c *Core) seal() {
	c.sealed = append(c.sealed, c.open)
	if n := len(c.spare); n > 0 {
		c.open, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		c.open = &pending{}
	}
}

// Flush writes counters that have changed into the open batch without closing it.
func (c *Core) Flush() { c.machine.Seal() }

// Storage returns what the machine sees: the store and what is pending on top.
func (c *Core) Storage() machine.Storage { return coreStorage{c} }

// Committed tells that the oldest sealed batch is in the store, and can be read there from now on.
func (c *Core) Committed() {
	p := c.sealed[0]
	c.sealed = slices.Delete(c.sealed, 0, 1)
	p.Reset()
	p.step = 0
	c.spare = append(c.spare, p)
}

// coreStorage is the Storage that a Core gives its machine.
type coreStorage struct{ c *Core }

// Get consults the open batch first, then the sealed ones from the newest on, then the store. A
// deletion that is pending is known as well, and ends the search.
func (s coreStorage) Get(dst, key []byte) (value []byte, pending, ok bool) {
	if s.c.filter.absent(key) {
		return dst, false, false
	}
	if v, there, known := s.c.open.Lookup(key); known {
		return append(dst, v...), true, there
	}
	for _, p := range slices.Backward(s.c.sealed) {
		if v, there, known := p.Lookup(key); known {
			return append(dst, v...), true, there
		}
	}
	value, ok, err := s.c.store.Get(dst, key)
	if err != nil {
		panic(&StoreError{err})
	}
	return value, false, ok
}

// Set and Insert tell the filter and the gaps of every key that is set: both only know what is not
// there.
func (s coreStorage) Set(key, value []byte) {
	s.c.filter.note(key)
	s.c.gaps.fill(key)
	s.dirty().Set(key, value)
}

func (s coreStorage) Insert(key, value []byte) {
	s.c.filter.note(key)
	s.c.gaps.fill(key)
	s.dirty().Insert(key, value)
}

func (s coreStorage) Remove(key []byte)         { s.dirty().Remove(key) }
func (s coreStorage) Delete(key []byte)         { s.dirty().Delete(key) }
func (s coreStorage) DeleteRange(lo, hi []byte) { s.dirty().DeleteRange(lo, hi) }

// dirty returns the open batch, and notes the step that changes it.
func (s coreStorage) dirty() *pending {
	if s.c.machine != nil { // nil while it is being made: step 1
		s.c.open.step = s.c.machine.Step()
	} else {
		s.c.open.step = 1
	}
	return s.c.open
}

// Scan merges the pending batches into what the store has. It leaves gaps out, and notes those that
// it finds. Scans in reverse, and those without an end, are seldom and go without.
func (s coreStorage) Scan(lo, hi []byte, reverse bool, visit func(key, value []byte) bool) {
	if reverse || len(hi) == 0 {
		s.scan(store.Range{Lo: lo, Hi: hi, Reverse: reverse}, visit)
		return
	}
	for end := []byte(nil); !bytes.Equal(end, hi); lo = end {
		begin := lo
		if lo, end = s.c.gaps.firstOutside(lo, hi); bytes.Compare(lo, hi) >= 0 {
			return
		}
		w := s.c.gaps.watch(lo)
		if !bytes.Equal(lo, begin) || !bytes.Equal(end, hi) {
			w.passed = gapKeysMin // with nothing in between, gaps become one
		}
		if !s.scan(store.Range{Lo: lo, Hi: end, Passed: &w.passed}, func(key, value []byte) bool {
			w.reached(key)
			return visit(key, value)
		}) {
			return
		}
		w.reached(end)
	}
}

// scan merges the layers, the oldest lowest, and reports whether it has visited all that there is.
// An error of the store panics (StoreError): the machine cannot go on without what it asked for.
func (s coreStorage) scan(r store.Range, visit func(key, value []byte) bool) (all bool) {
	var room [8]*store.Overlay
	overlays := room[:0]
	for _, p := range s.c.sealed {
		overlays = append(overlays, &p.Overlay)
	}
	overlays = append(overlays, &s.c.open.Overlay)
	all = true
	below := func(visit func(key, value []byte) bool) error { return s.c.store.Scan(r, visit) }
	err := store.LayerOf(r, overlays...).Over(below, r.Reverse, func(key, value []byte) bool {
		all = visit(key, value)
		return all
	})
	if err != nil {
		panic(&StoreError{err})
	}
	return all
}
