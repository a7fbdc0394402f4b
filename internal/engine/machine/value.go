package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// setValue keeps a value, which belongs to no namespace and no job, until dropValue. Its size and
// number are for the caller to bound.
func (m *Machine) setValue(c *job.SetValue, res *job.Result) {
	m.keyBuf = record.ValueKey(m.keyBuf[:0], c.Space, c.Name)
	if c.IfAbsent && m.hasKey(m.keyBuf) {
		res.Err = job.ErrHasValue
		return
	}
	m.set(m.keyBuf, c.Value)
}

// dropValue removes a value and answers whether there was one.
func (m *Machine) dropValue(c *job.DropValue, res *job.Result) {
	m.keyBuf = record.ValueKey(m.keyBuf[:0], c.Space, c.Name)
	if m.hasKey(m.keyBuf) {
		m.del(m.keyBuf)
		res.Count = 1
	}
}

// hasKey reports whether the store has a key.
func (m *Machine) hasKey(key []byte) bool {
	b, _, ok := m.store.Get(m.readBuf[:0], key)
	m.readBuf = trim(b[:0])
	return ok
}
