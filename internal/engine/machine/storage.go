package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// Storage is what the machine reads back and where its changes go. Reads see all changes made
// before, committed or not. A fault of the store does not return: the owner stops the machine.
// Slices handed to visit are valid only during the call, and slices handed to the storage are
// copied by it.
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

// corrupt stops the machine with a panic: a record that cannot be read is never guessed at. The
// engine turns it into its end (recoverFault), and nothing of the step is committed.
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

// put writes how the job stands: the first time with its body, if that is small, and from then on
// in a state record beside it. So a large body is written once, and the first record is inserted
// and removed once, which the store does more cheaply than Set and Delete (Storage.Insert). The
// flags say how often each key was written: unput has to know whether Remove may be used. They are
// part of what is written, and so are set before it is.
func (m *Machine) put(e *entry) {
	if !e.stored {
		e.stored = true
		m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartFirst)
		m.valueBuf = record.AppendFirst(m.valueBuf[:0], &e.Job)
		m.store.Insert(m.keyBuf, m.valueBuf)
		return
	}
	write := m.store.Set
	if e.Flags.Has(job.FlagState) {
		e.Flags |= job.FlagStateAgain
	} else {
		e.Flags |= job.FlagState
		write = m.store.Insert
	}
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartState)
	m.valueBuf = record.AppendMeta(m.valueBuf[:0], &e.Job)
	write(m.keyBuf, m.valueBuf)
}

// unput deletes the records of a job that say how it stands, and its body. A key that was written
// twice must be deleted and not removed: a single delete would bring the first value back.
func (m *Machine) unput(e *entry) {
	rewritten := e.Flags.Has(job.FlagRewritten)
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartFirst)
	m.clear(m.keyBuf, rewritten)
	if e.Flags.Has(job.FlagState) {
		m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartState)
		m.clear(m.keyBuf, e.Flags.Has(job.FlagStateAgain))
	}
	if e.Flags&(job.FlagInline|job.FlagTombstone) == 0 {
		m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartBody)
		m.clear(m.keyBuf, rewritten)
	}
}

// clear deletes a key that was inserted, and set again since if again says so.
func (m *Machine) clear(key []byte, again bool) {
	if again {
		m.del(key)
	} else {
		m.store.Remove(key)
	}
}

// storeBody decides where the body of a job that is not stored yet goes: into the first record if
// it is small (record.InlineMax), else into a record of its own, which is written here.
func (m *Machine) storeBody(e *entry) {
	if record.Inline(&e.Job) {
		e.Flags |= job.FlagInline
		return
	}
	m.putBody(e)
}

// replaceBody gives the job another body, in a record of its own, whatever its size. The caller
// saves the job.
func (m *Machine) replaceBody(e *entry, body []byte, kind job.BodyKind) {
	e.Body, e.BodyKind = body, kind
	e.Flags |= job.FlagRewritten
	m.spillBody(e)
	m.putBody(e)
}

// spillBody writes the first record again, without the body that it had. The state record, which is
// newer, is not touched; the caller saves it with the flags that have changed.
func (m *Machine) spillBody(e *entry) {
	if !e.Flags.Has(job.FlagInline) {
		return
	}
	e.Flags = e.Flags&^job.FlagInline | job.FlagRewritten
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartFirst)
	m.valueBuf = record.AppendFirst(m.valueBuf[:0], &e.Job)
	m.set(m.keyBuf, m.valueBuf)
}

// putBody writes the body in a record of its own.
func (m *Machine) putBody(e *entry) {
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartBody)
	m.valueBuf = record.AppendBody(m.valueBuf[:0], &e.Job)
	if e.Flags.Has(job.FlagRewritten) {
		m.set(m.keyBuf, m.valueBuf)
	} else {
		m.store.Insert(m.keyBuf, m.valueBuf)
	}
	m.valueBuf = trim(m.valueBuf)
}

// trim keeps a scratch buffer that one large body has grown from staying large.
func trim(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b
}

// putFailures and putResult write other parts of a job, and set the flag by which they are found.
// The caller saves the job.
func (m *Machine) putFailures(e *entry) {
	e.Flags |= job.FlagFailures
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartFailures)
	m.set(m.keyBuf, record.AppendFailures(nil, e.Failures))
}

func (m *Machine) putResult(e *entry) {
	e.Flags |= job.FlagResult
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, record.PartResult)
	m.set(m.keyBuf, e.Result)
}

// delPart deletes a part of a job. The caller clears the flag by which the part is found, unless the
// job goes as well.
func (m *Machine) delPart(e *entry, part record.Part) {
	m.keyBuf = record.JobKey(m.keyBuf[:0], e.q.ID, e.ID, part)
	m.del(m.keyBuf)
}

// setList and delList enter a job into a list and take it out. The key follows from the order and
// times of the job: it has to have the same ones both times. An entry is inserted and removed once.
func (m *Machine) setList(q *queue, list record.List, j *job.Job) {
	m.keyBuf = record.ListKey(m.keyBuf[:0], q.ID, list, j)
	m.store.Insert(m.keyBuf, nil)
}

func (m *Machine) delList(q *queue, list record.List, j *job.Job) {
	m.keyBuf = record.ListKey(m.keyBuf[:0], q.ID, list, j)
	m.store.Remove(m.keyBuf)
}

// hasKeyIn reports whether there is a key in a range.
func (m *Machine) hasKeyIn(lo, hi []byte) (found bool) {
	m.store.Scan(lo, hi, false, func(_, _ []byte) bool {
		found = true
		return false
	})
	return found
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

// idsOf returns the first n jobs of a list; all of them if n is zero. They are collected before any
// is changed, so that no scan runs over a list that is being changed.
func (m *Machine) idsOf(lo, hi []byte, n int) []job.ID {
	var ids []job.ID
	m.store.Scan(lo, hi, false, func(key, _ []byte) bool {
		ids = append(ids, record.EntryID(key))
		return n <= 0 || len(ids) < n
	})
	return ids
}
