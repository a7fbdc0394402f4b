package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// Holders that are kept outlive restarts (section 8 of the semantics). Each has a record, from keepHolder to its end,
// and all of them are in memory: they are bounded in number. A restart begins their graces, and adoptLease brings their
// leases back.

// keepHolder has a holder outlive restarts, or no longer.
func (m *Machine) keepHolder(c *job.KeepHolder, res *job.Result) {
	h := m.holders[c.Holder]
	same := h != nil && h.kept != nil && h.kept.Name == c.Name
	m.keyBuf = record.HolderKey(m.keyBuf[:0], c.Name)
	switch {
	case c.Holder == (job.Holder{}) || c.Name == "" || len(c.Name) > job.MaxHolderName:
		res.Err = job.ErrHolderName
		return
	case !same && (h != nil && h.kept != nil || m.hasKey(m.keyBuf)):
		res.Err = job.ErrKept
		return
	case c.Grace <= 0:
		if same {
			m.unmarkKept(h)
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
	m.markKept(c.KeptHolder)
	m.keyBuf = record.HolderKey(m.keyBuf[:0], c.Name)
	m.valueBuf = record.AppendHolder(m.valueBuf[:0], &c.KeptHolder)
	m.set(m.keyBuf, m.valueBuf)
}

// markKept notes in memory that a holder is kept.
func (m *Machine) markKept(k job.KeptHolder) *holder {
	h := m.getHolder(k.Holder)
	if h.kept == nil {
		m.keptHolders++
	}
	h.kept = &k
	return h
}

// unmarkKept forgets that a holder is kept, if it is. Its owner may have to call forgetHolder.
func (m *Machine) unmarkKept(h *holder) {
	if h.kept == nil {
		return
	}
	m.keyBuf = record.HolderKey(m.keyBuf[:0], h.kept.Name)
	m.del(m.keyBuf)
	m.keptHolders--
	h.kept = nil
}

// loadHolders reads the holders that are kept, at the start. Whoever was there before has gone: their graces begin.
func (m *Machine) loadHolders() {
	lo, hi := record.AllHolders()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		k, err := record.DecodeHolder(key, value)
		corrupt("holder", err)
		m.beginGrace(m.markKept(k), k.Grace)
		return true
	})
}

// adoptLease gives a lease from before the restart back to its holder, and reports false if the
// holder does not exist any more.
func (m *Machine) adoptLease(e *entry) bool {
	if h := m.holders[e.Lease.Holder]; h == nil || h.kept == nil {
		return false
	}
	m.holdLease(e)
	return true
}
