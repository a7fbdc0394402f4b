package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// keyMemo is the last key that was not there: a push looks once whether it is in use and once more
// to enter it. It is valid until the key is entered.
type keyMemo struct {
	keyName
	valid bool
}

// getKey reads the entry of a client-given key: the oldest job that has it, and whether there are
// more. The entry may lead to a job that was purged and not swept yet.
func (m *Machine) getKey(namespace, key string) (record.KeyRef, bool) {
	k := keyName{namespace, key}
	if m.memo.valid && m.memo.keyName == k {
		return record.KeyRef{}, false
	}
	if r, ok := m.keys.get(k); ok {
		return r, true
	}
	m.keyBuf = record.KeyKey(m.keyBuf[:0], namespace, key)
	b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = b[:0]
	if !ok {
		m.memo = keyMemo{k, true}
		return record.KeyRef{}, false
	}
	r, err := record.DecodeKeyRef(b)
	corrupt("key", err)
	m.keys.put(k, r)
	return r, true
}

// putKey changes what a key names, in memory and in the store.
func (m *Machine) putKey(namespace, key string, r record.KeyRef) {
	m.keys.put(keyName{namespace, key}, r)
	m.keyBuf = record.KeyKey(m.keyBuf[:0], namespace, key)
	m.valueBuf = record.AppendKeyRef(m.valueBuf[:0], r)
	m.set(m.keyBuf, m.valueBuf)
}

// insertKey enters a key that is not there.
func (m *Machine) insertKey(e *entry) {
	r := record.KeyRef{JobRef: record.JobRef{Queue: e.q.ID, ID: e.ID}}
	if e.q.ungrouped.whole { // otherwise it is behind a backlog: until it is fetched, many other keys will be needed
		m.keys.put(keyName{e.q.namespace, e.Key}, r)
	}
	m.memo.valid = false
	m.keyBuf = record.KeyKey(m.keyBuf[:0], e.q.namespace, e.Key)
	m.valueBuf = record.AppendKeyRef(m.valueBuf[:0], r)
	m.store.Insert(m.keyBuf, m.valueBuf)
}

// addKey puts a job on the list of its key. Nearly all keys have one job, whose entry is one
// record. Further jobs are listed beside it, by their ids.
func (m *Machine) addKey(e *entry) {
	namespace := e.q.namespace
	old, ok := m.getKey(namespace, e.Key)
	if !ok {
		m.insertKey(e)
		return
	}
	first, later := old.JobRef, record.JobRef{Queue: e.q.ID, ID: e.ID}
	// Ids grow with time, so that this is seldom; a move takes a job off the list and adds it
	// again.
	if later.ID < first.ID { // it was moved here: the oldest stays first
		first, later = later, first
	}
	if !old.More || first != old.JobRef {
		m.putKey(namespace, e.Key, record.KeyRef{JobRef: first, More: true})
	}
	m.keyBuf = record.MoreKey(m.keyBuf[:0], namespace, e.Key, later.ID)
	m.set(m.keyBuf, record.AppendUint(nil, uint64(later.Queue)))
}

// dropKey takes a job off the list of its key; the next oldest takes its place. More stays set
// although that one may have been the last: it only says that there may be others.
func (m *Machine) dropKey(namespace, key string, id job.ID) {
	r, ok := m.getKey(namespace, key)
	if !ok {
		return
	}
	if r.ID != id {
		m.keyBuf = record.MoreKey(m.keyBuf[:0], namespace, key, id)
		m.del(m.keyBuf)
		return
	}
	if r.More {
		if next, ok := m.firstMore(namespace, key); ok {
			m.keyBuf = record.MoreKey(m.keyBuf[:0], namespace, key, next.ID)
			m.del(m.keyBuf)
			m.putKey(namespace, key, record.KeyRef{JobRef: next, More: true})
			return
		}
	}
	m.keys.drop(keyName{namespace, key})
	m.keyBuf = record.KeyKey(m.keyBuf[:0], namespace, key)
	m.del(m.keyBuf)
}

// firstMore returns the oldest of the further jobs with a key.
func (m *Machine) firstMore(namespace, key string) (r record.JobRef, ok bool) {
	m.scanMore(namespace, key, func(n record.JobRef) bool {
		r, ok = n, true
		return false
	})
	return r, ok
}

// scanMore visits the further jobs with a key, oldest first. The oldest of all is in the entry of the key.
func (m *Machine) scanMore(namespace, key string, visit func(record.JobRef) bool) {
	lo, hi := record.MoreSpan(namespace, key)
	m.scanRefs(lo, hi, visit)
}

// scanRefs visits the entries of a part of the list of a key.
func (m *Machine) scanRefs(lo, hi []byte, visit func(record.JobRef) bool) {
	m.store.Scan(lo, hi, false, func(k, v []byte) bool {
		r, err := record.DecodeMore(k, v)
		corrupt("key", err)
		return visit(r)
	})
}

