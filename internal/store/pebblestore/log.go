package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"millrace/internal/store"
)

// The log and the manifest as Pebble writes them: blocks with chunks in them, none of which crosses a block. A chunk is
// a checksum (4 bytes) of what comes behind the length, the length of its content (2), its kind (1), in a log
// the number of the log (4), with newer kinds up to where the log had been synced when it was written (8), and
// content. What is left of a block and too small for a newer chunk is zero.
const (
	logBlockSize           = 32 << 10
	logSectorSize          = 512 // what a disk writes whole or not at all
	manifestHeaderSize     = 7
	logHeaderSize          = 11 // of the older kinds, which the first log of a new directory has
	logSyncHeaderSize      = 19
	manifestKindFull       = 1
	manifestKindFirst      = 2
	manifestKindMax        = 4
	logKindMin             = 5
	logKindSyncMin         = 9
	logKindMax             = 12
	chunkLength, chunkKind = 4, 6 // where they are
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verifyLogs looks for damage that Open takes for the end of a log: a chunk that is
// broken although one behind it tells that it had been synced, or broken by one bit as no
// crash does it. Open itself finds only what newer chunks of a later block tell.
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
		if _, err := verifyChunks(fsys, fsys.PathJoin(dir, name), logFile(uint32(n))); err != nil { //nolint:gosec // chunks have the low half
			return err
		}
	}
	return nil
}

// verifyManifest does the same for the manifest in use, the list of the tables: Open takes whatever
// damage for its end, and all tables that came later for not being there. Which one is in use is told by the name of a
// marker. A newer one than that was begun when the server ended, and then has a record of how things stood and
// one more, or the marker is wrong.
func verifyManifest(fsys vfs.FS, dir string) error {
	current, err := atomicfs.ReadMarker(fsys, dir, "manifest")
	if err != nil || current == "" {
		return nil //nolint:nilerr // Open has an error of its own for this
	}
	if _, err := verifyChunks(fsys, fsys.PathJoin(dir, current), manifestFile{}); err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "MANIFEST-") || len(name) != len(current) || name <= current {
			continue
		}
		records, err := verifyChunks(fsys, fsys.PathJoin(dir, name), manifestFile{})
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			return err
		case err == nil && records > 2:
			return fmt.Errorf("%w: %s is named as the list of tables, but %s was in use after it", store.ErrCorrupt, current, name)
		}
	}
	return nil
}

