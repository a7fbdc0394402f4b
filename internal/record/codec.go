package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"millrace/internal/job"
)

// The versions of the records. A job or a queue that has nothing of what came with a later version is written as
// one of the first.
const (
	metaVersion     = 2
	bodyVersion     = 2
	failuresVersion = 1
	queueVersion    = 4
	shardVersion    = 1
	progressVersion = 1
	batchVersion    = 1
	defVersion      = 1
	endingVersion   = 1
	flushVersion    = 1
	scheduleVersion = 1
	hookVersion     = 1
	holderVersion   = 1
)

// ErrFormat means that a record is not what this release writes or reads.
var ErrFormat = errors.New("malformed record")

// decoder reads the fields of a record; after the first fault everything is zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > 1<<32-1 {
		d.fail()
		return 0
	}
	return uint32(v)
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// bytes returns a length-prefixed field that shares memory with the record.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) text() string { return string(d.bytes()) }

// digest returns one that is there: not zero.
func (d *decoder) digest() (v job.Digest) {
	n := copy(v[:], d.b)
	if d.b = d.b[n:]; v == (job.Digest{}) || n < len(v) {
		d.fail()
	}
	return v
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) version(what string, newest byte) error { //nolint:unparam // most records are at their first version
	_, err := d.versions(what, newest)
	return err
}

// versions returns the version of a record that has several.
func (d *decoder) versions(what string, newest byte) (v byte, err error) {
	if v = d.byte(); d.bad || v == 0 || v > newest {
		return v, fmt.Errorf("%w: %s has version %d, this release knows %d", ErrFormat, what, v, newest)
	}
	return v, nil
}

func (d *decoder) end(what string) error {
	if d.bad || len(d.b) != 0 {
		return fmt.Errorf("%w: %s", ErrFormat, what)
	}
	return nil
}

func appendBytes(dst, p []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(p))), p...)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// since encodes an instant by its distance from another; zero stays zero.
func appendSince(dst []byte, t, base job.Time) []byte {
	if t == 0 {
		return append(dst, 0)
	}
	d := int64(t) - int64(base) // wraps around for Never, and back when decoded
	if d >= 0 {
		d++
	}
	return binary.AppendVarint(dst, d)
}

func (d *decoder) since(base job.Time) job.Time {
	v := d.varint()
	if v == 0 {
		return 0
	}
	if v > 0 {
		v--
	}
	return job.Time(v + int64(base))
}

// What is in the same byte as the state: which of the rarer fields follow.
const (
	metaLike = 1 << (iota + 5)
	metaBatch
	metaLock
	metaState = metaLike - 1
)

