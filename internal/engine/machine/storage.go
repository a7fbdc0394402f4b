package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// Storage is what the machine reads back and where its changes go. Reads see all
// changes made before. A fault of the store does not return: the owner stops the
// machine. Slices handed to visit are valid only during the call.
type Storage interface {
	// Get appends the value to dst. Pending tells that it is not committed yet.
	Get(dst, key []byte) (value []byte, pending, ok bool)
	// Scan visits the keys from lo up to but excluding hi, in order or in reverse.
	Scan(lo, hi []byte, reverse bool, visit func(key, value []byte) bool)
	Set(key, value []byte)
	// Insert sets a key that is not there, Remove deletes one that was inserted and
	// has not been set since. Such a pair costs the store less than Set and Delete.
	Insert(key, value []byte)
	Remove(key []byte)
	Delete(key []byte)
	DeleteRange(lo, hi []byte)
}

// corrupt stops the machine: a record that cannot be read is never guessed at.
func corrupt(what string, err error) {
	if err != nil {
		panic(&CorruptError{What: what, Err: err})
	}
}

// CorruptError is what the machine panics with when a record is unreadable or an
// entry leads nowhere it should.
type CorruptError struct {
	What string
	Err  error
}

// Error names the record.
func (e *CorruptError) Error() string { return "unreadable " + e.What + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// set and del write with the scratch buffers: the storage copies.
func (m *Machine) set(key, value []byte) { m.store.Set(key, value) }
func (m *Machine) del(key []byte)        { m.store.Delete(key) }

func (m *Machine) putMeta(e *entry) {
	m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, record.PartMeta)
	m.vb = record.AppendMeta(m.vb[:0], &e.Job)
	m.set(m.kb, m.vb)
}

func (m *Machine) putBody(e *entry) {
	m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, record.PartBody)
	m.vb = record.AppendBody(m.vb[:0], &e.Job)
	if e.Flags.Has(job.FlagRewritten) {
		m.set(m.kb, m.vb)
	} else {
		m.store.Insert(m.kb, m.vb)
	}
	m.vb = trim(m.vb)
}

func (m *Machine) delBody(e *entry) {
	m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, record.PartBody)
	if e.Flags.Has(job.FlagRewritten) {
		m.del(m.kb)
	} else {
		m.store.Remove(m.kb)
	}
}

// trim keeps a scratch buffer that one large body has grown from staying large.
func trim(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b
}

func (m *Machine) putFailures(e *entry) {
	e.Flags |= job.FlagFailures
	m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, record.PartFailures)
	m.set(m.kb, record.AppendFailures(nil, e.Failures))
}

func (m *Machine) putResult(e *entry) {
	e.Flags |= job.FlagResult
	m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, record.PartResult)
	m.set(m.kb, e.Result)
}

func (m *Machine) delPart(e *entry, part record.Part) {
	m.kb = record.JobKey(m.kb[:0], e.q.ID, e.ID, part)
	m.del(m.kb)
}

func (m *Machine) setList(q *queue, list record.List, j *job.Job) {
	m.kb = record.ListKey(m.kb[:0], q.ID, list, j)
	m.store.Insert(m.kb, nil)
}

func (m *Machine) delList(q *queue, list record.List, j *job.Job) {
	m.kb = record.ListKey(m.kb[:0], q.ID, list, j)
	m.store.Remove(m.kb)
}

// firstOf returns the first (or last) job of a list, or nil.
func (m *Machine) firstOf(q *queue, list record.List, reverse bool) *entry {
	var id job.ID
	m.store.Scan(record.ListStart(nil, q.ID, list), record.ListEnd(nil, q.ID, list), reverse, func(key, _ []byte) bool {
		id = record.EntryID(key)
		return false
	})
	if id == 0 {
		return nil
	}
	return m.mustLoad(q, id)
}

// idsOf returns the first n jobs of a list.
func (m *Machine) idsOf(lo, hi []byte, n int) []job.ID {
	var ids []job.ID
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		ids = append(ids, record.EntryID(key))
		return n <= 0 || len(ids) < n
	})
	return ids
}
