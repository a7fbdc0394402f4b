package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/store"
)

// The log as Pebble writes it: blocks with chunks in them, none of which crosses a block. A chunk is
// a checksum (4 bytes) of what comes behind the length, the length of its content (2), its kind (1),
// the number of the log (4), with newer kinds up to where the log had been synced when it was written (8), and
// content. What is left of a block and too small for a newer chunk is zero.
const (
	logBlockSize      = 32 << 10
	logHeaderSize     = 11 // of the older kinds, which the first log of a new directory has
	logSyncHeaderSize = 19
	logKindMin        = 5
	logKindSyncMin    = 9
	logKindMax        = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verifyLogs looks for damage that Open takes for the end of a log: a chunk that is
// broken although one behind it tells that it had been synced. Open itself finds only what newer chunks of
// a later block tell.
func verifyLogs(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		number, isLog := strings.CutSuffix(name, ".log")
		n, err := strconv.ParseUint(number, 10, 64)
		if !isLog || err != nil {
			continue
		}
		path := fsys.PathJoin(dir, name)
		if err := verifyLog(fsys, path, uint32(n)); err != nil { //nolint:gosec // chunks have the low half
			return fmt.Errorf("verify %s: %w", path, err)
		}
	}
	return nil
}

func verifyLog(fsys vfs.FS, path string, number uint32) (err error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, logBlockSize)
	v := logVerifier{number: number, broken: -1}
	for start := int64(0); ; start += logBlockSize {
		n, err := io.ReadFull(f, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if err := v.block(block[:n], start); err != nil {
			return err
		}
		if n < logBlockSize {
			return nil
		}
	}
}

// logVerifier walks the chunks of one log.
type logVerifier struct {
	number uint32
	broken int64 // where the first chunk that is not whole begins; negative: none
	// hole tells that there is nothing at all where that chunk should be: writes that no sync had asked for yet
	// may reach the disk in any order, and a crash then leaves one.
	hole bool
}

// block walks a block. Behind a broken chunk it looks for whole ones at every byte.
func (v *logVerifier) block(block []byte, start int64) error {
	for at := 0; at+logHeaderSize <= len(block); {
		rest := block[at:]
		size, synced, ok := logChunk(rest, v.number)
		switch {
		case !ok && v.broken < 0:
			hole := isZero(rest[:logHeaderSize])
			if hole && len(rest) < logSyncHeaderSize && isZero(rest) {
				return nil // no chunk has had room here
			}
			v.broken, v.hole = start+int64(at), hole
			at++
		case !ok:
			at++
		case v.broken >= 0 && (synced > v.broken || synced < 0 && !v.hole):
			return fmt.Errorf("%w: the record at byte %d does not match its checksum, and later ones do", store.ErrCorrupt, v.broken)
		default:
			at += size
		}
	}
	return nil
}

func isZero(p []byte) bool {
	return !slices.ContainsFunc(p, func(b byte) bool { return b != 0 })
}

// logChunk reports whether b begins with a whole chunk of the log, how long that is, and
// up to where it says that the log had been synced: negative if it does not say.
func logChunk(b []byte, number uint32) (size int, synced int64, ok bool) {
	kind := b[6]
	if kind < logKindMin || kind > logKindMax || binary.LittleEndian.Uint32(b[7:]) != number {
		return 0, 0, false
	}
	size = int(binary.LittleEndian.Uint16(b[4:])) + logHeaderSize
	if kind >= logKindSyncMin {
		size += logSyncHeaderSize - logHeaderSize
	}
	if size > len(b) {
		return 0, 0, false
	}
	// The checksum is stored rotated and moved, so that one of data with checksums in it is no weaker.
	sum := crc32.Checksum(b[6:size], castagnoli)
	if sum = (sum>>15 | sum<<17) + 0xa282ead8; binary.LittleEndian.Uint32(b) != sum {
		return 0, 0, false
	}
	if kind < logKindSyncMin {
		return size, -1, true
	}
	return size, int64(binary.LittleEndian.Uint64(b[logHeaderSize:]) &^ (1 << 63)), true //nolint:gosec // the sign is taken off
}
