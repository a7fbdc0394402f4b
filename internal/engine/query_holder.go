package engine

import (
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// KeptHolder returns the holder that KeepHolder keeps under a name, if there is one.
func (q Query) KeptHolder(name string) (h job.KeptHolder, ok bool, err error) {
	key := record.HolderKey(nil, name)
	value, ok, err := q.r.Get(nil, key)
	if err != nil || !ok {
		return h, false, err
	}
	h, err = record.DecodeHolder(key, value)
	return h, err == nil, err
}

// KeptHolders returns all of them in order of their names.
func (q Query) KeptHolders() (all []job.KeptHolder, err error) {
	lo, hi := record.AllHolders()
	serr := q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		var h job.KeptHolder
		if h, err = record.DecodeHolder(key, value); err == nil {
			all = append(all, h)
		}
		return err == nil
	})
	if serr != nil {
		return nil, serr
	}
	return all, err
}

// KeptHolder returns the holder that is kept under a name; see Query.KeptHolder.
func (e *Engine) KeptHolder(name string) (h job.KeptHolder, ok bool, err error) {
	err = e.Read(func(q *View) error {
		h, ok, err = q.KeptHolder(name)
		return err
	})
	return h, ok, err
}
