package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// loadFormat reads which records the store may hold.
func (m *Machine) loadFormat() {
	m.format = record.FormatBase
	if b, _, ok := m.store.Get(nil, record.FormatKey()); ok {
		format, err := record.DecodeFormat(b)
		corrupt("format", err)
		m.format = format
	}
}

// raiseFormat allows records of a format from now on.
func (m *Machine) raiseFormat(format uint64) {
	if format <= m.format {
		return
	}
	m.format = format
	m.vb = record.AppendFormat(m.vb[:0], format)
	m.set(record.FormatKey(), m.vb)
}

// allows reports whether records of a format may be written, and otherwise refuses the command.
func (m *Machine) allows(format uint64, res *job.Result) bool {
	if format > m.format {
		if m.opt.Gated {
			res.Err = job.ErrFormat
			return false
		}
		m.raiseFormat(format)
	}
	return true
}

// Format returns the format of the records that the store may hold.
func (m *Machine) Format() uint64 { return m.format }
