package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// getLock reads who has taken a lock. The record may outlive its time: forgetSome removes it later.
// So whoever asks compares the time; isLocked does.
func (m *Machine) getLock(namespace, lock string) (record.Lock, bool) {
	m.keyBuf = record.LockKey(m.keyBuf[:0], namespace, lock)
	b, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = b[:0]
	if !ok {
		return record.Lock{}, false
	}
	l, err := record.DecodeLock(b)
	corrupt("lock", err)
	return l, true
}

// isLocked reports whether somebody has a lock whose time is not over (INV-13).
func (m *Machine) isLocked(namespace, lock string) bool {
	l, ok := m.getLock(namespace, lock)
	return ok && m.now < l.Until
}

// takeLock gives a new job the lock that its spec asks for. checkNames or the rehearsal of an Atomic
// has made sure that it is free.
func (m *Machine) takeLock(e *entry, s *job.Spec) {
	m.lockUntil(e, s, max(m.now, e.RunAt).Add(s.LockFor))
}

// lockUntil takes a lock until a time. A record that has lapsed is dropped first, with its entry in
// the list of what is to be forgotten: otherwise that entry would be left behind for ever (INV-15),
// and the Insert would meet a key that is there.
func (m *Machine) lockUntil(e *entry, s *job.Spec, until job.Time) {
	if old, ok := m.getLock(e.Namespace, s.Lock); ok {
		m.dropLock(e.Namespace, s.Lock, old) // it has lapsed
	}
	e.Lock, e.LockUntil = s.Lock, s.LockUntil
	l := record.Lock{Taker: e.ID, Until: until}
	m.keyBuf = record.LockKey(m.keyBuf[:0], e.Namespace, e.Lock)
	m.valueBuf = record.AppendLock(m.valueBuf[:0], l)
	m.store.Insert(m.keyBuf, m.valueBuf)
	m.forgetLater(l.Until, l.Taker, m.keyBuf)
}

// unlock ends the lock that a job took, unless its time was over and another job has taken it
// since. The job forgets the name in either case, and the caller saves it.
func (m *Machine) unlock(e *entry) {
	if l, ok := m.getLock(e.Namespace, e.Lock); ok && l.Taker == e.ID {
		m.dropLock(e.Namespace, e.Lock, l)
	}
	e.Lock, e.LockUntil = "", 0
}

// dropLock removes the record of a lock together with its entry in the list of what is to be
// forgotten (INV-15).
func (m *Machine) dropLock(namespace, lock string, l record.Lock) {
	m.keyBuf = record.LockKey(m.keyBuf[:0], namespace, lock)
	m.store.Remove(m.keyBuf)
	m.cancelForget(l.Until, l.Taker, m.keyBuf)
}