// verifyChunks verifies a file and returns, of a manifest, how many records it has.
func verifyChunks(fsys vfs.FS, path string, kind chunkedFile) (records int, err error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return 0, fmt.Errorf("verify %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, logBlockSize)
	v := verifier{file: kind, broken: -1}
	for start := int64(0); ; start += logBlockSize {
		n, err := io.ReadFull(f, block)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		if err == nil {
			err = v.block(block[:n], start)
		}
		if err != nil {
			return v.records, fmt.Errorf("verify %s: %w", path, err)
		}
		if n < logBlockSize {
			return v.records, nil
		}
	}
}

// chunkedFile is a kind of file that consists of chunks.
type chunkedFile interface {
	// header returns the size of the smallest header.
	header() int
	// extent returns how long the chunk is that b begins with, judged by its header alone: zero if that is none of this file, or
	// it does not fit.
	extent(b []byte) int
	// next returns how far into b a chunk may begin, judged by what is the same in all of them.
	next(b []byte) int
	// reused tells that the file may hold what it did when it had another name.
	reused() bool
	// synced returns up to where such a chunk says that the file had been synced: negative if it does not say.
	synced(b []byte) int64
}

// verifier walks the chunks of one file.
type verifier struct {
	file    chunkedFile
	records int   // of a manifest, that begin with a whole chunk
	broken  int64 // where the first chunk that is not whole begins; negative: none
	// hole tells that there is nothing at all where that chunk should be: writes that no sync had asked for yet
	// may reach the disk in any order, and a crash then leaves one.
	hole bool
}

// block walks a block. Behind a broken chunk it looks for whole ones wherever they may begin.
func (v *verifier) block(block []byte, start int64) error {
	for at := 0; at+v.file.header() <= len(block); {
		rest := block[at:]
		whole := v.whole(rest)
		switch {
		case !whole && v.broken < 0:
			hole := isZero(rest[:v.file.header()])
			if hole && len(rest) < logSyncHeaderSize && isZero(rest) {
				return nil // no chunk has had room here
			}
			v.broken, v.hole = start+int64(at), hole
			if v.flipped(rest) {
				return fmt.Errorf("%w: one bit of the record at byte %d is wrong", store.ErrCorrupt, v.broken)
			}
			at += 1 + v.file.next(rest[1:])
		case !whole:
			at += 1 + v.file.next(rest[1:])
		case v.broken >= 0 && (v.file.synced(rest) > v.broken || v.file.synced(rest) < 0 && !v.hole):
			return fmt.Errorf("%w: the record at byte %d does not match its checksum, and later ones do", store.ErrCorrupt, v.broken)
		default:
			if v.file.synced(rest) == math.MaxInt64 {
				v.records++
			}
			at += v.file.extent(rest)
		}
	}
	return nil
}

func isZero(p []byte) bool {
	return !slices.ContainsFunc(p, func(b byte) bool { return b != 0 })
}

// whole reports whether b begins with a chunk that matches its checksum.
func (v *verifier) whole(b []byte) bool {
	size := v.file.extent(b)
	return size > 0 && binary.LittleEndian.Uint32(b) == masked(crc32.Checksum(b[chunkKind:size], castagnoli))
}

// A checksum is stored rotated and moved, so that one of data with checksums in it is no weaker.
func masked(sum uint32) uint32 { return bits.RotateLeft32(sum, 17) + maskDelta }

func unmasked(sum uint32) uint32 { return bits.RotateLeft32(sum-maskDelta, -17) }

const maskDelta = 0xa282ead8

// flipped reports whether the broken chunk that b begins with has one wrong bit, which no crash leaves: that tears a chunk
// where a sector ends, and puts what the file held before behind that. By chance the two look the same once in 2^32 for each bit.
func (v *verifier) flipped(b []byte) bool {
	at, size := v.wrongBit(b)
	if size == 0 {
		return false
	}
	sector := int(-v.broken & (logSectorSize - 1)) // the first that begins in the chunk
	if sector == 0 {
		sector = logSectorSize
	}
	if at < sector {
		return true
	}
	sector += (at - sector) &^ (logSectorSize - 1) // the one that the bit is in
	return !v.file.reused() && !isZero(b[sector:size])
}

// wrongBit looks for a bit with which a broken chunk would be whole if it were another. It returns its byte and
// the size of that chunk, which is zero if there is none.
func (v *verifier) wrongBit(b []byte) (at, size int) {
	for i := range min(logHeaderSize, len(b)) * 8 {
		b[i/8] ^= 1 << (i % 8)
		whole, size := v.whole(b), v.file.extent(b)
		b[i/8] ^= 1 << (i % 8)
		if whole {
			return i / 8, size
		}
	}
	size = v.file.extent(b)
	if size == 0 {
		return 0, 0
	}
	if at := wrongByte(b[chunkKind:size], unmasked(binary.LittleEndian.Uint32(b))); at >= 0 {
		return chunkKind + at, size
	}
	return 0, 0
}

// logFile is a log by its number.
type logFile uint32

func (logFile) header() int { return logHeaderSize }

func (logFile) reused() bool { return true }

func (l logFile) extent(b []byte) int {
	kind := b[chunkKind]
	if kind < logKindMin || kind > logKindMax || binary.LittleEndian.Uint32(b[chunkKind+1:]) != uint32(l) {
		return 0
	}
	size := int(binary.LittleEndian.Uint16(b[chunkLength:])) + logHeaderSize
	if kind >= logKindSyncMin {
		size += logSyncHeaderSize - logHeaderSize
	}
	if size > len(b) {
		return 0
	}
	return size
}

func (l logFile) next(b []byte) int {
	if len(b) < logHeaderSize {
		return len(b)
	}
	at := bytes.Index(b[chunkKind+1:], binary.LittleEndian.AppendUint32(nil, uint32(l)))
	if at < 0 {
		return len(b)
	}
	return at
}

func (logFile) synced(b []byte) int64 {
	if b[chunkKind] < logKindSyncMin {
		return -1
	}
	return int64(binary.LittleEndian.Uint64(b[logHeaderSize:]) &^ (1 << 63)) //nolint:gosec // the sign is taken off
}

// manifestFile is a manifest.
type manifestFile struct{}

func (manifestFile) header() int { return manifestHeaderSize }

func (manifestFile) reused() bool { return false }

func (manifestFile) extent(b []byte) int {
	size := int(binary.LittleEndian.Uint16(b[chunkLength:])) + manifestHeaderSize
	if kind := b[chunkKind]; kind < manifestKindFull || kind > manifestKindMax || size > len(b) {
		return 0
	}
	return size
}

func (manifestFile) next([]byte) int { return 0 }

// A record is written when all before it is synced, so that its first chunk tells of them.
func (manifestFile) synced(b []byte) int64 {
	if kind := b[chunkKind]; kind == manifestKindFull || kind == manifestKindFirst {
		return math.MaxInt64
	}
	return -1
}
