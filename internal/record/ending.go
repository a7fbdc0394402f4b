package record

import (
	"encoding/binary"
	"math"

	"millrace/internal/job"
)

// Ending says that dependants of a job that has ended are still to be released or
// failed. There is one for each time that the job has ended and left some over.
type Ending struct {
	Failed bool   // they fail with the job; otherwise they are released
	Before job.ID // only jobs with a lower id: later ones wait for what the job has become
	Next   JobRef // where to go on
}

// EndingKey appends the key of an Ending. Those of one job are in the order of seq.
func EndingKey(dst []byte, id job.ID, seq uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, spaceEnding), uint64(id))
	return binary.BigEndian.AppendUint64(dst, seq)
}

// EndingSpan returns the range of the endings of the jobs from one id up to and
// including another.
func EndingSpan(from, to job.ID) (lo, hi []byte) {
	return EndingKey(nil, from, 0), append(EndingKey(nil, to, math.MaxUint64), 0)
}

// ParseEndingKey splits the key of an Ending.
func ParseEndingKey(key []byte) (id job.ID, seq uint64, ok bool) {
	if len(key) != 17 || key[0] != spaceEnding {
		return 0, 0, false
	}
	return job.ID(binary.BigEndian.Uint64(key[1:])), binary.BigEndian.Uint64(key[9:]), true
}

// AppendEnding appends an Ending.
func AppendEnding(dst []byte, e Ending) []byte {
	dst = append(dst, endingVersion, 0)
	if e.Failed {
		dst[len(dst)-1] = 1
	}
	dst = binary.AppendUvarint(dst, uint64(e.Before))
	return AppendRef(dst, e.Next)
}

// DecodeEnding is the inverse of AppendEnding.
func DecodeEnding(b []byte) (Ending, error) {
	d := decoder{b: b}
	if err := d.version("ending", endingVersion); err != nil {
		return Ending{}, err
	}
	failed := d.byte()
	if failed > 1 {
		d.fail()
	}
	e := Ending{Failed: failed == 1, Before: job.ID(d.uvarint())}
	e.Next = JobRef{Queue: QueueID(d.uint32()), ID: job.ID(d.uvarint())}
	return e, d.end("ending")
}

// Flush is the removal of everything in a namespace that is under way. There is at most one.
type Flush struct {
	Namespace string
	Door      job.Door    // if it is not zero: only queues that have it
	Batches   job.BatchID // batches below it are to be removed
	NextBatch job.BatchID // where to go on with them
	Queues    QueueID     // and so are queues below it
	NextQueue QueueID
}

// FlushKey is the key of the Flush that is under way.
func FlushKey() []byte { return []byte{spaceFlush} }

// FlushKeptKey appends the key that says that the flush under way spares a queue: it was
// spared when the flush began, and looks different now.
func FlushKeptKey(dst []byte, q QueueID) []byte { return queueSpace(dst, spaceFlush, q) }

// FlushKeptSpan returns the range of those keys.
func FlushKeptSpan() (lo, hi []byte) { return []byte{spaceFlush, 0}, []byte{spaceFlush + 1} }

// ParseFlushKeptKey returns the queue of such a key.
func ParseFlushKeptKey(key []byte) (q QueueID, ok bool) {
	if len(key) != 5 || key[0] != spaceFlush {
		return 0, false
	}
	return QueueID(binary.BigEndian.Uint32(key[1:])), true
}

// AppendFlush appends a Flush.
func AppendFlush(dst []byte, f *Flush) []byte {
	dst = appendString(append(dst, flushVersion), f.Namespace)
	dst = binary.AppendUvarint(append(dst, byte(f.Door)), uint64(f.Batches))
	dst = binary.AppendUvarint(dst, uint64(f.NextBatch))
	dst = binary.AppendUvarint(dst, uint64(f.Queues))
	return binary.AppendUvarint(dst, uint64(f.NextQueue))
}

// DecodeFlush is the inverse of AppendFlush.
func DecodeFlush(b []byte) (Flush, error) {
	d := decoder{b: b}
	if err := d.version("flush", flushVersion); err != nil {
		return Flush{}, err
	}
	f := Flush{Namespace: d.text(), Door: job.Door(d.byte())}
	f.Batches, f.NextBatch = job.BatchID(d.uvarint()), job.BatchID(d.uvarint())
	f.Queues, f.NextQueue = QueueID(d.uint32()), QueueID(d.uint32())
	return f, d.end("flush")
}
