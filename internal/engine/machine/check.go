package machine

import (
	"bytes"
	"fmt"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// Check reads everything and returns the first invariant that does not hold
// (section 11 of the semantics). It is for tests and for the offline check.
func (m *Machine) Check() error {
	for _, q := range m.queuesInOrder() {
		if err := m.checkQueue(q); err != nil {
			return fmt.Errorf("queue %q of %q: %w", q.name, q.namespace, err)
		}
	}
	if err := m.checkTimers(); err != nil {
		return err
	}
	if err := m.checkShared(); err != nil {
		return err
	}
	if err := m.checkSweeps(); err != nil {
		return err
	}
	if err := m.checkAlike(); err != nil {
		return err
	}
	if err := m.checkKeys(); err != nil {
		return err
	}
	return m.checkWaits()
}

func broken(inv int, format string, args ...any) error {
	return fmt.Errorf("INV-%d: %s", inv, fmt.Sprintf(format, args...))
}

func (m *Machine) checkQueue(q *queue) error {
	var counts [job.StateCount]uint64
	byID := map[job.ID]*entry{}
	groups := map[string]int{}
	for _, e := range m.stored(q) {
		counts[e.State]++
		byID[e.ID] = e
		if e.Group != "" && e.State == job.Leased {
			groups[e.Group]++
		}
		if err := m.checkJob(e); err != nil {
			return fmt.Errorf("job %d: %w", e.ID, err)
		}
	}
	if counts != q.Counts {
		return broken(3, "counts are %v, jobs make %v", q.Counts, counts)
	}
	for g, n := range groups {
		if n > 1 {
			return broken(4, "group %q has %d leased jobs", g, n)
		}
	}
	lists := 0
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		n, err := m.checkList(q, record.List(s), byID)
		if err != nil {
			return err
		}
		lists += n
	}
	n, err := m.checkList(q, record.ListGrouped, byID)
	if err != nil {
		return err
	}
	if lists += n; lists != len(byID) {
		return broken(1, "%d list entries for %d jobs", lists, len(byID))
	}
	if err := m.checkFirsts(q, byID, groups); err != nil {
		return err
	}
	if err := m.checkWindow(q, &q.plain, record.ListReady); err != nil {
		return err
	}
	if q.firsts != nil {
		return m.checkWindow(q, q.firsts, record.ListFirst)
	}
	return nil
}

// stored returns the jobs of a queue as the store has them, purged ones left out.
func (m *Machine) stored(q *queue) []*entry {
	var es []*entry
	m.store.Scan(record.JobsFrom(nil, q.ID, 0), record.JobsFrom(nil, q.ID+1, 0), false, func(key, value []byte) bool {
		_, id, part, _ := record.ParseJobKey(key)
		switch part {
		case record.PartFirst:
			e := m.stand(q, id, false)
			m.decodeFirst(e, append([]byte(nil), value...))
			es = append(es, e)
		case record.PartState:
			corrupt("job", record.DecodeMeta(value, &es[len(es)-1].Job))
		case record.PartBody, record.PartFailures, record.PartResult, record.PartProgress:
		}
		return true
	})
	return slices.DeleteFunc(es, func(e *entry) bool { return q.Gone(&e.Job) })
}

func (m *Machine) checkJob(e *entry) error {
	if r := m.jobs[e.ID]; r != nil {
		a, b := record.AppendMeta(nil, &e.Job), record.AppendMeta(nil, &r.Job)
		if !bytes.Equal(a, b) || r.q != e.q {
			return broken(12, "memory says %+v, the store %+v", r.Job, e.Job)
		}
	}
	if (e.State == job.Leased) != (e.Lease != job.Lease{}) && e.State != job.Leased {
		return broken(2, "%v with lease %+v", e.State, e.Lease)
	}
	if e.State == job.Leased && e.Lease.OnEnd != job.EndKeep {
		if h := m.holders[e.Lease.Holder]; h == nil || h.jobs[e.ID] != e.q.ID {
			return broken(2, "its holder %v does not know", e.Lease.Holder)
		}
	}
	if e.Timer != timerOf(e) {
		return broken(7, "timer %d, should be %d", e.Timer, timerOf(e))
	}
	if e.Timer != 0 {
		if _, _, ok := m.store.Get(nil, record.TimerKey(nil, e.Timer, e.q.ID, e.ID)); !ok {
			return broken(7, "timer %d is not stored", e.Timer)
		}
		if err := m.checkTimerLoaded(timerItem{e.Timer, e.q.ID, e.ID}); err != nil {
			return err
		}
	}
	if (e.State == job.Blocked) != (len(e.Blockers) > 0) {
		return broken(8, "%v with blockers %v", e.State, e.Blockers)
	}
	for _, id := range e.Blockers {
		b := m.anyJob(id)
		if b == nil && len(m.sweeps) > 0 {
			continue
		}
		if b == nil || b.State.Finished() || !b.Flags.Has(job.FlagDependants) {
			return broken(8, "blocker %d is gone, finished or does not know", id)
		}
		if _, _, ok := m.store.Get(nil, record.DependantKey(nil, id, e.q.ID, e.ID)); !ok {
			return broken(8, "not listed as a dependant of %d", id)
		}
	}
	return m.checkLinks(e)
}

