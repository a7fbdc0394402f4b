package machine

import "millrace/internal/record"

// keyName is a client-given key of a namespace.
type keyName struct{ namespace, key string }

// keyCache holds entries of client-given keys that were read or written lately: whoever
// settles a job by its key mostly does so soon after its push. The machine alone writes
// them, so what is here is what the store has (INV-12). There are two generations: when the
// young one is full it becomes the old one, and what was old is forgotten.
type keyCache struct {
	young, old map[keyName]record.KeyRef
	limit      int // of each
}

func newKeyCache(limit int) keyCache {
	return keyCache{young: map[keyName]record.KeyRef{}, old: map[keyName]record.KeyRef{}, limit: limit}
}

// get returns an entry. It does not make an old one young: a key that is settled is mostly gone
// then.
func (c *keyCache) get(k keyName) (r record.KeyRef, ok bool) {
	if r, ok = c.young[k]; !ok {
		r, ok = c.old[k]
	}
	return r, ok
}

// put enters or changes an entry.
func (c *keyCache) put(k keyName, r record.KeyRef) {
	if len(c.young) >= c.limit {
		clear(c.old)
		c.young, c.old = c.old, c.young
	}
	c.young[k] = r // hides what the old one has
}

// drop removes an entry from both generations, or the old one would show again.
func (c *keyCache) drop(k keyName) {
	delete(c.young, k)
	delete(c.old, k)
}
