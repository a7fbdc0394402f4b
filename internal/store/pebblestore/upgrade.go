package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/plant"
	"millrace/internal/store"
)

// Formats 2 and 3 had two files in which batches waited for Pebble, which had a log of its own beside them. A record of
// these files is a checksum of what follows (4 bytes), the length of its content (4), its number with the secret of the
// directory mixed in (8) and a batch, and begins at a multiple of 16. Those of one file are numbered without gaps. The
// database says, under journalKey, which record it has applied last, what the secret is, and from format 3 on how long
// the files are at least. Format 1 has none of it.
const (
	journalFormat = 2
	journalHeader = 16
)

var journalNames = []string{"journal-0", "journal-1"}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readJournal returns the batches of an earlier format that the database does not have, and the number of the last
// record.
func (s *Store) readJournal(format int) (batches []store.Batch, last uint64, err error) {
	value, there, err := s.get(nil, journalKey)
	if err != nil {
		return nil, 0, withCorrupt(err)
	}
	if !there && !s.hasJournal() && (format < journalFormat || format == FormatVersion) {
		return nil, 0, nil // format 1, or already marked as this one
	}
	if len(value) != 16 && len(value) != 32 {
		return nil, 0, fmt.Errorf("%w: the database does not say what it has of the journal", store.ErrCorrupt)
	}
	last, secret := binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])
	found := map[uint64][]byte{}
	for i, name := range journalNames {
		path := s.fs.PathJoin(s.dir, name)
		data, err := readFile(s.fs, path, math.MaxInt64)
		if err != nil {
			return nil, 0, fmt.Errorf("read the journal: %w", err)
		}
		// From format 3 on the database knows how long the files were: a shorter one has lost its
		// end.
		if len(value) == 32 && uint64(len(data)) < binary.BigEndian.Uint64(value[16+8*i:]) {
			return nil, 0, fmt.Errorf("%w: %s is shorter than it was: what it held may be lost", store.ErrCorrupt, path)
		}
		journalRecords(data, secret, last, found)
	}
	for ; found[last+1] != nil; last++ {
		b, err := store.DecodeBatch(found[last+1])
		if err != nil {
			return nil, 0, fmt.Errorf("%w: record %d of the journal: %w", store.ErrCorrupt, last+1, err)
		}
		delete(found, last+1)
		batches = append(batches, b)
	}
	// A crash cuts a journal off at its end. A hole in the middle is damage.
	if len(found) > 0 {
		return nil, 0, fmt.Errorf("%w: record %d of the journal is not whole, but a later one is",
			store.ErrCorrupt, last+1)
	}
	return batches, last, nil
}

// journalRecords finds the whole records of a file behind a number, wherever they are: one that is missing between
// others is damage.
func journalRecords(data []byte, secret, behind uint64, found map[uint64][]byte) {
	for at := 0; at+journalHeader <= len(data); at += journalHeader {
		number := binary.LittleEndian.Uint64(data[at+8:]) ^ secret
		size := uint64(binary.LittleEndian.Uint32(data[at+4:]))
		room := uint64(len(data) - at - journalHeader) //nolint:gosec // not negative
		if number <= behind || number-behind > 1<<24 || size > room {
			continue
		}
		end := at + journalHeader + int(size) //nolint:gosec // it is within data
		if binary.LittleEndian.Uint32(data[at:]) == crc32.Checksum(data[at+4:end], castagnoli) {
			found[number] = slices.Clone(data[at+journalHeader : end])
		}
	}
}

// hasJournal reports whether files of an earlier format are left.
func (s *Store) hasJournal() bool {
	_, err := s.fs.Stat(s.fs.PathJoin(s.dir, journalNames[0]))
	return err == nil
}

// takeOver makes the position of a directory that has none: a new one, or one of an earlier format.
// What that had in its journal becomes part of the state together with the position, or nothing of
// it does; a start that finds no position begins from the start again. Before that the directory is
// marked as one of this format, so that no earlier release opens it any more. A store that is only
// read has it all in memory.
func (s *Store) takeOver(o Options, fresh bool, format int) (position, error) {
	p := position{log: filelog.NewID()}
	if o.OpenLog != nil {
		p.log = logElsewhere
	}
	s.gathered.init(s.db, p)
	if !fresh {
		batches, last, err := s.readJournal(format)
		if err != nil {
			return p, err
		}
		for i := range batches {
			s.gathered.open.Add(&batches[i])
		}
		p.applied, p.safe = last, last
	}
	if o.ReadOnly {
		return p, nil
	}
	if !fresh && format < FormatVersion {
		if plant.FormatLate.On() {
			defer mark(s.fs, s.dir) //nolint:errcheck // a bug that is planted
		} else if err := mark(s.fs, s.dir); err != nil {
			return p, unwritable(s.dir, err)
		}
	}
	if err := s.beginLog(o, p); err != nil {
		return p, err
	}
	gathered := s.gathered.open
	gathered.Delete(journalKey)
	s.gathered.open = &generation{}
	s.gathered.position = p
	if err := s.apply(&gathered.Batch, p); err != nil {
		return p, err
	}
	return p, plant.Or(s.flushTables, plant.JournalEarly, s.refusal)()
}

// beginLog makes an empty log behind a position. What an interrupted start has left of one goes
// first. It has no records that count: there is no position yet.
func (s *Store) beginLog(o Options, p position) error {
	if o.OpenLog != nil {
		return nil
	}
	if err := filelog.Remove(s.guard, s.dir); err != nil {
		return err
	}
	return filelog.Create(s.logOptions(o, p), p.applied+1)
}

// removeJournal removes the files of an earlier format, which a start that was interrupted may have left.
func removeJournal(fsys vfs.FS, dir string) error {
	for _, name := range journalNames {
		if err := fsys.Remove(fsys.PathJoin(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
