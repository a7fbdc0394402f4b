package record

import (
	"encoding/binary"
	"time"

	"millrace/internal/job"
)

// Batch is how a batch of jobs stands: what changes as its jobs do.
type Batch struct {
	Namespace string
	Parent    job.BatchID
	Created   job.Time
	Open      bool
	Committed job.Time // the last time; zero: never
	Succeeded job.Time // when it was; zero: it has not
	ForgetAt  job.Time
	Complete  job.Callback
	Success   job.Callback
	Total     uint64 // jobs that ever joined
	Pending   uint64 // of those, not acked
	Failed    uint64 // of those, failed, dead or gone
	// Of its children, how many have not completed with their callback acked, not
	// succeeded with it acked, and not succeeded at all.
	Incomplete   uint64
	Unsuccessful uint64
	Children     uint64
}

// BatchDef is what is fixed about a batch when it is made.
type BatchDef struct {
	Text     string
	OpenFor  time.Duration
	KeepFor  time.Duration
	KeepDone time.Duration
	// The callbacks, or nil. Of a spec, what a callback does not have is not kept:
	// Unique, the lock, the batch, and blockers by place in an Atomic.
	Complete *job.Spec
	Success  *job.Spec
}

// BatchPart is one of the records of a batch.
type BatchPart byte

// The parts of a batch: a Batch and a BatchDef.
const (
	BatchState BatchPart = iota
	BatchFixed
)

// BatchKey appends the key of one part of a batch.
func BatchKey(dst []byte, id job.BatchID, part BatchPart) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, spaceBatch), uint64(id)), byte(part))
}

// AllBatches returns the range of all parts of all batches.
func AllBatches() (lo, hi []byte) { return []byte{spaceBatch}, []byte{spaceBatch + 1} }

// ParseBatchKey splits the key of a part of a batch.
func ParseBatchKey(key []byte) (id job.BatchID, part BatchPart, ok bool) {
	if len(key) != 10 || key[0] != spaceBatch {
		return 0, 0, false
	}
	return job.BatchID(binary.BigEndian.Uint64(key[1:])), BatchPart(key[9]), true
}