// AppendMeta appends how a job stands: what changes with its state, and what is needed
// along with that.
func AppendMeta(dst []byte, j *job.Job) []byte {
	state := byte(j.State)
	if j.Batch != 0 {
		state |= metaBatch
	}
	if j.Lock != "" {
		state |= metaLock
	}
	if j.Fingerprint != (job.Digest{}) {
		state |= metaLike
	}
	version := byte(1)
	if hasHistory(j) {
		version = metaVersion
	}
	dst = append(dst, version, state)
	dst = binary.AppendUvarint(dst, uint64(j.Flags))
	dst = binary.AppendVarint(dst, int64(j.Created))
	dst = appendSince(dst, j.Since, j.Created)
	dst = binary.AppendUvarint(dst, j.Entered)
	dst = binary.AppendVarint(dst, j.Order.Rank)
	dst = binary.AppendVarint(dst, j.Order.Priority)
	dst = appendSince(dst, j.Order.At, j.Created)
	dst = binary.AppendUvarint(dst, j.Order.Seq)
	dst = binary.AppendUvarint(dst, j.Order.First)
	dst = appendSince(dst, j.RunAt, j.Created)
	dst = appendSince(dst, j.Timer, j.Created)
	dst = binary.AppendUvarint(dst, uint64(j.Attempts))
	dst = binary.AppendUvarint(dst, uint64(j.Fails))
	dst = binary.AppendUvarint(dst, uint64(j.Buries))
	if version > 1 {
		dst = binary.AppendUvarint(dst, uint64(j.Lapses))
		dst = binary.AppendUvarint(dst, uint64(j.Releases))
		dst = binary.AppendUvarint(dst, uint64(j.Kicks))
		dst = binary.AppendVarint(dst, int64(j.Delay))
	}
	if j.Flags.Has(job.FlagSerial) {
		dst = binary.AppendUvarint(dst, j.Serial)
	}
	dst = appendPolicy(dst, &j.Policy, j.Created)
	dst = appendString(dst, j.Key)
	dst = appendString(dst, j.Group)
	if j.Batch != 0 {
		dst = binary.AppendUvarint(dst, uint64(j.Batch))
	}
	if j.Lock != "" {
		dst = append(appendString(dst, j.Lock), byte(j.LockUntil))
	}
	if state&metaLike != 0 {
		dst = append(dst, j.Fingerprint[:]...)
	}
	switch j.State {
	case job.Leased:
		dst = appendLease(dst, &j.Lease, j.Created)
	case job.Blocked:
		dst = binary.AppendUvarint(dst, uint64(len(j.Blockers)))
		for _, id := range j.Blockers {
			dst = binary.AppendUvarint(dst, uint64(id))
		}
	case job.Scheduled, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead:
	}
	return dst
}

// hasHistory reports whether a job has something that records of the first version cannot tell.
func hasHistory(j *job.Job) bool {
	return j.Lapses|j.Releases|j.Kicks != 0 || j.Delay != 0 || j.Flags.Has(job.FlagBuriedLast)
}

// DecodeMeta is the inverse of AppendMeta. It leaves the other fields of j alone.
func DecodeMeta(b []byte, j *job.Job) error {
	d := decoder{b: b}
	version, err := d.versions("job", metaVersion)
	if err != nil {
		return err
	}
	state := d.byte()
	j.State = job.State(state & metaState)
	if j.State == 0 || int(j.State) >= job.StateCount {
		return fmt.Errorf("%w: job state %d", ErrFormat, j.State)
	}
	j.Flags = job.Flags(d.uvarint()) //nolint:gosec // unknown high flags are dropped
	j.Created = job.Time(d.varint())
	j.Since = d.since(j.Created)
	j.Entered = d.uvarint()
	j.Order.Rank = d.varint()
	j.Order.Priority = d.varint()
	j.Order.At = d.since(j.Created)
	j.Order.Seq = d.uvarint()
	j.Order.First = d.uvarint()
	j.RunAt = d.since(j.Created)
	j.Timer = d.since(j.Created)
	j.Attempts = d.uint32()
	j.Fails = d.uint32()
	j.Buries = d.uint32()
	j.Lapses, j.Releases, j.Kicks, j.Delay = 0, 0, 0, 0
	if version > 1 {
		j.Lapses, j.Releases, j.Kicks = d.uint32(), d.uint32(), d.uint32()
		j.Delay = time.Duration(d.varint())
	}
	j.Serial = 0
	if j.Flags.Has(job.FlagSerial) {
		j.Serial = d.uvarint()
	}
	d.policy(&j.Policy, j.Created)
	j.Key = d.text()
	j.Group = d.text()
	j.Batch, j.Lock, j.LockUntil = 0, "", 0
	if state&metaBatch != 0 {
		if j.Batch = job.BatchID(d.uvarint()); j.Batch == 0 {
			d.fail()
		}
	}
	if state&metaLock != 0 {
		if j.Lock, j.LockUntil = d.text(), job.LockEnd(d.byte()); j.Lock == "" {
			d.fail()
		}
	}
	j.Fingerprint = job.Digest{}
	if state&metaLike != 0 {
		j.Fingerprint = d.digest()
	}
	j.Lease, j.Blockers = job.Lease{}, nil
	switch j.State {
	case job.Leased:
		d.lease(&j.Lease, j.Created)
	case job.Blocked:
		n := d.uvarint()
		if n > uint64(len(d.b)) {
			d.fail()
			n = 0
		}
		j.Blockers = make([]job.ID, 0, n)
		for range n {
			j.Blockers = append(j.Blockers, job.ID(d.uvarint()))
		}
	case job.Scheduled, job.Ready, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead:
	}
	return d.end("job")
}

