package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"millrace/internal/job"
)

// kind says what an entry does. The numbers are part of the encoded form.
type kind uint8

const (
	// kindBegin begins a term: its node writes from here on.
	kindBegin kind = 1
	// kindBatch is a batch of changes, or a part of one.
	kindBatch kind = 2
)

// entry is one entry of the log.
type entry struct {
	kind kind
	term uint64
	seq  uint64 // of the batch; of kindBegin: of the last one before
	// chain is of all batches up to that one; see chained.
	chain uint64

	node string // of kindBegin: who leads

	// What follows is of kindBatch.
	time  job.Time // when it was sealed
	part  uint32   // counted from zero
	parts uint32
	data  []byte // an encoded store.Batch, or a part of it
}

// entryVersion is the version of the encoded form: version, kind, a checksum of what follows (4 bytes), term, seq,
// chain, and then the name of the node, or time, part, parts and the data.
const (
	entryVersion = 1
	entryStart   = 6
	beginSize    = entryStart + 3*8
	batchSize    = beginSize + 2*8
)

var errEntry = errors.New("malformed entry of the replicated log")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the entry in a slice of its own, because the log keeps it.
func (e *entry) encode() []byte {
	p := make([]byte, 0, batchSize+len(e.data)+len(e.node))
	p = append(p, entryVersion, byte(e.kind), 0, 0, 0, 0)
	for _, n := range []uint64{e.term, e.seq, e.chain} {
		p = binary.BigEndian.AppendUint64(p, n)
	}
	switch e.kind {
	case kindBegin:
		p = append(p, e.node...)
	case kindBatch:
		p = binary.BigEndian.AppendUint64(p, uint64(e.time)) //nolint:gosec // goes back the same way
		p = binary.BigEndian.AppendUint32(p, e.part)
		p = binary.BigEndian.AppendUint32(p, e.parts)
		p = append(p, e.data...)
	}
	binary.BigEndian.PutUint32(p[2:], crc32.Checksum(p[entryStart:], castagnoli))
	return p
}

// decode reads an entry. Its data points into p.
func decode(p []byte) (e entry, err error) {
	if len(p) < beginSize {
		return e, fmt.Errorf("%w: %d bytes", errEntry, len(p))
	}
	if p[0] != entryVersion {
		return e, fmt.Errorf("%w: version %d, and this release knows %d: run the newer release", errEntry, p[0],
			entryVersion)
	}
	if binary.BigEndian.Uint32(p[2:]) != crc32.Checksum(p[entryStart:], castagnoli) {
		return e, fmt.Errorf("%w: its checksum is wrong", errEntry)
	}
	fields := p[entryStart:]
	e.kind, e.term = kind(p[1]), binary.BigEndian.Uint64(fields)
	e.seq, e.chain = binary.BigEndian.Uint64(fields[8:]), binary.BigEndian.Uint64(fields[16:])
	switch {
	case e.kind == kindBegin:
		e.node = string(p[beginSize:])
	case e.kind == kindBatch && len(p) >= batchSize:
		e.time = job.Time(binary.BigEndian.Uint64(fields[24:])) //nolint:gosec // comes from encode
		e.part, e.parts = binary.BigEndian.Uint32(fields[32:]), binary.BigEndian.Uint32(fields[36:])
		e.data = p[batchSize:]
	default:
		return e, fmt.Errorf("%w: kind %d of %d bytes", errEntry, e.kind, len(p))
	}
	return e, nil
}

// chained returns the chain behind one more part of a batch: two nodes whose chains are the same have applied the same.
func chained(chain uint64, data []byte) uint64 {
	var p [12]byte
	binary.BigEndian.PutUint64(p[:], chain)
	binary.BigEndian.PutUint32(p[8:], crc32.Checksum(data, castagnoli))
	// Two checksums of different polynomials make the 64 bits.
	return uint64(crc32.Checksum(p[:], castagnoli))<<32 | uint64(crc32.ChecksumIEEE(p[:]))
}
