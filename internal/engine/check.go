package engine

import (
	"fmt"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// progressEvery is after how many records a check tells how far it is.
const progressEvery = 1 << 14

// CheckRecords reads everything that is stored and returns how many records there are,
// and the first that cannot be decoded as an error of the kind store.ErrCorrupt. Progress
// is told now and then how many have been read; it may be nil.
func CheckRecords(r store.Reader, progress func(records uint64)) (uint64, error) {
	c := counted{progress: progress}
	var bad error
	err := r.Scan(store.Range{}, func(key, value []byte) bool {
		c.count()
		bad = record.Verify(key, value)
		return bad == nil
	})
	if err == nil && bad != nil {
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, bad)
	}
	return c.records, err
}

// CheckInvariants opens a machine on the store and returns the first invariant of
// docs/semantics.md that does not hold, as an error of the kind store.ErrCorrupt. The store is
// only read: what a restart would change stays in memory. No engine may run on it.
// Progress is as with CheckRecords; a record may be read more than once.
func CheckInvariants(s store.Store, now job.Time, progress func(records uint64)) (err error) {
	// What does not fit stops the machine, as it would stop the engine.
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *StoreError:
			err = p
		case *machine.CorruptError:
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, p)
		default:
			err = fmt.Errorf("%w: the machine cannot go on: %v", store.ErrCorrupt, p)
		}
	}()
	core, err := OpenCore(&counted{Store: s, progress: progress}, now, CoreOptions{})
	if err != nil {
		return err
	}
	if err := core.Check(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return nil
}

// counted is a store that counts what is read of it, to tell how far a check is.
type counted struct {
	store.Store
	records  uint64
	progress func(records uint64)
}

func (c *counted) count() {
	if c.records++; c.records%progressEvery == 0 && c.progress != nil {
		c.progress(c.records)
	}
}

func (c *counted) Scan(r store.Range, visit func(key, value []byte) bool) error {
	return c.Store.Scan(r, func(key, value []byte) bool {
		c.count()
		return visit(key, value)
	})
}