// The bits that say which fields of a policy are present.
const (
	polLease = 1 << iota
	polExpire
	polExpireWaiting
	polAttempts
	polFails
	polBackoff
	polBackoffFloor
	polLapseFail
	polDeadQueue
	polDeadFor
	polDeadMax
	polDeadSlots
	polKeep
)

func appendPolicy(dst []byte, p *job.Policy, base job.Time) []byte {
	var bits uint64
	set := func(on bool, bit uint64) {
		if on {
			bits |= bit
		}
	}
	set(p.Lease != 0, polLease)
	set(p.ExpireAt != 0, polExpire)
	set(p.Expiry == job.ExpireWaiting, polExpireWaiting)
	set(p.MaxAttempts != 0, polAttempts)
	set(p.MaxFails != 0, polFails)
	set(p.Backoff.Unit != 0, polBackoff)
	set(p.Backoff.Floor, polBackoffFloor)
	set(p.Lapse == job.LapseFail, polLapseFail)
	set(p.DeadQueue != "", polDeadQueue)
	set(p.DeadFor != 0, polDeadFor)
	set(p.DeadMax != 0, polDeadMax)
	set(p.DeadSlots, polDeadSlots)
	set(p.Keep, polKeep)
	dst = binary.AppendUvarint(dst, bits)
	dst = binary.AppendVarint(dst, p.Priority)
	dst = append(dst, byte(p.Requeue)<<4|byte(p.Due), byte(p.Exhaust))
	if p.Lease != 0 {
		dst = binary.AppendVarint(dst, int64(p.Lease))
	}
	if p.ExpireAt != 0 {
		dst = appendSince(dst, p.ExpireAt, base)
	}
	if p.MaxAttempts != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.MaxAttempts))
	}
	if p.MaxFails != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.MaxFails))
	}
	if p.Backoff.Unit != 0 {
		dst = binary.AppendVarint(dst, int64(p.Backoff.Unit))
		dst = append(dst, p.Backoff.Power, p.Backoff.Skip)
		dst = binary.AppendVarint(dst, int64(p.Backoff.Base))
		dst = binary.AppendUvarint(dst, uint64(p.Backoff.Jitter))
	}
	if p.DeadQueue != "" {
		dst = appendString(dst, p.DeadQueue)
	}
	if p.DeadFor != 0 {
		dst = binary.AppendVarint(dst, int64(p.DeadFor))
	}
	if p.DeadMax != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.DeadMax))
	}
	return dst
}

func (d *decoder) policy(p *job.Policy, base job.Time) {
	*p = job.Policy{}
	bits := d.uvarint()
	p.Priority = d.varint()
	places := d.byte()
	p.Requeue, p.Due = job.Place(places>>4), job.Place(places&15)
	p.Exhaust = job.Exhaust(d.byte())
	if bits&polLease != 0 {
		p.Lease = time.Duration(d.varint())
	}
	if bits&polExpire != 0 {
		p.ExpireAt = d.since(base)
	}
	if bits&polExpireWaiting != 0 {
		p.Expiry = job.ExpireWaiting
	}
	if bits&polAttempts != 0 {
		p.MaxAttempts = d.uint32()
	}
	if bits&polFails != 0 {
		p.MaxFails = d.uint32()
	}
	if bits&polBackoff != 0 {
		p.Backoff.Unit = time.Duration(d.varint())
		p.Backoff.Power, p.Backoff.Skip = d.byte(), d.byte()
		p.Backoff.Base = time.Duration(d.varint())
		p.Backoff.Jitter = d.uint32()
	}
	p.Backoff.Floor = bits&polBackoffFloor != 0
	if bits&polLapseFail != 0 {
		p.Lapse = job.LapseFail
	}
	if bits&polDeadQueue != 0 {
		p.DeadQueue = d.text()
	}
	if bits&polDeadFor != 0 {
		p.DeadFor = time.Duration(d.varint())
	}
	if bits&polDeadMax != 0 {
		p.DeadMax = d.uint32()
	}
	p.DeadSlots = bits&polDeadSlots != 0
	p.Keep = bits&polKeep != 0
}