// BatchesKey appends the entry of a batch in the list of its namespace.
func BatchesKey(dst []byte, namespace string, id job.BatchID) []byte {
	dst = appendText(append(dst, spaceBatches), namespace)
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

// BatchesSpan returns the range of the batches of a namespace, in order of their ids.
func BatchesSpan(namespace string) (lo, hi []byte) { return textSpan(spaceBatches, namespace) }

// AppendBatch appends how a batch stands.
func AppendBatch(dst []byte, b *Batch) []byte {
	open := byte(0)
	if b.Open {
		open = 1
	}
	dst = append(dst, batchVersion, open, byte(b.Complete)<<4|byte(b.Success))
	dst = binary.AppendVarint(dst, int64(b.Created))
	dst = appendSince(dst, b.Committed, b.Created)
	dst = appendSince(dst, b.Succeeded, b.Created)
	dst = appendSince(dst, b.ForgetAt, b.Created)
	dst = binary.AppendUvarint(dst, uint64(b.Parent))
	for _, n := range [...]uint64{b.Total, b.Pending, b.Failed, b.Incomplete, b.Unsuccessful, b.Children} {
		dst = binary.AppendUvarint(dst, n)
	}
	return appendString(dst, b.Namespace)
}

// DecodeBatch is the inverse of AppendBatch.
func DecodeBatch(p []byte) (Batch, error) {
	d := decoder{b: p}
	if err := d.version("batch", batchVersion); err != nil {
		return Batch{}, err
	}
	b := Batch{Open: d.byte() != 0}
	stages := d.byte()
	b.Complete, b.Success = job.Callback(stages>>4), job.Callback(stages&15)
	b.Created = job.Time(d.varint())
	b.Committed = d.since(b.Created)
	b.Succeeded = d.since(b.Created)
	b.ForgetAt = d.since(b.Created)
	b.Parent = job.BatchID(d.uvarint())
	for _, n := range [...]*uint64{&b.Total, &b.Pending, &b.Failed, &b.Incomplete, &b.Unsuccessful, &b.Children} {
		*n = d.uvarint()
	}
	b.Namespace = d.text()
	return b, d.end("batch")
}

// AppendBatchDef appends what is fixed about a batch.
func AppendBatchDef(dst []byte, b *BatchDef) []byte {
	callbacks := byte(0)
	if b.Complete != nil {
		callbacks |= 1
	}
	if b.Success != nil {
		callbacks |= 2
	}
	dst = append(dst, defVersion, callbacks)
	for _, t := range [...]time.Duration{b.OpenFor, b.KeepFor, b.KeepDone} {
		dst = binary.AppendVarint(dst, int64(t))
	}
	dst = appendString(dst, b.Text)
	for _, s := range [...]*job.Spec{b.Complete, b.Success} {
		if s != nil {
			dst = appendSpec(dst, s)
		}
	}
	return dst
}

// DecodeBatchDef is the inverse of AppendBatchDef. Bodies share memory with p.
func DecodeBatchDef(p []byte) (BatchDef, error) {
	d := decoder{b: p}
	if err := d.version("batch definition", defVersion); err != nil {
		return BatchDef{}, err
	}
	var b BatchDef
	callbacks := d.byte()
	for _, t := range [...]*time.Duration{&b.OpenFor, &b.KeepFor, &b.KeepDone} {
		*t = time.Duration(d.varint())
	}
	b.Text = d.text()
	if callbacks&1 != 0 {
		b.Complete = d.spec()
	}
	if callbacks&2 != 0 {
		b.Success = d.spec()
	}
	return b, d.end("batch definition")
}

// The yes-or-no fields of a spec.
const (
	specNumbered = 1 << iota
	specTTLFromRun
	specTracked
	specLike
)

// specBase is what the times of a spec are relative to: any instant after 1970 does.
const specBase job.Time = 1 << 50

func appendSpec(dst []byte, s *job.Spec) []byte {
	var bits byte
	for i, on := range [...]bool{s.Numbered, s.TTLFromRun, s.Tracked, s.Fingerprint != (job.Digest{})} {
		if on {
			bits |= 1 << i
		}
	}
	dst = append(dst, bits, byte(s.At), byte(s.BodyKind), byte(s.Origin))
	for _, t := range [...]string{s.Namespace, s.Queue, s.Key, s.Type, s.Group} {
		dst = appendString(dst, t)
	}
	dst = appendBytes(dst, s.Extra)
	if s.BodyKind != job.BodyNone {
		dst = appendBytes(dst, s.Body)
	}
	dst = appendPolicy(dst, &s.Policy, specBase)
	dst = appendSince(dst, s.RunAt, specBase)
	dst = binary.AppendVarint(dst, int64(s.Delay))
	dst = binary.AppendVarint(dst, int64(s.TTL))
	if bits&specLike != 0 {
		dst = append(dst, s.Fingerprint[:]...)
	}
	return appendBlockers(dst, s.BlockedBy)
}

// appendBlockers appends the jobs that a callback waits for, by place and by number.
func appendBlockers(dst []byte, bs []job.Blocker) []byte {
	n := uint64(0)
	for i := range bs {
		if bs[i].Back == 0 {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, n)
	for i := range bs {
		if bs[i].Back == 0 {
			dst = binary.AppendUvarint(dst, uint64(bs[i].QueueNum))
			dst = binary.AppendUvarint(dst, uint64(bs[i].ID))
			dst = binary.AppendUvarint(dst, uint64(bs[i].Number))
		}
	}
	return dst
}

func (d *decoder) spec() *job.Spec {
	bits := d.byte()
	s := &job.Spec{
		Numbered: bits&specNumbered != 0, TTLFromRun: bits&specTTLFromRun != 0, Tracked: bits&specTracked != 0,
		At: job.Place(d.byte()), BodyKind: job.BodyKind(d.byte()), Origin: job.Door(d.byte()),
	}
	for _, t := range [...]*string{&s.Namespace, &s.Queue, &s.Key, &s.Type, &s.Group} {
		*t = d.text()
	}
	if extra := d.bytes(); len(extra) > 0 {
		s.Extra = extra
	}
	if s.BodyKind != job.BodyNone {
		s.Body = d.bytes()
	}
	d.policy(&s.Policy, specBase)
	s.RunAt = d.since(specBase)
	s.Delay = time.Duration(d.varint())
	s.TTL = time.Duration(d.varint())
	if bits&specLike != 0 {
		s.Fingerprint = d.digest()
	}
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		n = 0
	}
	for range n {
		s.BlockedBy = append(s.BlockedBy, job.Blocker{
			QueueNum: d.uint32(), ID: job.ID(d.uvarint()),
			Number: d.uint32(),
		})
	}
	return s
}
