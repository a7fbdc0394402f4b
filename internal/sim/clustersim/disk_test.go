package clustersim

import (
	"bytes"
	"errors"
	"hash/crc64"

	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// version is a store at one moment.
type version struct {
	data    *memstore.Store
	index   uint64
	state   []byte
	history uint64 // of all changes, in their order
}

// disk is the store of a node. A crash leaves any of its versions since it was last synced, and never a part of one.
type disk struct {
	*memstore.Store // the last version

	versions []version // the first is on stable storage
	fault    *fault
}

var errReplicated = errors.New("only entries change the store of a replica")

func newDisk(f *fault) *disk {
	d := &disk{fault: f}
	d.put(version{data: memstore.New()})
	return d
}

// put makes a version the only one.
func (d *disk) put(v version) {
	d.Store, d.versions = v.data.Fork(), []version{v}
}

func (d *disk) last() *version { return &d.versions[len(d.versions)-1] }

// Commit implements store.Store.
func (d *disk) Commit(_ *store.Batch, done func(error)) { done(errReplicated) }

// Apply implements replica.Store.
func (d *disk) Apply(b *store.Batch, index uint64, state []byte) error {
	v := *d.last()
	if b.Len() > 0 {
		if err := store.CommitNow(d.Store, b); err != nil {
			return err
		}
		v.data, v.history = d.Fork(), withBatch(v.history, b)
	}
	if d.fault.splitsWrites {
		d.versions = append(d.versions, v)
	}
	v.index, v.state = index, bytes.Clone(state)
	d.versions = append(d.versions, v)
	return nil
}

// Applied implements replica.Store.
func (d *disk) Applied() (index uint64, state []byte) { return d.last().index, d.last().state }

// sync has all of it kept.
func (d *disk) sync() { d.versions = d.versions[len(d.versions)-1:] }

// durable is the last entry that no crash can take.
func (d *disk) durable() uint64 { return d.versions[0].index }

var polynomial = crc64.MakeTable(crc64.ECMA)

// withBatch returns the history behind one more batch.
func withBatch(history uint64, b *store.Batch) uint64 {
	b.Each(func(op store.Op, key, value []byte) bool {
		history = crc64.Update(history, polynomial, []byte{byte(op), byte(len(key)), byte(len(key) >> 8)})
		history = crc64.Update(history, polynomial, key)
		history = crc64.Update(history, polynomial, value)
		return true
	})
	return history
}

// sameContent reports whether two stores have the same keys and values.
func sameContent(a, b store.Reader) bool {
	type pair struct{ key, value []byte }
	var all []pair
	_ = a.Scan(store.Range{}, func(key, value []byte) bool {
		all = append(all, pair{bytes.Clone(key), bytes.Clone(value)})
		return true
	})
	same, n := true, 0
	_ = b.Scan(store.Range{}, func(key, value []byte) bool {
		same = n < len(all) && bytes.Equal(all[n].key, key) && bytes.Equal(all[n].value, value)
		n++
		return same
	})
	return same && n == len(all)
}