func appendLease(dst []byte, l *job.Lease, base job.Time) []byte {
	dst = binary.AppendUvarint(dst, uint64(l.Holder.Node))
	dst = binary.AppendUvarint(dst, l.Holder.Num)
	dst = appendSince(dst, l.Until, base)
	dst = binary.AppendVarint(dst, int64(l.Length))
	exclusive := byte(0)
	if l.Exclusive {
		exclusive = 1
	}
	return append(dst, exclusive, byte(l.OnEnd), byte(l.Door))
}

func (d *decoder) lease(l *job.Lease, base job.Time) {
	l.Holder.Node = d.uint32()
	l.Holder.Num = d.uvarint()
	l.Until = d.since(base)
	l.Length = time.Duration(d.varint())
	l.Exclusive = d.byte() != 0
	l.OnEnd = job.OnEnd(d.byte())
	l.Door = job.Door(d.byte())
}

// InlineMax is up to how many bytes of type, extra and body are kept in the first
// record of a job.
const InlineMax = 1024

// Inline reports whether what the push fixed goes into the first record.
func Inline(j *job.Job) bool { return len(j.Type)+len(j.Extra)+len(j.Trace)+len(j.Body) <= InlineMax }

// AppendFirst appends the first record of a job: how it stands, and with FlagInline
// what the push fixed.
func AppendFirst(dst []byte, j *job.Job) []byte {
	at := len(dst)
	dst = append(dst, 0, 0) // the length of what follows, in two bytes as a rule
	dst = AppendMeta(dst, j)
	n := len(dst) - at - 2
	if n < 1<<14 {
		dst[at], dst[at+1] = byte(n)|0x80, byte(n>>7) //nolint:gosec // fourteen bits
	} else {
		meta := append([]byte(nil), dst[at+2:]...)
		dst = append(binary.AppendUvarint(dst[:at], uint64(n)), meta...)
	}
	if j.Flags.Has(job.FlagInline) {
		dst = AppendBody(dst, j)
	}
	return dst
}

// DecodeFirst is the inverse of AppendFirst. With FlagInline, Body and Extra share
// memory with b.
func DecodeFirst(b []byte, j *job.Job) error {
	d := decoder{b: b}
	meta := d.bytes()
	if d.bad {
		return fmt.Errorf("%w: first record", ErrFormat)
	}
	if err := DecodeMeta(meta, j); err != nil {
		return err
	}
	if j.Flags.Has(job.FlagInline) {
		return DecodeBody(d.b, j)
	}
	return d.end("first record")
}

// DecodeInline decodes what the push fixed from the first record and leaves how the
// job stands alone. The slices share memory with b.
func DecodeInline(b []byte, j *job.Job) error {
	d := decoder{b: b}
	d.bytes()
	if d.bad {
		return fmt.Errorf("%w: first record", ErrFormat)
	}
	return DecodeBody(d.b, j)
}

// AppendBody appends the part of a job that the push fixed.
func AppendBody(dst []byte, j *job.Job) []byte {
	version := byte(1)
	if j.Trace != "" {
		version = 2
	}
	dst = append(dst, version, byte(j.BodyKind), byte(j.Origin))
	dst = appendString(dst, j.Type)
	dst = appendBytes(dst, j.Extra)
	if version > 1 {
		dst = appendString(dst, j.Trace)
	}
	return append(dst, j.Body...)
}

