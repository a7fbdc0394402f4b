package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// loadFormat reads which records the store may hold. A store may have records that are older than
// formats are: loadQueue and loadHooks raise the format for those.
func (m *Machine) loadFormat() {
	m.format = record.FormatBase
	if b, _, ok := m.store.Get(nil, record.FormatKey()); ok {
		format, err := record.DecodeFormat(b)
		corrupt("format", err)
		m.format = format
	}
}

// raiseFormat allows records of a format from now on. There is no way back: an older release
// refuses the store from then on.
func (m *Machine) raiseFormat(format uint64) {
	if format <= m.format {
		return
	}
	m.format = format
	m.valueBuf = record.AppendFormat(m.valueBuf[:0], format)
	m.set(record.FormatKey(), m.valueBuf)
}

// allows reports whether records of a format may be written, and otherwise refuses the command. In
// a cluster (Gated) the format is raised only when all nodes know it; a node of an older release
// could not read what it is sent (INV-20).
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
