package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// ListOptions say which part of a list to read.
type ListOptions struct {
	Namespace string
	Queue     string
	State     job.State
	After     string // the Next of the page before
	Skip      int    // entries to pass over; they are not loaded
	Limit     int    // at most this many jobs; default 100
	Reverse   bool
	Bodies    bool // with body, failures and result
}

// Page is a part of a list. Next continues it; empty at the end.
type Page struct {
	Jobs []job.Job
	Next string
}

// List returns a page of one state of a queue, in the order of its list. The cursor is the key of
// the last entry, not a number: jobs that come and go between two pages neither repeat nor hide
// others.
func (q Query) List(o ListOptions) (Page, error) {
	rec, ok, err := q.record(o.Namespace, o.Queue)
	if err != nil {
		return Page{}, err
	}
	if !ok {
		return Page{}, job.ErrNoQueue
	}
	if o.Limit <= 0 {
		o.Limit = 100
	}
	after, err := hex.DecodeString(o.After)
	if err != nil {
		return Page{}, &job.Error{Kind: job.Invalid, Text: "malformed cursor"}
	}
	ids, err := q.part(&rec, after, &o)
	if err != nil {
		return Page{}, err
	}
	p := Page{Jobs: make([]job.Job, 0, len(ids))}
	for _, l := range ids {
		j, ok, err := q.meta(&rec, l.id)
		// A snapshot is consistent: an entry without its job is damage.
		if err == nil && !ok {
			err = fmt.Errorf("list of %q names job %d: %w", o.Queue, l.id, store.ErrCorrupt)
		}
		if o.Bodies && err == nil {
			err = q.rest(&rec, &j)
		} else {
			j.Type, j.Body, j.BodyKind, j.Extra, j.Trace, j.Origin = "", nil, 0, nil, "", 0
		}
		if err != nil {
			return Page{}, err
		}
		j.Namespace, j.Queue = o.Namespace, o.Queue
		p.Jobs = append(p.Jobs, j)
	}
	if len(ids) == o.Limit {
		p.Next = hex.EncodeToString(ids[len(ids)-1].sort)
	}
	return p, nil
}

// listed is an entry of a list; sort is what follows the list's own prefix.
type listed struct {
	sort []byte
	id   job.ID
}

// part returns the entries of a page. What is passed over costs a key each: no job is loaded and
// nothing is collected.
func (q Query) part(rec *record.Queue, after []byte, o *ListOptions) (out []listed, err error) {
	entries := q.entries(rec.ID, record.List(o.State), after, o.Reverse, &err)
	// Both lists are sorted by the same order, so that they can be merged without reading a job.
	if o.State == job.Ready { // those with a group have a list of their own
		var gerr error
		entries = merged(entries, q.entries(rec.ID, record.ListGrouped, after, o.Reverse, &gerr), o.Reverse)
		defer func() { err = errors.Join(err, gerr) }()
	}
	// Keys are passed over without being kept, because a page far behind may be a million entries
	// away.
	skip := o.Skip
	for entry := range entries {
		if skip > 0 {
			skip--
			continue
		}
		out = append(out, listed{bytes.Clone(entry), record.EntryID(entry)})
		if len(out) == o.Limit {
			break
		}
	}
	return out, err
}

// entries iterates over the entries of a list behind a position, without the list's own
// prefix. Each is valid until the next. What ends it early goes into err.
func (q Query) entries(id record.QueueID, list record.List, after []byte, reverse bool, err *error) iter.Seq[[]byte] {
	lo, hi := record.ListStart(nil, id, list), record.ListEnd(nil, id, list)
	prefix := len(lo)
	if len(after) > 0 {
		// The bounds exclude the entry that the cursor names.
		if reverse {
			hi = append(lo[:prefix:prefix], after...)
		} else {
			lo = append(append(lo[:prefix:prefix], after...), 0)
		}
	}
	return func(yield func([]byte) bool) {
		visit := func(key, _ []byte) bool { return yield(key[prefix:]) }
		*err = q.r.Scan(store.Range{Lo: lo, Hi: hi, Reverse: reverse}, visit)
	}
}

// merged iterates over two sorted sequences as one. Only the second is pulled, so that one of the
// two scans runs on the caller's stack.
func merged(a, b iter.Seq[[]byte], reverse bool) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		next, stop := iter.Pull(b)
		defer stop()
		head, more := next()
		for entry := range a {
			for more && (bytes.Compare(head, entry) < 0) != reverse {
				if !yield(head) {
					return
				}
				head, more = next()
			}
			if !yield(entry) {
				return
			}
		}
		for ; more; head, more = next() {
			if !yield(head) {
				return
			}
		}
	}
}

// ReadyAbove returns how many ready jobs of a queue, which Queue or EachQueue have told, have a
// priority above one. It looks at the first jobs only, at most limit of them, and returns at how
// many it has looked. The priority is in the key: no job is read.
func (q Query) ReadyAbove(info *job.QueueInfo, priority int64, limit int) (n uint64, looked int, err error) {
	if info.Counts[job.Ready] == 0 {
		return 0, 0, nil
	}
	rec, ok, err := q.record(info.Namespace, info.Name)
	if err != nil || !ok {
		return 0, 0, err
	}
	// The limit is one for both lists together.
	for _, list := range []record.List{record.ListReady, record.ListGrouped} {
		for entry := range q.entries(rec.ID, list, nil, false, &err) {
			if looked == limit {
				break
			}
			looked++
			if record.EntryPriority(entry) > priority {
				n++
			}
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return n, looked, nil
}