// DecodeBody is the inverse of AppendBody. Body and Extra share memory with b.
func DecodeBody(b []byte, j *job.Job) error {
	d := decoder{b: b}
	version, err := d.versions("body", bodyVersion)
	if err != nil {
		return err
	}
	j.BodyKind = job.BodyKind(d.byte())
	j.Origin = job.Door(d.byte())
	j.Type = d.text()
	j.Extra = d.bytes()
	if len(j.Extra) == 0 {
		j.Extra = nil
	}
	if j.Trace = ""; version > 1 {
		if j.Trace = d.text(); j.Trace == "" {
			d.fail()
		}
	}
	if d.bad {
		return fmt.Errorf("%w: body", ErrFormat)
	}
	j.Body = d.b
	if j.BodyKind == job.BodyNone {
		j.Body = nil
	}
	return nil
}

// AppendFailures appends the remembered failures of a job.
func AppendFailures(dst []byte, fs []job.Failure) []byte {
	dst = append(dst, failuresVersion)
	dst = binary.AppendUvarint(dst, uint64(len(fs)))
	for i := range fs {
		f := &fs[i]
		dst = binary.AppendVarint(dst, int64(f.At))
		dst = append(dst, byte(f.Kind))
		dst = appendString(dst, f.Type)
		dst = appendString(dst, f.Message)
		dst = binary.AppendUvarint(dst, uint64(len(f.Backtrace)))
		for _, line := range f.Backtrace {
			dst = appendString(dst, line)
		}
	}
	return dst
}

// DecodeFailures is the inverse of AppendFailures.
func DecodeFailures(b []byte) ([]job.Failure, error) {
	d := decoder{b: b}
	if err := d.version("failures", failuresVersion); err != nil {
		return nil, err
	}
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		return nil, fmt.Errorf("%w: failures", ErrFormat)
	}
	var fs []job.Failure
	for range n {
		f := job.Failure{At: job.Time(d.varint()), Kind: job.FailureKind(d.byte()), Type: d.text(), Message: d.text()}
		lines := d.uvarint()
		if d.bad || lines > uint64(len(d.b)) {
			d.fail()
			break
		}
		for range lines {
			f.Backtrace = append(f.Backtrace, d.text())
		}
		fs = append(fs, f)
	}
	return fs, d.end("failures")
}

// JobRef is where a job's records are.
type JobRef struct {
	Queue QueueID
	ID    job.ID
}

// AppendRef appends a JobRef.
func AppendRef(dst []byte, r JobRef) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(r.Queue)), uint64(r.ID))
}

// DecodeRef is the inverse of AppendRef.
func DecodeRef(b []byte) (JobRef, error) {
	d := decoder{b: b}
	r := JobRef{Queue: QueueID(d.uint32()), ID: job.ID(d.uvarint())}
	return r, d.end("reference")
}

// KeyRef is the value of a client-given key.
type KeyRef struct {
	JobRef
	More bool // further jobs have the same key
}

// AppendKeyRef appends a KeyRef.
func AppendKeyRef(dst []byte, r KeyRef) []byte {
	more := byte(0)
	if r.More {
		more = 1
	}
	return AppendRef(append(dst, more), r.JobRef)
}

// DecodeKeyRef is the inverse of AppendKeyRef.
func DecodeKeyRef(b []byte) (KeyRef, error) {
	d := decoder{b: b}
	r := KeyRef{More: d.byte() != 0}
	r.Queue, r.ID = QueueID(d.uint32()), job.ID(d.uvarint())
	return r, d.end("key")
}

// AppendUint appends a plain number.
func AppendUint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// DecodeUint is the inverse of AppendUint.
func DecodeUint(b []byte) (uint64, error) {
	d := decoder{b: b}
	v := d.uvarint()
	return v, d.end("number")
}