// jobsWithKey returns up to limit of the jobs that the list of a key has behind an id, those with the
// lowest ids, and whether there are more. They may be gone, or be tombstones: loadRef tells.
func (m *Machine) jobsWithKey(namespace, key string, after job.ID, limit int) (refs []record.JobRef, more bool) {
	r, ok := m.getKey(namespace, key)
	if !ok {
		return nil, false
	}
	if r.ID > after {
		refs = append(refs, r.JobRef)
	}
	if !r.More {
		return refs, false
	}
	_, hi := record.MoreSpan(namespace, key)
	m.scanRefs(record.MoreKey(nil, namespace, key, after+1), hi, func(n record.JobRef) bool {
		if more = len(refs) == limit; !more {
			refs = append(refs, n)
		}
		return !more
	})
	return refs, more
}

// KeyLook is how many jobs with one key a step looks at. Clients choose the keys: there may be a
// million jobs with the same one.
const KeyLook = 1024

// keyPage is how many of them are read at a time.
const keyPage = 128

// eachWithKey visits the live jobs that have the key, oldest first, until visit returns false. It
// reports false if there are more than KeyLook entries and visit has not ended it before.
func (m *Machine) eachWithKey(namespace, key string, visit func(*entry) bool) (all bool) {
	after, more := job.ID(0), true
	for looked := 0; more && looked < KeyLook; {
		var refs []record.JobRef
		refs, more = m.jobsWithKey(namespace, key, after, keyPage)
		for _, ref := range refs {
			if e := m.loadRef(ref); e != nil && !e.Flags.Has(job.FlagTombstone) && !visit(e) {
				return true
			}
			after = ref.ID
		}
		looked += len(refs)
	}
	return !more
}

// keyInUse reports whether any job has the key. If it cannot tell, because the entries of a great
// many jobs that were purged are still to be swept, it says yes: a push is refused that could have
// been taken, and never the other way round.
func (m *Machine) keyInUse(namespace, key string) (used bool) {
	all := m.eachWithKey(namespace, key, func(*entry) bool {
		used = true
		return false
	})
	return used || !all
}

// lookup finds the job that a reference names and that fits the states meant and the
// need, or says why there is none.
func (m *Machine) lookup(ref *job.Ref, in job.States, need job.Need, by job.Holder) (*entry, *job.Error) {
	return m.lookupBy(ref, by, need, func(e *entry) *job.Error {
		if !in.Allow(e.State) {
			return job.ErrBadState
		}
		return checkNeed(e, need, by)
	})
}

// lookupSettle does the same for the verbs that settle a job: an exclusive lease binds them
// whatever they need (section 5).
func (m *Machine) lookupSettle(ref *job.Ref, need job.Need, by job.Holder) (*entry, *job.Error) {
	return m.lookupBy(ref, by, need, func(e *entry) *job.Error { return checkSettle(e, need, by) })
}

// lookupIn finds a job in one of the states meant and allowed, for verbs of operators, which are
// not bound by leases. The job comes with the error BadState as well, for a verb that answers more
// precisely.
func (m *Machine) lookupIn(ref *job.Ref, in, allowed job.States) (*entry, *job.Error) {
	return m.lookupBy(ref, job.Holder{}, job.NeedAny, func(e *entry) *job.Error {
		if !in.Allow(e.State) || !allowed.Allow(e.State) {
			return job.ErrBadState
		}
		return nil
	})
}

// lookupBy finds the job that a reference names; of several with one key, one that fit has nothing
// against. An error of fit comes with the job. If fit answers NotFound, byKey passes over the job.
// A job of another namespace is never found, however it is named.
func (m *Machine) lookupBy(
	ref *job.Ref, by job.Holder, need job.Need, fit func(*entry) *job.Error,
) (*entry, *job.Error) {
	var e *entry
	switch ref.Kind {
	case job.RefID:
		e = m.byJobID(ref, by)
	case job.RefKey:
		e = m.byKey(ref, need, fit)
	case job.RefSerial:
		e = m.bySerial(ref)
	case job.RefNumber:
		if ref.ID == 0 {
			e = m.byNumber(ref.Namespace, ref.Number, by)
		} else {
			e = m.byIDAlone(ref.ID, by)
		}
	case job.RefPlace:
		e = m.loadRef(record.JobRef{Queue: record.QueueID(ref.QueueNum), ID: ref.ID})
	}
	if e == nil || e.Flags.Has(job.FlagTombstone) || e.q.namespace != ref.Namespace ||
		(ref.Queue != "" && e.q.name != ref.Queue) {
		return nil, job.ErrNotFound
	}
	return e, fit(e)
}

