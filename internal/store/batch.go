package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Op says what one entry of a Batch does.
type Op uint8

// The operations of a batch. The numbers are part of the encoded form.
const (
	// OpSet gives key a value.
	OpSet Op = 1
	// OpDelete removes key, if it is there.
	OpDelete Op = 2
	// OpDeleteRange removes the keys from lo up to but excluding hi.
	OpDeleteRange Op = 3
	// OpVoidSet and OpVoidDelete have no effect: what Void makes of the other two.
	OpVoidSet    Op = 4
	OpVoidDelete Op = 5
	// OpRemove removes a key that has been set exactly once since it was last
	// removed or deleted.
	OpRemove Op = 6
	// OpInsert gives a value to a key that is not there.
	OpInsert Op = 7
)

// batchVersion is the version of the encoded form of a Batch:
//
//	version  1 byte
//	count    4 bytes, little-endian
//	entries  op byte, key length (uvarint), key,
//	         and unless op is a delete: value length (uvarint), value
//
// To change it: add a version, keep decoding the old one, and only then write the
// new one, because batches may wait in a log that outlives an upgrade.
const (
	batchVersion    = 1
	batchHeaderSize = 5
	batchSizeMax    = math.MaxUint32
)

var errBatchEncoding = errors.New("malformed batch")

// Batch is an ordered list of changes that take effect together or not at all; a
// later change of the same key wins. The zero value is an empty batch. Its encoded
// form is self-contained, so that it can travel through a replicated log. A batch
// has one owner at a time; reading one from several goroutines is safe.
type Batch struct {
	buf   []byte // empty, or the whole encoded form
	count uint32
	void  uint32 // how many of them Void has taken the effect from
}

// Set gives key a value. Both are copied.
func (b *Batch) Set(key, value []byte) {
	b.begin(OpSet, len(key)+len(value))
	b.appendField(key)
	b.appendField(value)
}

// Insert gives a value to a key that is not there: an Overlay that gets it knows so, and that a
// removal leaves nothing of both. Both are copied.
func (b *Batch) Insert(key, value []byte) {
	b.begin(OpInsert, len(key)+len(value))
	b.appendField(key)
	b.appendField(value)
}

// Delete removes key. The key is copied.
func (b *Batch) Delete(key []byte) {
	b.begin(OpDelete, len(key))
	b.appendField(key)
}

// Remove removes a key that has been set exactly once since it was last removed or
// deleted: unlike a deletion it leaves nothing behind once it has met that one Set. A
// key that was set twice may come back.
func (b *Batch) Remove(key []byte) {
	b.begin(OpRemove, len(key))
	b.appendField(key)
}

// DeleteRange removes the keys from lo up to but excluding hi, those set earlier in
// this batch included. Without any key between lo and hi, also when hi is not above
// lo, it removes nothing. The bounds are copied.
func (b *Batch) DeleteRange(lo, hi []byte) {
	b.begin(OpDeleteRange, len(lo)+len(hi))
	b.appendField(lo)
	b.appendField(hi)
}

// begin starts an entry. It panics at 4 GiB, where offsets end: whoever fills a
// batch bounds it long before.
func (b *Batch) begin(op Op, size int) {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, batchVersion, 0, 0, 0, 0)
	}
	more := uint64(size) + 1 + 2*binary.MaxVarintLen32 //nolint:gosec // size is a sum of lengths
	if uint64(len(b.buf))+more > batchSizeMax {
		panic("store: batch exceeds 4 GiB")
	}
	b.buf = append(b.buf, byte(op))
	b.count++
	binary.LittleEndian.PutUint32(b.buf[1:], b.count)
}

// appendEntry adds the entry of another batch that lies between two offsets, as it is.
func (b *Batch) appendEntry(from *Batch, at, end uint32) {
	b.begin(Op(from.buf[at]), int(end-at))
	b.buf = append(b.buf, from.buf[at+1:end]...)
}

func (b *Batch) appendField(p []byte) {
	b.buf = binary.AppendUvarint(b.buf, uint64(len(p)))
	b.buf = append(b.buf, p...)
}

// Len returns the number of changes, void ones included.
func (b *Batch) Len() int { return int(b.count) }

// Size returns the length of the encoded form in bytes.
func (b *Batch) Size() int { return max(len(b.buf), batchHeaderSize) }

// Reset empties the batch and keeps its memory for reuse.
func (b *Batch) Reset() {
	b.buf = b.buf[:0]
	b.count, b.void = 0, 0
}

// Bytes returns the encoded form. It shares memory with the batch and is valid
// until the batch is next changed.
func (b *Batch) Bytes() []byte {
	if len(b.buf) == 0 {
		return []byte{batchVersion, 0, 0, 0, 0}
	}
	return b.buf
}

// Offset returns where the next change will be written: the argument with which At
// will return it.
func (b *Batch) Offset() uint32 { return uint32(b.Size()) } //nolint:gosec // begin bounds the size

