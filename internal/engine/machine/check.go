package machine

import (
	"bytes"
	"fmt"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// Check reads everything and returns the first invariant that does not hold
// (section 11 of the semantics). It is for tests and for the offline check. However much
// is stored, it has one job in memory at a time: what a job needs elsewhere is looked up,
// and that nothing else is there follows from the counts.
//
// Where each invariant is asserted:
//
//	INV-1   checkJob, checkParts, checkLists, checkGroups   INV-2   checkJob
//	INV-3   checkQueue, checkSums                           INV-4   checkGroup, checkGroups
//	INV-5   checkFetcher                                    INV-6   checkWindow
//	INV-7   checkJob, checkTimerLoaded, checkTimers         INV-8   checkJob
//	INV-9   checkNamed, checkLinks, checkSerials, checkNames
//	INV-10  checkWaits, checkFetcher                        INV-11  by the simulation, which sees the answers
//	INV-12  checkJob, checkKeys, checkSweeps, checkMemory   INV-13  checkLocks, checkNamed
//	INV-14  checkBatches                                    INV-15  checkForget, checkBatch
//	INV-16  checkDeliveries                                 INV-17  checkTickers
//	INV-18  checkLimits, checkFetcher, checkRunning         INV-19  checkHooks
//	INV-20  checkLimits, checkHooks, checkRunning           INV-21  checkFirst, checkRunning, checkUngroupedTurn
//	INV-22  checkKept, which also asserts INV-20
func (m *Machine) Check() error { return m.check(locksAtOnce, batchesAtOnce) }

// check does so with portions of a size. Queues come first, because what they count, such as timers
// and links, is compared with the totals afterwards.
func (m *Machine) check(locks, batches int) error {
	c := checker{
		Machine: m, locks: locks, batches: batches,
		inMemory: slices.Clone(m.timers), linked: make([]int, len(links)),
	}
	// Timers that wait for a delivery are out of the heap, and will be put back: they count as
	// loaded.
	for _, a := range m.deliveries {
		c.inMemory = append(c.inMemory, a.due...)
	}
	slices.SortFunc(c.inMemory, orderTimers)
	for _, q := range m.queuesInOrder() {
		if err := c.checkQueue(q); err != nil {
			return fmt.Errorf("queue %q of %q: %w", q.name, q.namespace, err)
		}
	}
	for _, check := range []func() error{
		c.checkSums, c.checkOutcomes, c.checkLocks, c.checkBatches, c.checkTickers, c.checkTimers, c.checkLinks,
		c.checkNames, c.checkSweeps, c.checkKeys, c.checkWaits, c.checkDeliveries, c.checkMemory, c.checkHooks,
		c.checkKept,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checker is a check that is under way. It embeds the machine to read as the machine does. What it
// calls must not change a job.
type checker struct {
	*Machine

	locks    int         // how many of them are looked at in one go
	batches  int         // the same
	inMemory []timerItem // the timers of the machine, those that wait for a delivery included, sorted
	timed    int         // how many jobs and batches have a timer
	linked   []int       // how many entries jobs have in each of links
}

// orderTimers compares timers in the order of the store.
func orderTimers(a, b timerItem) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	default:
		return 0
	}
}

// broken returns the error of an invariant that does not hold. Tests look for its number.
func broken(inv int, format string, args ...any) error {
	return fmt.Errorf("INV-%d: %s", inv, fmt.Sprintf(format, args...))
}

// storedJob is a job as the store has it.
type storedJob struct {
	job.Job

	queue record.QueueID
	parts [record.PartProgress + 1]bool // which records it has
}

// walk visits the jobs in a range of the store, in order, purged ones included. The records of a
// job follow each other, the first one first. What it hands out is valid only during the call.
func (c *checker) walk(lo, hi []byte, visit func(*storedJob) error) (err error) {
	var s storedJob
	var first []byte
	end := func() {
		if s.ID != 0 && err == nil {
			err = visit(&s)
		}
	}
	c.store.Scan(lo, hi, false, func(key, value []byte) bool {
		q, id, part, ok := record.ParseJobKey(key)
		// The first record begins a job, and all that follow with its id belong to it.
		if part == record.PartFirst {
			end()
			s = storedJob{queue: q}
			s.ID, s.parts[part] = id, true
			first = append(first[:0], value...)
			corrupt("job", record.DecodeFirst(first, &s.Job))
			return err == nil
		}
		if !ok || q != s.queue || id != s.ID || int(part) >= len(s.parts) {
			err = broken(1, "record %x belongs to no job", key)
			return false
		}
		s.parts[part] = true
		if part == record.PartState {
			corrupt("job", record.DecodeMeta(value, &s.Job))
		}
		return true
	})
	end()
	return err
}

// walkAll visits the jobs of all queues, those of removed ones included.
func (c *checker) walkAll(visit func(*storedJob) error) error {
	return c.walk(record.JobsFrom(nil, 0, 0), record.JobsFrom(nil, 1<<32-1, 0), visit)
}

// checkQueue asserts what holds of one queue and of each of its jobs. Jobs that were purged are
// passed over.
func (c *checker) checkQueue(q *queue) error {
	var counts [job.StateCount]uint64
	jobs, grouped, serials := 0, 0, 0
	err := c.walk(record.JobsFrom(nil, q.ID, 0), record.JobsFrom(nil, q.ID+1, 0), func(s *storedJob) error {
		if q.Gone(&s.Job) {
			return nil
		}
		s.Namespace, s.Queue, s.QueueNum = q.namespace, q.name, uint32(q.ID)
		e := &entry{Job: s.Job, q: q, stored: true}
		counts[e.State]++
		jobs++
		// How many entries the other key ranges should have follows from the jobs.
		if listOf(e) == record.ListGrouped {
			grouped++
		}
		if e.Flags.Has(job.FlagSerial) {
			serials++
		}
		err := c.checkParts(s)
		if err == nil {
			err = c.checkJob(e)
		}
		if err != nil {
			return fmt.Errorf("job %d: %w", e.ID, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if counts != q.Counts {
		return broken(3, "counts are %v, jobs make %v", q.Counts, counts)
	}
	if err := c.checkLists(q, jobs); err != nil {
		return err
	}
	if err := c.checkGroups(q, grouped); err != nil {
		return err
	}
	if err := c.checkSerials(q, serials); err != nil {
		return err
	}
	if err := c.checkLimits(q); err != nil {
		return err
	}
	if err := c.checkWindow(q, &q.ungrouped, record.ListReady); err != nil {
		return err
	}
	if q.turns != nil {
		if err := c.checkWindow(q, q.turns, record.ListTurn); err != nil {
			return err
		}
	}
	if q.firsts != nil {
		return c.checkWindow(q, q.firsts, record.ListFirst)
	}
	return nil
}

// checkLists asserts that the lists of a queue have no entry besides those of its jobs, each of
// which has been found in its own. Only if the numbers differ it looks for the entry that is wrong.
func (c *checker) checkLists(q *queue, jobs int) error {
	lists := []record.List{record.ListGrouped}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		lists = append(lists, record.List(s))
	}
	n := 0
	for _, list := range lists {
		n += c.length(q, list)
	}
	// Each job was found in its list, so that equal numbers leave no room for an entry too many.
	if n == jobs {
		return nil
	}
	var err error
	for _, list := range lists {
		c.eachEntry(q, list, func(key []byte) bool {
			e := c.loadJob(q, record.EntryID(key))
			if e == nil || !bytes.Equal(key, record.ListKey(nil, q.ID, list, &e.Job)) || listOf(e) != list {
				err = broken(1, "list %d has entry %x which is not that of a job in it", list, key)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return broken(1, "%d list entries for %d jobs", n, jobs)
}

// eachEntry visits the keys of a list until visit returns false.
func (c *checker) eachEntry(q *queue, list record.List, visit func(key []byte) bool) {
	lo, hi := record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list)
	c.store.Scan(lo, hi, false, func(key, _ []byte) bool { return visit(key) })
}

// length returns how many entries a list has.
func (c *checker) length(q *queue, list record.List) int {
	return c.sizeOf(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list))
}

// listed reports whether a job has its entry in a list.
func (c *checker) listed(e *entry, list record.List) bool {
	_, _, ok := c.store.Get(nil, record.ListKey(nil, e.q.ID, list, &e.Job))
	return ok
}

// listOf returns the list that a job must be in.
func listOf(e *entry) record.List {
	if e.State == job.Ready && e.Group != "" {
		return record.ListGrouped
	}
	return record.List(e.State)
}

// checkWindow asserts that a window is the first part of its list (INV-6), and that no entry lies
// before where a refill would start.
func (c *checker) checkWindow(q *queue, w *window, list record.List) (err error) {
	ids := c.idsOf(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list), w.len()+1)
	if w.len() > len(ids) || (w.whole && w.len() != len(ids)) {
		return broken(6, "window of list %d has %d of %d, whole %v", list, w.len(), c.length(q, list), w.whole)
	}
	for i, e := range w.items[w.head:] {
		if e.ID != ids[i] {
			return broken(6, "window of list %d has job %d where the list has %d", list, e.ID, ids[i])
		}
		if c.jobs[e.ID] != e {
			return broken(6, "job %d in a window is not shared", e.ID)
		}
	}
	// A floor above an entry would hide it from the next refill, and with it a job for ever.
	if w.floor != nil && len(ids) > w.len() {
		c.eachEntry(q, list, func(key []byte) bool {
			if bytes.Compare(key, w.floor) < 0 {
				err = broken(6, "the floor of list %d lies above job %d", list, record.EntryID(key))
			}
			return false
		})
	}
	return err
}

// checkWaits asserts that nobody waits for what is there (INV-5).
func (c *checker) checkWaits() error {
	for _, w := range c.waiting {
		if err := c.checkFetcher(w); err != nil {
			return err
		}
		// Those who are being told do not wait for the job any more, which may be gone.
		if w.awaits == 0 || w.hasAnswer() {
			continue
		}
		if c.awaiting[w.awaits] == nil {
			return broken(10, "a caller waits for job %d and is not listed", w.awaits)
		}
		if q := w.jobWait.in.q; c.loadJob(q, w.awaits) == nil && q.sweep == nil {
			return broken(10, "a caller waits in queue %q for job %d, which is not there", q.name, w.awaits)
		}
	}
	return nil
}

// checkFetcher asserts that what a caller waits for is not there, unless its queue is still to be
// served (INV-5). That somebody will be told when time brings it is INV-18.
func (c *checker) checkFetcher(w *waiter) error {
	if w.isAnswered { // it has been passed over since
		return nil
	}
	for l := range w.fetchLists() {
		q := l.q
		if q != nil && !q.waking && !q.Paused && !q.isRegrouping() && q.ID != 0 && q.Counts[job.Ready] > 0 {
			e := c.bestReady(q)
			if e != nil && !isExpired(e, c.now) && c.allowed(q, w) {
				return broken(5, "job %d can be fetched from %q, for which a caller waits", e.ID, q.name)
			}
			at, _, looks := c.firstRecheck(q)
			if e == nil && looks && !c.isAtLimit(q) && (q.limit.alarm.index < 0 || q.limit.alarm.at > at) {
				return broken(18, "a group may be given a job of %q at %d, and nobody tells who waits", q.name, at)
			}
		}
		if q == nil && c.stubs[l.namespace][l.name] != l {
			return broken(10, "a caller waits for jobs of %q and nobody would find it", l.name)
		}
	}
	return nil
}

// checkKeys compares the client-given keys that are in memory with the store (INV-12).
func (c *checker) checkKeys() error {
	for _, generation := range []map[keyName]record.KeyRef{c.keys.old, c.keys.young} {
		for k := range generation {
			r, _ := c.keys.get(k)
			b, _, ok := c.store.Get(nil, record.KeyKey(nil, k.namespace, k.key))
			if !ok || !bytes.Equal(b, record.AppendKeyRef(nil, r)) {
				return broken(12, "memory says that key %q of %q leads to %+v, the store %x", k.key, k.namespace, r, b)
			}
		}
	}
	return nil
}

// checkSweeps asserts that queues and the clean-ups after their purges know each other.
func (c *checker) checkSweeps() error {
	for _, s := range c.sweeps {
		if q := c.byID[s.id]; q != nil && q.sweep != s {
			return broken(12, "queue %q does not know its clean-up", q.name)
		}
	}
	for _, q := range c.byID {
		if q.sweep != nil && !slices.Contains(c.sweeps, q.sweep) {
			return broken(12, "queue %q has a clean-up that is not under way", q.name)
		}
	}
	return nil
}
