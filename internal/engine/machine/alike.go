package machine

import (
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// findAlike returns the oldest job that a push gives way to; nil if there is none. Of very many jobs
// that are about the same it looks at the oldest and the newest, because a step is bounded (section
// 13). It reads a few first and then twice as many each time.
func (m *Machine) findAlike(c *job.Push) *entry {
	if c.Unless == 0 || c.Spec.Fingerprint == (job.Digest{}) {
		return nil
	}
	q := m.findQueue(c.Spec.Namespace, c.Spec.Queue)
	if q == nil {
		return nil
	}
	first := func(ids []job.ID) *entry {
		for _, id := range ids {
			e := m.loadJob(q, id) // nil if it was purged and is not swept yet
			if e != nil && c.Unless.Allow(e.State) && !isExpired(e, m.now) {
				return e
			}
		}
		return nil
	}
	var from job.ID
	for n := 4; n <= alikeMax; n *= 2 { // mostly one of the first will do
		lo, hi := record.AlikeFrom(q.ID, c.Spec.Fingerprint, from)
		ids := m.idsOf(lo, hi, n)
		if e := first(ids); e != nil || len(ids) < n {
			return e
		}
		from = ids[len(ids)-1] + 1
	}
	// There are too many: of the rest only the newest are looked at.
	var newest []job.ID
	lo, hi := record.AlikeFrom(q.ID, c.Spec.Fingerprint, from)
	m.store.Scan(lo, hi, true, func(key, _ []byte) bool {
		newest = append(newest, record.EntryID(key))
		return len(newest) < alikeMax
	})
	slices.Reverse(newest)
	return first(newest)
}

// alikeMax bounds how many jobs that are about the same one read brings in.
const alikeMax = 512

// acceptAlike answers a push with the job that it gave way to, in the state that it is in. The job
// stays in memory as it was: a body that was read for the answer is dropped again, unless the
// budget has room for it.
func (m *Machine) acceptAlike(e *entry, res *job.Result) {
	m.accept(e, res)
	res.State = e.State
	m.answer(e, res)
	if m.jobs[e.ID] == e {
		m.keepBody(e) // or not, as before
	}
}

// listAlike lists a job under what it is about, unlistAlike takes it off (INV-9). The entry has the
// job's own id: no entry of another job is read or written, however many are alike.
func (m *Machine) listAlike(e *entry) {
	if e.Fingerprint != (job.Digest{}) {
		m.keyBuf = record.AlikeKey(m.keyBuf[:0], e.q.ID, e.Fingerprint, e.ID)
		m.store.Insert(m.keyBuf, nil)
	}
}

func (m *Machine) unlistAlike(e *entry) {
	if e.Fingerprint != (job.Digest{}) {
		m.keyBuf = record.AlikeKey(m.keyBuf[:0], e.q.ID, e.Fingerprint, e.ID)
		m.store.Remove(m.keyBuf)
	}
}
