package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// Holders that are kept outlive restarts (section 8 of the semantics). Each has a record, from keepHolder to its end,
// and all of them are in memory: they are bounded in number. A restart begins their graces, and adopt brings their
// leases back.

// keepHolder has a holder outlive restarts, or no longer.
func (m *Machine) keepHolder(c *job.KeepHolder, res *job.Result) {
	h := m.holders[c.Holder]
	same := h != nil && h.kept != nil && h.kept.Name == c.Name
	m.kb = record.HolderKey(m.kb[:0], c.Name)
	switch {
	case c.Holder == (job.Holder{}) || c.Name == "" || len(c.Name) > job.MaxHolderName:
		res.Err = job.ErrHolderName
		return
	case !same && (h != nil && h.kept != nil || m.hasKey(m.kb)):
		res.Err = job.ErrKept
		return
	case c.Grace <= 0:
		if same {
			m.unkeep(h)
			m.forgetHolder(h)
		}
		return
	case same && h.kept.Grace == c.Grace:
		return
	case !same && m.keptHolders >= m.opt.KeptHolders:
		res.Err = job.ErrManyKept
		return
	}
	if !m.allows(record.FormatKept, res) {
		return
	}
	m.keep(c.KeptHolder)
	m.kb = record.HolderKey(m.kb[:0], c.Name)
	m.vb = record.AppendHolder(m.vb[:0], &c.KeptHolder)
	m.set(m.kb, m.vb)
}

// keep notes in memory that a holder is kept.
func (m *Machine) keep(k job.KeptHolder) *holder {
	h := m.holder(k.Holder)
	if h.kept == nil {
		m.keptHolders++
	}
	h.kept = &k
	return h
}

// unkeep forgets that a holder is kept, if it is. Its owner may have to call forgetHolder.
func (m *Machine) unkeep(h *holder) {
	if h.kept == nil {
		return
	}
	m.kb = record.HolderKey(m.kb[:0], h.kept.Name)
	m.del(m.kb)
	m.keptHolders--
	h.kept = nil
}

// loadHolders reads the holders that are kept, at the start. Whoever was there before has gone: their graces begin.
func (m *Machine) loadHolders() {
	lo, hi := record.AllHolders()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		k, err := record.DecodeHolder(key, value)
		corrupt("holder", err)
		m.beginGrace(m.keep(k), k.Grace)
		return true
	})
}

// adopt gives a lease from before the restart back to its holder, and reports false if the holder does not exist any
// more.
func (m *Machine) adopt(e *entry) bool {
	if h := m.holders[e.Lease.Holder]; h == nil || h.kept == nil {
		return false
	}
	m.hold(e)
	return true
}