// anyJob loads a job whose queue is not known.
func (m *Machine) anyJob(id job.ID) *entry {
	for _, q := range m.byID { // at most one of them has it
		if e := m.loadJob(q, id); e != nil {
			return e
		}
	}
	return nil
}

// checkTimerLoaded asserts that a timer will fire.
func (m *Machine) checkTimerLoaded(t timerItem) error {
	if t.before(m.horizon) && !slices.Contains(m.timers, t) {
		return broken(7, "timer %d is before the horizon and not in memory", t.at)
	}
	if !t.before(m.horizon) && t.at < m.beyond {
		return broken(7, "timer %d is beyond the horizon, where nothing is thought to be before %d", t.at, m.beyond)
	}
	return nil
}

func (m *Machine) checkLinks(e *entry) error {
	if e.Key != "" {
		found := false
		m.withKey(e.q.namespace, e.Key, func(o *entry) bool {
			found = found || o.ID == e.ID
			return !found
		})
		if !found {
			return broken(9, "not found under its key %q", e.Key)
		}
	}
	if e.Flags.Has(job.FlagNumbered) {
		if r, ok := m.getNumber(e.ID.Number()); !ok || r.ID != e.ID || r.Queue != e.q.ID {
			return broken(9, "not found under its number")
		}
	}
	if e.Flags.Has(job.FlagSerial) {
		ref := job.BySerial(e.q.namespace, e.q.name, e.Serial)
		if o := m.bySerial(&ref); o == nil || o.ID != e.ID {
			return broken(9, "not found under its serial %d", e.Serial)
		}
	}
	if e.Like != (job.Digest{}) {
		if _, _, ok := m.store.Get(nil, record.AlikeKey(nil, e.q.ID, e.Like, e.ID)); !ok {
			return broken(9, "not found under what it is about")
		}
	}
	_, _, body := m.store.Get(nil, record.JobKey(nil, e.q.ID, e.ID, record.PartBody))
	if body == (e.Flags&(job.FlagTombstone|job.FlagInline) != 0) {
		return broken(1, "body %v, flags %b", body, e.Flags)
	}
	return nil
}

// checkList compares a list with the jobs that should be in it.
func (m *Machine) checkList(q *queue, list record.List, byID map[job.ID]*entry) (n int, err error) {
	m.store.Scan(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list), false, func(key, _ []byte) bool {
		n++
		e := byID[record.EntryID(key)]
		if e == nil || !bytes.Equal(key, record.ListKey(nil, q.ID, list, &e.Job)) || listOf(e) != list {
			err = broken(1, "list %d has entry %x which is not that of a job in it", list, key)
			return false
		}
		return true
	})
	return n, err
}

// listOf returns the list that a job must be in.
func listOf(e *entry) record.List {
	if e.State == job.Ready && e.Group != "" {
		return record.ListGrouped
	}
	return record.List(e.State)
}

// checkFirsts compares the list of firsts with the groups.
func (m *Machine) checkFirsts(q *queue, byID map[job.ID]*entry, busy map[string]int) error {
	first := map[string]*entry{}
	perGroup := 0
	for _, e := range byID {
		if e.State != job.Ready || e.Group == "" {
			continue
		}
		perGroup++
		if f := first[e.Group]; f == nil || e.Order.Before(f.Order) {
			first[e.Group] = e
		}
	}
	for g := range busy {
		delete(first, g)
	}
	n := 0
	var err error
	m.store.Scan(record.ListStart(nil, q.ID, record.ListFirst), record.ListEnd(nil, q.ID, record.ListFirst), false,
		func(key, _ []byte) bool {
			n++
			e := byID[record.EntryID(key)]
			if e == nil || first[e.Group] == nil || first[e.Group].ID != e.ID {
				err = broken(4, "the list of firsts names job %d", record.EntryID(key))
			}
			return err == nil
		})
	if err == nil && n != len(first) {
		err = broken(4, "the list of firsts has %d entries for %d free groups", n, len(first))
	}
	if err == nil {
		ids := m.idsOf(record.ListStart(nil, q.ID, record.ListPerGroup), record.ListEnd(nil, q.ID, record.ListPerGroup), 0)
		if len(ids) != perGroup {
			err = broken(1, "%d entries by group for %d jobs", len(ids), perGroup)
		}
	}
	return err
}