// Shard is the shard's counters.
type Shard struct {
	NextID    job.ID
	NextSeq   uint64
	NextQueue QueueID
}

// AppendShard appends the shard's counters.
func AppendShard(dst []byte, s *Shard) []byte {
	dst = append(dst, shardVersion)
	dst = binary.AppendUvarint(dst, uint64(s.NextID))
	dst = binary.AppendUvarint(dst, s.NextSeq)
	return binary.AppendUvarint(dst, uint64(s.NextQueue))
}

// DecodeShard is the inverse of AppendShard.
func DecodeShard(b []byte) (Shard, error) {
	d := decoder{b: b}
	if err := d.version("shard", shardVersion); err != nil {
		return Shard{}, err
	}
	s := Shard{NextID: job.ID(d.uvarint()), NextSeq: d.uvarint(), NextQueue: QueueID(d.uint32())}
	return s, d.end("shard")
}

// Queue is the durable part of a queue.
type Queue struct {
	ID         QueueID
	Created    job.Time
	Paused     bool
	PausedAt   job.Time // zero: it is not, or was before that was noted
	PausedTill job.Time
	Configured bool
	Hidden     bool
	Settings   job.Settings
	Limits     job.Limits
	Bucket     job.Bucket // of Limits.Rate
	Fairness   job.Fairness
	// Turns says that groups may have a turn: the queue is fair, or was. Turn and Credit are those of the jobs without
	// a group, as in Group.
	Turns  bool
	Turn   uint64
	Credit uint32
	// Regroup says that groups are still to be shown or hidden, because what allows them another job has changed.
	Regroup    Regroup
	NextSerial uint64
	Linked     bool // some job may be listed outside the queue's own key ranges
	Counts     [job.StateCount]uint64
	Totals     [job.CounterCount]uint64
	Expired    [job.StateCount]uint64
	Doors      job.Doors
	// Purged has for each state the sequence up to which jobs that entered it
	// are gone, although their records may still be there.
	Purged [job.StateCount]uint64
}

const (
	queuePaused = 1 << iota
	queueConfigured
	queueHidden
	queueSerials
	queueLinked
	queueOnePerGroup
)

// AppendQueue appends the record of a queue.
func AppendQueue(dst []byte, q *Queue) []byte {
	version := byte(1)
	switch {
	case q.Turns || q.Regroup != 0 || q.Limits.GroupConcurrency > 0 || q.Limits.GroupRate > 0:
		version = 4
	case !q.Limits.IsZero():
		version = 3
	case q.PausedAt != 0:
		version = 2
	}
	dst = append(dst, version)
	var bits uint64
	for i, on := range [...]bool{
		q.Paused, q.Configured, q.Hidden, q.Settings.Serials, q.Linked,
		q.Settings.OnePerGroup,
	} {
		if on {
			bits |= 1 << i
		}
	}
	dst = binary.AppendUvarint(dst, uint64(q.ID))
	dst = binary.AppendUvarint(dst, bits)
	dst = binary.AppendVarint(dst, int64(q.Created))
	dst = appendSince(dst, q.PausedTill, q.Created)
	dst = binary.AppendUvarint(dst, q.Settings.Capacity)
	dst = appendBytes(dst, q.Settings.Attrs)
	dst = binary.AppendUvarint(dst, q.NextSerial)
	dst = appendUints(dst, q.Counts[:])
	dst = appendUints(dst, q.Totals[:])
	dst = appendUints(dst, q.Purged[:])
	dst = appendUints(dst, q.Expired[:])
	dst = binary.AppendUvarint(dst, uint64(q.Doors))
	if version > 1 {
		dst = appendSince(dst, q.PausedAt, q.Created)
	}
	if version > 2 {
		dst = appendLimits(dst, &q.Limits, q.Bucket)
	}
	if version > 3 {
		dst = appendFairness(dst, q)
	}
	return dst
}

