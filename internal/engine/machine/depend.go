package machine

import (
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// block makes a new job wait for its blockers, each of which learns that it has
// dependants (INV-8).
func (m *Machine) block(e *entry, blockers []*entry) {
	for _, b := range blockers {
		e.Blockers = append(e.Blockers, b.ID)
		if !b.Flags.Has(job.FlagDependants) {
			b.q.Linked = true
			m.changed(b.q)
			b.Flags |= job.FlagDependants
			m.put(b)
		}
	}
	m.listBlocked(e)
}

// listBlocked lists a blocked job with each of its blockers.
func (m *Machine) listBlocked(e *entry) {
	for _, id := range e.Blockers {
		m.kb = record.DependantKey(m.kb[:0], id, e.q.ID, e.ID)
		m.set(m.kb, nil)
	}
	e.q.Linked = true
}

// unblock strikes a job that is no longer blocked off the lists of its blockers.
func (m *Machine) unblock(e *entry) {
	for _, id := range e.Blockers {
		m.kb = record.DependantKey(m.kb[:0], id, e.q.ID, e.ID)
		m.del(m.kb)
	}
	e.Blockers = nil
}

// dependants returns the jobs that wait for this one directly.
func (m *Machine) dependants(id job.ID) []record.JobRef {
	var refs []record.JobRef
	lo, hi := record.DependantSpan(id)
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		q, dep, ok := record.ParseDependantKey(key)
		if !ok {
			corrupt("dependant", record.ErrFormat)
		}
		refs = append(refs, record.JobRef{Queue: q, ID: dep})
		return true
	})
	return refs
}

// allDependants returns the jobs that wait for this one, directly or through
// others, by id.
func (m *Machine) allDependants(e *entry) []record.JobRef {
	if !e.Flags.Has(job.FlagDependants) {
		return nil
	}
	seen := map[job.ID]struct{}{e.ID: {}}
	var all []record.JobRef
	for next := []job.ID{e.ID}; len(next) > 0; next = next[1:] {
		for _, ref := range m.dependants(next[0]) {
			if _, twice := seen[ref.ID]; twice {
				continue
			}
			seen[ref.ID] = struct{}{}
			if m.loadRef(ref) == nil {
				continue // purged and not swept yet: it is deleted, and so blocks nothing
			}
			all = append(all, ref)
			next = append(next, ref.ID)
		}
	}
	slices.SortFunc(all, func(a, b record.JobRef) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}

// succeeded strikes a job that has left its list off the lists of those that wait
// for it.
func (m *Machine) succeeded(e *entry) {
	if e.Flags.Has(job.FlagDependants) {
		m.strike(e.ID)
	}
}

// strike strikes a job off the lists of those that wait for it. Those that wait for
// nothing else enter their queues.
func (m *Machine) strike(id job.ID) {
	m.serveWakes() // what its own end set free comes first
	for _, ref := range m.dependants(id) {
		m.kb = record.DependantKey(m.kb[:0], id, ref.Queue, ref.ID)
		m.del(m.kb)
		d := m.loadRef(ref)
		if d == nil || d.State != job.Blocked {
			continue
		}
		d.Blockers = slices.DeleteFunc(slices.Clone(d.Blockers), func(b job.ID) bool { return b == id })
		if len(d.Blockers) > 0 {
			m.save(d)
			continue
		}
		m.leave(d)
		if d.RunAt > m.now {
			m.enter(d, job.Scheduled)
			m.save(d)
		} else {
			m.makeReady(d, job.PlaceTail)
		}
		m.serveWakes()
	}
}
