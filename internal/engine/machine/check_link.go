package machine

import (
	"bytes"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// checkNames asserts that queues and their numbers lead to each other.
func (c *checker) checkNames() error {
	for _, q := range c.byID {
		if _, _, ok := c.store.Get(nil, record.QueueNameKey(nil, q.ID)); !ok {
			return broken(9, "queue %q is not found under its number", q.name)
		}
	}
	var err error
	c.eachIn(record.QueueNameKey(nil, 0), func(key, value []byte) bool {
		namespace, name, ok := record.ParseQueueKey(value)
		if q := c.findQueue(namespace, name); !ok || q == nil || !bytes.Equal(key, record.QueueNameKey(nil, q.ID)) {
			err = broken(9, "entry %x leads to no queue of that number", key)
		}
		return err == nil
	})
	return err
}

// size returns how many records there are in the space that a key is in.
func (c *checker) size(key []byte) int { return c.sizeOf(key[:1], []byte{key[0] + 1}) }

// sizeOf returns how many records there are in a range.
func (c *checker) sizeOf(lo, hi []byte) (n int) {
	c.store.Scan(lo, hi, false, func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}

// eachIn visits all records of the space that a key is in.
func (c *checker) eachIn(key []byte, visit func(key, value []byte) bool) {
	c.store.Scan(key[:1], []byte{key[0] + 1}, false, visit)
}

// link is a kind of entries that lead to jobs. checkJob counts for each kind how many entries jobs
// should have; checkLinks compares that with how many there are.
type link struct {
	spaces [][]byte           // a key in each of the spaces they are in
	count  func(e *entry) int // how many a job has, each of which is looked up with it
	job    func(key, value []byte) (record.JobRef, error)
	fits   func(e *entry, key []byte) bool // reports whether the job has what it is listed under
}

// links are the kinds of entries: client-given keys, 32-bit numbers, fingerprints, and dependants
// under their blockers. Serials belong to one queue, and are checked with it.
var links = []link{
	{
		[][]byte{record.KeyKey(nil, "", ""), record.MoreKey(nil, "", "", 0)},
		func(e *entry) int { return one(mustHaveKey(e)) },
		func(key, value []byte) (record.JobRef, error) {
			if record.IsKeyKey(key) {
				r, err := record.DecodeKeyRef(value)
				return r.JobRef, err
			}
			q, err := record.DecodeUint(value)
			return record.JobRef{Queue: record.QueueID(q), ID: record.EntryID(key)}, err
		},
		func(e *entry, key []byte) bool {
			return mustHaveKey(e) && (bytes.Equal(key, record.KeyKey(nil, e.q.namespace, e.Key)) ||
				bytes.Equal(key, record.MoreKey(nil, e.q.namespace, e.Key, e.ID)))
		},
	},
	{
		[][]byte{record.NumberKey(nil, 0)},
		func(e *entry) int { return one(e.Flags.Has(job.FlagNumbered)) },
		func(_, value []byte) (record.JobRef, error) { return record.DecodeRef(value) },
		func(e *entry, key []byte) bool {
			return e.Flags.Has(job.FlagNumbered) && bytes.Equal(key, record.NumberKey(nil, e.ID.Number()))
		},
	},
	{
		[][]byte{record.AlikeKey(nil, 0, job.Digest{}, 0)},
		func(e *entry) int { return one(e.Fingerprint != job.Digest{}) },
		func(key, _ []byte) (record.JobRef, error) {
			q, _, id, ok := record.ParseAlikeKey(key)
			return reference(q, id, ok)
		},
		func(e *entry, key []byte) bool {
			return bytes.Equal(key, record.AlikeKey(nil, e.q.ID, e.Fingerprint, e.ID))
		},
	},
	{
		[][]byte{record.DependantKey(nil, 0, 0, 0)},
		func(e *entry) int { return len(e.Blockers) },
		func(key, _ []byte) (record.JobRef, error) {
			q, id, ok := record.ParseDependantKey(key)
			return reference(q, id, ok)
		},
		func(e *entry, key []byte) bool {
			return slices.ContainsFunc(e.Blockers, func(b job.ID) bool {
				return bytes.Equal(key, record.DependantKey(nil, b, e.q.ID, e.ID))
			})
		},
	},
}

// one counts a condition.
func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// reference makes the answer of a parser one of link.job.
func reference(q record.QueueID, id job.ID, ok bool) (record.JobRef, error) {
	if !ok {
		return record.JobRef{}, record.ErrFormat
	}
	return record.JobRef{Queue: q, ID: id}, nil
}

// checkLinks looks for entries that lead to a job which is not there or does not have
// what it is listed under (INV-9), unless there are as many as jobs have.
func (c *checker) checkLinks() error {
	for i, l := range links {
		n := 0
		for _, space := range l.spaces {
			n += c.size(space)
		}
		if n == c.linked[i] {
			continue
		}
		for _, space := range l.spaces {
			if err := c.checkLink(l, space); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLink looks at all entries of one key space. An entry may lead to nothing only while a sweep
// is on its way to it.
func (c *checker) checkLink(l link, space []byte) (err error) {
	c.eachIn(space, func(key, value []byte) bool {
		ref, derr := l.job(key, value)
		corrupt("entry", derr)
		if e := c.loadRef(ref); (e == nil && !c.swept(ref.Queue)) || (e != nil && !l.fits(e, key)) {
			err = broken(9, "entry %x leads to job %d, which is not there or does not have it", key, ref.ID)
		}
		return err == nil
	})
	return err
}

// swept reports whether jobs of a queue that have been purged are still being cleaned up.
func (c *checker) swept(q record.QueueID) bool {
	return slices.ContainsFunc(c.sweeps, func(s *sweep) bool { return s.id == q })
}

// checkSerials looks for serials that lead to no job that has them, unless there are as
// many as jobs have.
func (c *checker) checkSerials(q *queue, serials int) (err error) {
	lo, hi := record.SerialKey(nil, q.ID, 0), record.SerialKey(nil, q.ID+1, 0)
	if c.sizeOf(lo, hi) == serials {
		return nil
	}
	c.store.Scan(lo, hi, false, func(key, value []byte) bool {
		id, derr := record.DecodeUint(value)
		corrupt("serial", derr)
		e := c.loadJob(q, job.ID(id))
		if (e == nil && q.sweep == nil) || (e != nil && !bytes.Equal(key, record.SerialKey(nil, q.ID, e.Serial))) {
			err = broken(9, "serial %x leads to job %d, which is not there or does not have it", key, id)
		}
		return err == nil
	})
	return err
}