func (m *Machine) checkWindow(q *queue, w *window, list record.List) error {
	ids := m.idsOf(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list), 0)
	if w.len() > len(ids) || (w.whole && w.len() != len(ids)) {
		return broken(6, "window of list %d has %d of %d, whole %v", list, w.len(), len(ids), w.whole)
	}
	for i, e := range w.items[w.head:] {
		if e.ID != ids[i] {
			return broken(6, "window of list %d has job %d where the list has %d", list, e.ID, ids[i])
		}
		if m.jobs[e.ID] != e {
			return broken(6, "job %d in a window is not shared", e.ID)
		}
	}
	if w.floor != nil && len(ids) > w.len() {
		e := m.mustLoad(q, ids[0])
		if bytes.Compare(record.ListKey(nil, q.ID, list, &e.Job), w.floor) < 0 {
			return broken(6, "the floor of list %d lies above job %d", list, e.ID)
		}
	}
	return nil
}

// checkTimers looks for timers that belong to no job (INV-7).
func (m *Machine) checkTimers() error {
	var err error
	m.store.Scan(record.TimerFrom(nil, 0), record.TimerEnd(), false, func(key, _ []byte) bool {
		at, qid, id, ok := record.ParseTimerKey(key)
		if !ok {
			err = broken(7, "malformed timer %x", key)
			return false
		}
		if qid == 0 {
			if b := m.getBatch(job.BatchID(id)); b == nil || b.ForgetAt != at {
				err = broken(7, "timer %d of batch %d, which does not have it", at, id)
			}
			return err == nil
		}
		q := m.byID[qid]
		if q == nil || q.Purged != [job.StateCount]uint64{} {
			return true // left by a purge
		}
		if e := m.loadJob(q, id); e == nil || e.Timer != at {
			err = broken(7, "timer %d of job %d, which does not have it", at, id)
		}
		return err == nil
	})
	return err
}

// checkWaits asserts that nobody waits for what is there (INV-5).
func (m *Machine) checkWaits() error {
	for _, w := range m.waiting {
		for i := range w.nodes {
			q := w.nodes[i].q
			if w.fetch != nil && !q.Paused && q.ID != 0 && q.Counts[job.Ready] > 0 {
				if e := m.better(q); e != nil && !expired(e, m.now) {
					return broken(5, "job %d can be fetched from %q, for which a caller waits", e.ID, q.name)
				}
			}
		}
		if w.awaits == 0 {
			continue
		}
		if m.awaiting[w.awaits] == nil {
			return broken(10, "a caller waits for job %d and is not listed", w.awaits)
		}
		if q := w.nodes[0].q; m.loadJob(q, w.awaits) == nil && q.sweep == nil {
			return broken(10, "a caller waits in queue %q for job %d, which is not there", q.name, w.awaits)
		}
	}
	return nil
}

// checkKeys compares the client-given keys that are in memory with the store.
func (m *Machine) checkKeys() error {
	for _, generation := range []map[keyName]record.KeyRef{m.keys.old, m.keys.young} {
		for k := range generation {
			r, _ := m.keys.get(k)
			b, _, ok := m.store.Get(nil, record.KeyKey(nil, k.namespace, k.key))
			if !ok || !bytes.Equal(b, record.AppendKeyRef(nil, r)) {
				return broken(12, "memory says that key %q of %q leads to %+v, the store %x", k.key, k.namespace, r, b)
			}
		}
	}
	return nil
}

// checkAlike looks for jobs listed under what they are not about (INV-9).
func (m *Machine) checkAlike() error {
	var err error
	lo, hi := record.AllAlike()
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		qid, like, id, ok := record.ParseAlikeKey(key)
		q := m.byID[qid]
		if !ok || q == nil {
			err = broken(9, "entry %x belongs to no queue", key)
			return false
		}
		if e := m.loadJob(q, id); (e == nil && q.sweep == nil) || (e != nil && e.Like != like) {
			err = broken(9, "job %d is listed under what it is not about", id)
		}
		return err == nil
	})
	return err
}

// checkSweeps asserts that queues and the clean-ups after their purges know each other.
func (m *Machine) checkSweeps() error {
	for _, s := range m.sweeps {
		if q := m.byID[s.id]; q != nil && q.sweep != s {
			return broken(12, "queue %q does not know its clean-up", q.name)
		}
	}
	for _, q := range m.byID {
		if q.sweep != nil && !slices.Contains(m.sweeps, q.sweep) {
			return broken(12, "queue %q has a clean-up that is not under way", q.name)
		}
	}
	return nil
}
