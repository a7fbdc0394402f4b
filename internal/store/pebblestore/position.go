package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/store"
)

// position says how the state and the log go together. It is written with every batch that Pebble
// applies, and so is exact at any moment.
type position struct {
	applied uint64 // the last record of the log that the state has
	safe    uint64 // the last one up to applied that was on stable storage in the log then
	log     uint64 // the identity of the log, or logElsewhere
	// state is what goes with applied; see Store.Apply. Nil: nothing
	state []byte
}

// logElsewhere is the identity of a log that is not in the directory: that of a cluster.
const logElsewhere = 0

// positionKey is the key of our own in the database, and journalKey the one that earlier formats had. Readers do not
// see them. They come behind all others, because every table that is flushed has the position: in front of them it
// would make each overlap all before it.
var (
	positionKey = []byte("\xffposition")
	journalKey  = []byte("\xffjournal")
)

// isOwnKey reports whether a key is one of ours. The first byte decides nearly always.
func isOwnKey(key []byte) bool {
	return len(key) > 0 && key[0] == 0xff && (string(key) == string(positionKey) || string(key) == string(journalKey))
}

var errNoPosition = fmt.Errorf("%w: the database does not say what it has of the log", store.ErrCorrupt)

const (
	positionVersion = 1
	positionSize    = 1 + 3*8
)

// setIn adds the position to a batch of changes.
func (p position) setIn(pb *pebble.Batch) error {
	value := make([]byte, 0, positionSize+len(p.state))
	value = append(value, positionVersion)
	for _, n := range []uint64{p.applied, p.safe, p.log} {
		value = binary.BigEndian.AppendUint64(value, n)
	}
	return pb.Set(positionKey, append(value, p.state...), nil)
}

// readPosition returns the position of the database: of all that it has, or, if durable, of what it
// has on stable storage.
func readPosition(db *pebble.DB, durable bool) (p position, there bool, err error) {
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: positionKey, UpperBound: append(slices.Clip(positionKey), 0), OnlyReadGuaranteedDurable: durable,
	})
	if err != nil {
		return p, false, err
	}
	var value []byte
	if it.First() {
		there = true
		value, err = it.ValueAndErr()
	}
	if there && err == nil && (len(value) < positionSize || value[0] != positionVersion) {
		err = errNoPosition
	}
	if there && err == nil {
		p.applied, p.safe = binary.BigEndian.Uint64(value[1:]), binary.BigEndian.Uint64(value[9:])
		p.log = binary.BigEndian.Uint64(value[17:])
		p.state = bytes.Clone(value[positionSize:])
	}
	return p, there, errors.Join(err, it.Close())
}