func appendLimits(dst []byte, l *job.Limits, b job.Bucket) []byte {
	//nolint:gosec // none of them is negative
	return appendUints(dst, []uint64{
		uint64(l.Concurrency), uint64(l.Worker), uint64(l.SlotFor), uint64(l.Rate), uint64(l.Per), uint64(l.Burst),
		uint64(b.Level), uint64(b.At),
	})
}

func (d *decoder) limits() (l job.Limits, b job.Bucket) {
	var vs [8]uint64
	d.uints(vs[:])
	for _, i := range []int{0, 1, 3, 5} {
		if vs[i] > 1<<32-1 {
			d.fail()
		}
	}
	//nolint:gosec // looked at above, or written from these very types
	l = job.Limits{
		Concurrency: uint32(vs[0]), Worker: uint32(vs[1]), SlotFor: time.Duration(vs[2]),
		Rate: uint32(vs[3]), Per: time.Duration(vs[4]), Burst: uint32(vs[5]),
	}
	b = job.Bucket{Level: int64(vs[6]), At: job.Time(vs[7])} //nolint:gosec // as above
	return l, b
}

func appendUints(dst []byte, vs []uint64) []byte {
	dst = append(dst, byte(len(vs))) //nolint:gosec // a handful of counters
	for _, v := range vs {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// uints fills vs; the record may have been written when there were fewer.
func (d *decoder) uints(vs []uint64) {
	n := int(d.byte())
	for i := range n {
		v := d.uvarint()
		if i < len(vs) {
			vs[i] = v
		}
	}
}

// DecodeQueue is the inverse of AppendQueue.
func DecodeQueue(b []byte) (Queue, error) {
	d := decoder{b: b}
	version, err := d.versions("queue", queueVersion)
	if err != nil {
		return Queue{}, err
	}
	var q Queue
	q.ID = QueueID(d.uint32())
	bits := d.uvarint()
	q.Paused = bits&queuePaused != 0
	q.Configured = bits&queueConfigured != 0
	q.Hidden = bits&queueHidden != 0
	q.Settings.Serials = bits&queueSerials != 0
	q.Linked = bits&queueLinked != 0
	q.Settings.OnePerGroup = bits&queueOnePerGroup != 0
	q.Created = job.Time(d.varint())
	q.PausedTill = d.since(q.Created)
	q.Settings.Capacity = d.uvarint()
	if attrs := d.bytes(); len(attrs) > 0 {
		q.Settings.Attrs = append([]byte(nil), attrs...)
	}
	q.NextSerial = d.uvarint()
	d.uints(q.Counts[:])
	d.uints(q.Totals[:])
	d.uints(q.Purged[:])
	d.uints(q.Expired[:])
	q.Doors = job.Doors(d.uint32())
	if version > 1 {
		q.PausedAt = d.since(q.Created)
	}
	if version > 2 {
		q.Limits, q.Bucket = d.limits()
	}
	if version > 3 {
		d.fairness(&q)
	}
	if tidy, err := q.Limits.Tidy(); err != nil || tidy != q.Limits || version == 3 && q.Limits.IsZero() ||
		q.Bucket.Level < 0 {
		d.fail()
	}
	return q, d.end("queue")
}

// Gone reports whether j was purged from a state and only its records remain.
func (q *Queue) Gone(j *job.Job) bool { return j.Entered <= q.Purged[j.State] }

// Sweep says where the clean-up of a purged queue goes on. Dropped is the namespace
// of a queue that was removed whole, else empty.
type Sweep struct {
	Next    job.ID
	Dropped string
}

// AppendSweep appends a Sweep.
func AppendSweep(dst []byte, s Sweep) []byte {
	return appendString(binary.AppendUvarint(dst, uint64(s.Next)), s.Dropped)
}

// DecodeSweep is the inverse of AppendSweep.
func DecodeSweep(b []byte) (Sweep, error) {
	d := decoder{b: b}
	s := Sweep{Next: job.ID(d.uvarint()), Dropped: d.text()}
	return s, d.end("sweep")
}