// First returns the offset of the first change: At walks a whole batch from there
// while the offset is below Offset.
func (b *Batch) First() uint32 { return batchHeaderSize }

// At returns the change written at offset, and the offset of the one after it. The
// slices point into the batch. An offset that did not come from Offset or At panics
// or yields nonsense.
func (b *Batch) At(offset uint32) (op Op, key, value []byte, next uint32) {
	op = Op(b.buf[offset])
	i := offset + 1
	key, i = b.field(i)
	if op.hasValue() {
		value, i = b.field(i)
	}
	return op, key, value, i
}

// KeyAt returns the key of the change written at offset.
func (b *Batch) KeyAt(offset uint32) []byte {
	_, key, _, _ := b.At(offset)
	return key
}

// Void takes the effect from the change of one key at offset: a later change of the same
// key makes it needless.
func (b *Batch) Void(offset uint32) {
	switch Op(b.buf[offset]) {
	case OpSet, OpInsert:
		b.buf[offset] = byte(OpVoidSet)
	case OpDelete, OpRemove:
		b.buf[offset] = byte(OpVoidDelete)
	case OpDeleteRange, OpVoidSet, OpVoidDelete:
		return
	}
	b.void++
}

// Effective returns the encoded form of the changes that have an effect: of the batch itself, or made in scratch,
// if Void has taken the effect from some of them.
func (b *Batch) Effective(scratch *Batch) []byte {
	if b.void == 0 {
		return b.Bytes()
	}
	scratch.Reset()
	for at := b.First(); at < b.Offset(); {
		op, _, _, next := b.At(at)
		if !op.Void() {
			scratch.appendEntry(b, at, next)
		}
		at = next
	}
	return scratch.Bytes()
}

func (op Op) hasValue() bool { return op.Sets() || op == OpDeleteRange || op == OpVoidSet }

// Sets reports whether an operation gives a key a value.
func (op Op) Sets() bool { return op == OpSet || op == OpInsert }

// Void reports whether an operation has no effect.
func (op Op) Void() bool { return op == OpVoidSet || op == OpVoidDelete }

func (b *Batch) field(i uint32) ([]byte, uint32) {
	n := uint32(b.buf[i])
	i++
	if n >= 0x80 {
		long, width := binary.Uvarint(b.buf[i-1:])
		n = uint32(long)       //nolint:gosec // begin and DecodeBatch bound every length
		i += uint32(width) - 1 //nolint:gosec // begin and DecodeBatch leave no broken uvarint: width is 2 to 10
	}
	return b.buf[i : i+n : i+n], i + n
}

// Each calls visit for every change that has an effect, in order, until visit returns false. For
// OpDeleteRange, key is the lower and value the upper bound. The slices point into
// the batch.
func (b *Batch) Each(visit func(op Op, key, value []byte) bool) {
	for i := uint32(batchHeaderSize); int(i) < len(b.buf); {
		op, key, value, next := b.At(i)
		if !op.Void() && !visit(op, key, value) {
			return
		}
		i = next
	}
}

// DecodeBatch reads the encoded form of a batch and checks all of it, so that the
// result can be used without further checks. The batch takes over p: the caller
// must not change it afterwards.
func DecodeBatch(p []byte) (Batch, error) {
	if len(p) < batchHeaderSize {
		return Batch{}, fmt.Errorf("decode batch: %w: %d bytes are less than a header", errBatchEncoding, len(p))
	}
	if p[0] != batchVersion {
		return Batch{}, fmt.Errorf("decode batch: %w: version %d, want %d", errBatchEncoding, p[0], batchVersion)
	}
	if uint64(len(p)) > batchSizeMax {
		return Batch{}, fmt.Errorf("decode batch: %w: %d bytes are more than 4 GiB", errBatchEncoding, len(p))
	}
	want := binary.LittleEndian.Uint32(p[1:])
	var count uint32
	for i := batchHeaderSize; i < len(p); count++ {
		next, ok := checkEntry(p, i)
		if !ok {
			return Batch{}, fmt.Errorf("decode batch: %w: entry %d at byte %d", errBatchEncoding, count, i)
		}
		i = next
	}
	if count != want {
		return Batch{}, fmt.Errorf("decode batch: %w: %d entries, header says %d", errBatchEncoding, count, want)
	}
	return Batch{buf: slices.Clip(p), count: count}, nil
}

// checkEntry returns where the entry after the one at i begins.
func checkEntry(p []byte, i int) (next int, ok bool) {
	op := Op(p[i])
	if op < OpSet || op > OpInsert {
		return 0, false
	}
	fields := 2
	if !op.hasValue() {
		fields = 1
	}
	i++
	for range fields {
		n, width := binary.Uvarint(p[i:])
		if width <= 0 || n > uint64(len(p)-i-width) { //nolint:gosec // never negative: width is within p[i:]
			return 0, false
		}
		i += width + int(n) //nolint:gosec // n is below len(p)
	}
	return i, true
}
