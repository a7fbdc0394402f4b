package machine

import (
	"time"

	"millrace/internal/job"
	"millrace/internal/record"
)

// Locks and the outcomes of jobs that have ended carry the time until which they
// count. That they are still there afterwards is invisible, so nothing is in memory of
// them: a list by time in the store says which records can go, and now and then a piece
// of it is worked off (INV-15).

// forgetSlack is for how long records that no longer count are left to gather, so that one step
// removes many of them together and an idle server does not wake up for each.
const forgetSlack = 10 * time.Second

// forgetLater lists a lock or an outcome of a job, whose key is given, to be forgotten at a time.
// The entry is inserted and removed once: whoever changes the time takes the old entry out
// (cancelForget).
func (m *Machine) forgetLater(at job.Time, id job.ID, key []byte) {
	if at == job.Never {
		return
	}
	m.forgetBuf = record.ForgetKey(m.forgetBuf[:0], at, id, key)
	m.store.Insert(m.forgetBuf, key)
	m.forgetAt = min(m.forgetAt, at)
}

// cancelForget takes a lock or an outcome off the list again.
func (m *Machine) cancelForget(at job.Time, id job.ID, key []byte) {
	if at != job.Never {
		m.forgetBuf = record.ForgetKey(m.forgetBuf[:0], at, id, key)
		m.store.Remove(m.forgetBuf)
	}
}

// loadForget finds out at the start when there is something to forget.
func (m *Machine) loadForget() {
	m.forgetAt = job.Never
	m.store.Scan(record.ForgetFrom(nil, 0), record.ForgetEnd(), false, func(key, _ []byte) bool {
		m.forgetAt = parseForget(key).at
		return false
	})
}

// forgettable is an entry of the list: what is to be forgotten, and of which job it was.
type forgettable struct {
	at   job.Time
	id   job.ID
	lock bool
	key  []byte
}

// parseForget reads the key of an entry.
func parseForget(key []byte) forgettable {
	at, id, lock, ok := record.ParseForgetKey(key)
	if !ok {
		corrupt("entry of what is to be forgotten", record.ErrFormat)
	}
	return forgettable{at: at, id: id, lock: lock}
}

// forgetSome does one step of the forgetting, if it is time for it, and reports whether there is
// more. It looks at SweepStep entries at most.
func (m *Machine) forgetSome() bool {
	if m.forgetAt.Add(forgetSlack) > m.now {
		return false
	}
	var due []forgettable
	m.forgetAt = job.Never
	m.store.Scan(record.ForgetFrom(nil, 0), record.ForgetEnd(), false, func(key, value []byte) bool {
		f := parseForget(key)
		if f.at > m.now || len(due) == m.opt.SweepStep {
			m.forgetAt = f.at
			return false
		}
		f.key = append([]byte(nil), value...)
		due = append(due, f)
		return true
	})
	for _, f := range due {
		m.forgetOne(f)
	}
	return m.forgetAt.Add(forgetSlack) <= m.now
}

// forgetOne deletes a record and its entry. The record may be another one by now: a Flush drops
// locks and outcomes without their entries, and another job may have taken the name since.
func (m *Machine) forgetOne(f forgettable) {
	m.cancelForget(f.at, f.id, f.key)
	b, _, ok := m.store.Get(m.readBuf[:0], f.key)
	m.readBuf = trim(b[:0])
	switch {
	case !ok:
	case f.lock:
		l, err := record.DecodeLock(b)
		corrupt("lock", err)
		if l.Taker == f.id && l.Until == f.at {
			m.store.Remove(f.key)
		}
	default:
		o, err := record.DecodeOutcome(b)
		corrupt("outcome", err)
		if o.ID == f.id && o.Until == f.at {
			m.del(f.key)
		}
	}
}
