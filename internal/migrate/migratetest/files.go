// Package migratetest writes the files of original servers, as tests of migrations need them.
package migratetest

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// WorkqJob is a job that a command log of Workq adds. One that has a time is scheduled.
type WorkqJob struct {
	ID          [16]byte
	Name        string
	Payload     []byte
	TTR, TTL    uint64 // milliseconds
	Priority    int64
	MaxAttempts uint64
	MaxFails    uint64
	At, Created time.Time
}

// The commands about a job in the log.
const (
	WorkqComplete = 3
	WorkqFail     = 4
	WorkqDelete   = 5
	WorkqExpire   = 6
	WorkqLease    = 7
	WorkqLapse    = 8
)

// WorkqLog is a file of a command log.
type WorkqLog struct{ Text []byte }

// NewWorkqLog returns an empty file.
func NewWorkqLog() *WorkqLog { return &WorkqLog{[]byte("wqwq\x00\x00\x00\x01")} }

// Record appends a record with a command.
func (l *WorkqLog) Record(command []byte) *WorkqLog {
	from := len(l.Text)
	l.Text = append(l.Text, instant(time.Now())...)
	l.Text = binary.AppendUvarint(l.Text, uint64(len(command)))
	l.Text = append(l.Text, command...)
	l.Text = binary.BigEndian.AppendUint32(l.Text, crc32.Checksum(l.Text[from:], crc32.MakeTable(crc32.Castagnoli)))
	return l
}

func instant(t time.Time) []byte {
	b, err := t.UTC().MarshalBinary()
	if err != nil {
		panic(err)
	}
	return b
}

// Add adds a job.
func (l *WorkqLog) Add(j WorkqJob) *WorkqLog { //nolint:gocritic // by value is easier to use
	kind := byte(1)
	if !j.At.IsZero() {
		kind = 2
	}
	b := append([]byte{kind}, j.ID[:]...)
	b = append(binary.AppendUvarint(b, uint64(len(j.Name))), j.Name...)
	b = binary.AppendUvarint(b, j.TTR)
	b = binary.AppendUvarint(b, j.TTL)
	b = binary.AppendVarint(b, j.Priority)
	b = binary.AppendUvarint(b, j.MaxAttempts)
	b = binary.AppendUvarint(b, j.MaxFails)
	b = append(binary.AppendUvarint(b, uint64(len(j.Payload))), j.Payload...)
	b = append(append(b, instant(j.At)...), instant(j.Created)...)
	return l.Record(b)
}

// Then records what has happened to a job. WorkqComplete and WorkqFail have a result.
func (l *WorkqLog) Then(command byte, id [16]byte, result string) *WorkqLog {
	b := append([]byte{command}, id[:]...)
	if command == WorkqComplete || command == WorkqFail {
		b = append(binary.AppendUvarint(b, uint64(len(result))), result...)
	}
	return l.Record(b)
}

// The operations of Masenko about a task, besides adding it.
const (
	MasenkoDelete = 2
	MasenkoFail   = 4
	MasenkoNextID = 8
)

// MasenkoTask is a task that a write-ahead file of Masenko adds. With Blockers it has the form of the builds that knew
// them, also if there are none.
type MasenkoTask struct {
	ID                     uint32
	Queue, Name, DeadQueue string
	Payload                string
	RunAt                  uint32 // seconds since 1970; zero: at once
	Retry                  uint8
	Blockers               []uint32
}

// MasenkoChunk returns operations that happened together.
func MasenkoChunk(operations ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(operations))) //nolint:gosec // what a test writes
	for _, o := range operations {
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(o))), o...) //nolint:gosec // what a test writes
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(b))) //nolint:gosec // what a test writes
	return append(binary.LittleEndian.AppendUint32(head, crc32.ChecksumIEEE(b)), b...)
}

// MasenkoOp returns an operation of a kind.
func MasenkoOp(kind byte, id uint32, more ...uint32) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{kind}, id)
	for _, n := range more {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// Op returns the operation that adds the task.
func (t *MasenkoTask) Op() []byte {
	b := MasenkoOp(1, t.ID)
	for _, text := range []string{t.Queue, t.Name, t.DeadQueue} {
		b = append(append(b, byte(len(text))), text...) //nolint:gosec // what a test writes
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(t.Payload))) //nolint:gosec // what a test writes
	b = append(b, t.Payload...)
	b = append(binary.LittleEndian.AppendUint32(b, t.RunAt), t.Retry)
	if t.Blockers != nil {
		b = append(b, byte(len(t.Blockers))) //nolint:gosec // what a test writes
		for _, id := range t.Blockers {
			b = binary.LittleEndian.AppendUint32(b, id)
		}
	}
	return b
}