// checkNeed says why the job does not fit the need; nil if it does. The order of the cases is the order
// in which section 5 names the refusals.
func checkNeed(e *entry, need job.Need, by job.Holder) *job.Error {
	if need == job.NeedAny {
		return nil
	}
	leased := e.State == job.Leased
	switch {
	case need == job.NeedFree:
		if leased && e.Lease.Holder != by {
			return job.ErrNotOwner
		}
		return nil
	case need == job.NeedUnfinished && e.State.Finished():
		return job.ErrFinished
	case need != job.NeedUnfinished && !leased:
		return job.ErrNotLeased
	case leased && e.Lease.Holder != by && (need == job.NeedHeld || e.Lease.Exclusive):
		return job.ErrNotOwner
	default:
		return nil
	}
}

// checkSettle says why the job cannot be settled by the caller; nil if it can. An exclusive lease
// counts before the need.
func checkSettle(e *entry, need job.Need, by job.Holder) *job.Error {
	if e.State == job.Leased && e.Lease.Exclusive && e.Lease.Holder != by {
		return job.ErrNotOwner
	}
	return checkNeed(e, need, by)
}

// byJobID finds a job by queue and id. Without a queue it finds what the caller holds, and what has
// a number, and nothing else: whether a job is in memory must not decide whether it is found.
func (m *Machine) byJobID(ref *job.Ref, by job.Holder) *entry {
	if ref.Queue != "" {
		if q := m.findQueue(ref.Namespace, ref.Queue); q != nil {
			return m.loadJob(q, ref.ID)
		}
		return nil
	}
	return m.byIDAlone(ref.ID, by)
}

// byIDAlone finds a job by its id without a queue.
func (m *Machine) byIDAlone(id job.ID, by job.Holder) *entry {
	if q := m.heldIn(by, id); q != nil {
		return m.loadJob(q, id)
	}
	if r, ok := m.getNumber(id.Number()); ok && r.ID == id {
		return m.loadRef(r)
	}
	return nil
}

// heldIn returns the queue of a job that somebody holds with a lease that ends with it; nil if it
// does not. The zero holder is nobody.
func (m *Machine) heldIn(by job.Holder, id job.ID) *queue {
	if by == (job.Holder{}) || m.holders[by] == nil {
		return nil
	}
	if l := m.holders[by].leases[id]; l != nil {
		return m.byID[l.ref.Queue]
	}
	return nil
}

// byKey prefers, among jobs with the same key, the one leased longest if the need is a lease, then
// the oldest that fits, then the oldest, so that the refusal is about a job that exists. Only the
// first KeyLook are looked at.
func (m *Machine) byKey(ref *job.Ref, need job.Need, fit func(*entry) *job.Error) *entry {
	var oldest, fitting *entry
	m.eachWithKey(ref.Namespace, ref.Key, func(e *entry) bool {
		if ref.Queue != "" && e.q.name != ref.Queue {
			return true
		}
		err := fit(e)
		if err == job.ErrNotFound {
			return true
		}
		if oldest == nil {
			oldest = e
		}
		if err != nil {
			return true
		}
		wantsLease := need == job.NeedHeld || need == job.NeedLeased
		// Entered grows with time: the lowest is the lease that was taken first.
		if fitting == nil || (wantsLease && e.Entered < fitting.Entered) {
			fitting = e
		}
		return wantsLease
	})
	if fitting != nil {
		return fitting
	}
	return oldest
}

// bySerial finds a job by its number within its queue.
func (m *Machine) bySerial(ref *job.Ref) *entry {
	q := m.findQueue(ref.Namespace, ref.Queue)
	if q == nil {
		return nil
	}
	m.keyBuf = record.SerialKey(m.keyBuf[:0], q.ID, ref.Serial)
	b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = b[:0]
	if !ok {
		return nil
	}
	id, err := record.DecodeUint(b)
	corrupt("serial", err)
	return m.loadJob(q, job.ID(id))
}

// getNumber returns which job was pushed with a 32-bit number; it may be gone.
func (m *Machine) getNumber(number uint32) (record.JobRef, bool) {
	m.keyBuf = record.NumberKey(m.keyBuf[:0], number)
	b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = b[:0]
	if !ok {
		return record.JobRef{}, false
	}
	r, err := record.DecodeRef(b)
	corrupt("number", err)
	return r, true
}

// byNumber finds what the caller holds under this number, whoever pushed it, else the live job that
// was pushed with a number. Of the ids that share a low half, there is one for every 2^32 jobs
// pushed so far: few, and the newest first.
func (m *Machine) byNumber(namespace string, number uint32, by job.Holder) *entry {
	if m.holders[by] != nil {
		for high := (uint64(m.shard.NextID) >> 32) + 1; high > 0; high-- {
			id := job.ID((high-1)<<32 | uint64(number))
			if q := m.heldIn(by, id); q != nil && q.namespace == namespace {
				return m.loadJob(q, id)
			}
		}
	}
	if r, ok := m.getNumber(number); ok {
		return m.loadRef(r)
	}
	return nil
}
