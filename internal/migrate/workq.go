package migrate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The command log of Workq is files of nine digits and .log. Each begins with eight bytes: wqwq and the version. Then
// come records: a time of 15 bytes, the length of a command as a varint, the command, and a checksum of all that. A
// command is its type, the id of a job, and what else it has. Numbers of fixed size are big-endian.
const (
	workqHead    = "wqwq\x00\x00\x00\x01"
	workqTime    = 15
	workqRecords = 64 << 20 // of one at most

	workqAdd      = 1
	workqSchedule = 2
	workqComplete = 3
	workqFail     = 4
	workqDelete   = 5
	workqExpire   = 6
	workqLease    = 7
	workqLapse    = 8

	workqAttempts = 255 // after this many the original gives up, whatever was asked for
)

var (
	workqFile  = regexp.MustCompile(`^([0-9]{9})\.log$`)
	workqTable = crc32.MakeTable(crc32.Castagnoli)
)

// workq reads the command log of a server that is stopped.
type workq struct {
	files []string
	names map[string]string // one text for all jobs of a name
	jobs  map[dialect.UUID]*workqJob
	count int // that were added, which orders them
}

// workqJob is a job as the log tells it so far, with payload and result left in the files.
type workqJob struct {
	id              dialect.UUID
	order           int
	name            string
	state           job.State
	ttr             uint64 // milliseconds
	ttl             uint64
	priority        int32
	maxAttempts     uint8
	maxFails        uint8
	attempts        uint8
	runAt, created  time.Time
	payload, result piece
}

func openWorkq(_ context.Context, dir string) (Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := &workq{names: make(map[string]string), jobs: make(map[dialect.UUID]*workqJob)}
	if w.files, err = logFiles(dir, workqFile); err != nil {
		return nil, err
	}
	for i := range w.files {
		err := readLog(w.files[i], i == len(w.files)-1, len(workqHead), func(l *logFile) error { return w.one(l, i) })
		if err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(w.jobs, func(_ dialect.UUID, j *workqJob) bool { return j.expireAt() <= job.TimeOf(time.Now()) })
	return w, nil
}

func (w *workq) Protocol() string                      { return "workq" }
func (w *workq) Count(context.Context) (uint64, error) { return uint64(len(w.jobs)), nil }
func (w *workq) Close() error                          { return nil }

// Name is the same for all: ids of jobs are random, and a job has the same id whether it is read or leased.
func (w *workq) Name() string { return "workq" }

// one reads a record, or the head of a file.
func (w *workq) one(l *logFile, file int) error {
	if l.at == 0 {
		if !bytes.Equal(l.record, []byte(workqHead)) {
			return fmt.Errorf(
				"it begins with %x: it is no command log of Workq, or of another version than 1",
				l.record,
			)
		}
		return nil
	}
	size, body, err := workqSize(l)
	if err != nil {
		return err
	}
	if err := l.fill(body + size + crc32.Size); err != nil {
		return err
	}
	end := body + size
	if crc32.Checksum(l.record[:end], workqTable) != binary.BigEndian.Uint32(l.record[end:]) {
		return fmt.Errorf("the checksum of a record is wrong: %w", errDamaged)
	}
	return w.command(&workqReader{text: l.record[:end], next: body, file: file, at: l.at})
}

// workqSize reads what comes before a command: how long it is, and where it begins.
func workqSize(l *logFile) (size, body int, err error) {
	for n := workqTime + 1; n <= workqTime+binary.MaxVarintLen32; n++ {
		if err := l.fill(n); err != nil {
			return 0, 0, err
		}
		if l.record[n-1] < 0x80 {
			size, _ := binary.Uvarint(l.record[workqTime:])
			if size == 0 || size > workqRecords {
				break
			}
			return int(size), n, nil
		}
	}
	return 0, 0, fmt.Errorf("the length of a record is wrong: %w", errDamaged)
}

// command has a command happen again.
func (w *workq) command(r *workqReader) error {
	kind := r.bytes(1)[0]
	id := dialect.UUID(r.bytes(len(dialect.UUID{})))
	j := w.jobs[id]
	var result piece
	switch kind {
	case workqAdd, workqSchedule:
		j := w.job(r, id)
		w.jobs[id] = j
	case workqComplete, workqFail:
		result = r.piece()
	case workqDelete, workqExpire, workqLease, workqLapse:
	default:
		return fmt.Errorf("a command of the type %d is not known", kind)
	}
	if r.short || r.next != len(r.text) {
		return fmt.Errorf("a command of the type %d is of another form than is known here", kind)
	}
	if j == nil {
		return nil // it has expired, and what is left of it was not cleaned away yet
	}
	switch kind {
	case workqComplete:
		j.state, j.result = job.Done, result
	case workqFail:
		j.state, j.result = job.Failed, result
	case workqDelete, workqExpire:
		delete(w.jobs, id)
	case workqLease:
		j.state = job.Leased
		j.attempts = min(j.attempts, workqAttempts-1) + 1
	case workqLapse:
		j.lapse()
	}
	return nil
}

// lapse ends an attempt that took too long. One that was settled meanwhile is settled.
func (j *workqJob) lapse() {
	switch {
	case j.state != job.Leased:
	case j.attempts >= cmp.Or(j.maxAttempts, workqAttempts):
		j.state = job.Failed
	default:
		j.state = job.Ready
	}
}

// job reads a job that is added.
func (w *workq) job(r *workqReader, id dialect.UUID) *workqJob {
	w.count++
	j := &workqJob{id: id, order: w.count, state: job.Ready}
	name := string(r.bytes(r.length()))
	if w.names[name] == "" {
		w.names[name] = name
	}
	j.name = w.names[name]
	j.ttr, j.ttl = r.uint(), r.uint()
	j.priority = int32(r.int())                                  //nolint:gosec // as it was written
	j.maxAttempts, j.maxFails = uint8(r.uint()), uint8(r.uint()) //nolint:gosec // as they were written
	j.payload = r.piece()
	j.runAt, j.created = r.time(), r.time()
	return j
}

func (j *workqJob) expireAt() job.Time {
	from := j.created
	if !j.runAt.IsZero() {
		from = j.runAt
	}
	return after(job.TimeOf(from), j.ttl)
}

// after adds milliseconds to an instant; a sum beyond the clock's range is never.
func after(t job.Time, ms uint64) job.Time {
	if ms > uint64(job.Never-t)/1000 { //nolint:gosec // before never
		return job.Never
	}
	return t + job.Time(ms)*1000 //nolint:gosec // checked above
}

// Read tells the jobs in the order in which they were added.
func (w *workq) Read(ctx context.Context, to Sink) error {
	files := pieces{paths: w.files}
	defer files.close() //nolint:errcheck // only read from
	jobs := slices.SortedFunc(maps.Values(w.jobs), func(a, b *workqJob) int { return cmp.Compare(a.order, b.order) })
	return tell(ctx, jobs, to, func(j *workqJob) (a *dialect.Arrival, err error) {
		a = j.arrival()
		if a.Body, err = files.read(j.payload); err == nil && j.result.size > 0 {
			a.Result, err = files.read(j.result)
		}
		return a, err
	})
}

func (j *workqJob) arrival() *dialect.Arrival {
	a := &dialect.Arrival{
		ID: workqID(
			j.id,
			j.created,
		),
		Key:         j.id.String(),
		Queue:       j.name,
		State:       j.state.String(),
		Priority:    int64(j.priority),
		TTR:         time.Duration(min(j.ttr, 1<<40)) * time.Millisecond,
		TTL:         j.ttl,
		Created:     job.TimeOf(j.created),
		ExpireAt:    j.expireAt(),
		Attempts:    uint32(j.attempts),
		MaxAttempts: uint32(j.maxAttempts),
		MaxFails:    uint32(j.maxFails),
	}
	if !j.runAt.IsZero() {
		if a.RunAt = max(job.TimeOf(j.runAt), 1); j.state == job.Ready && j.runAt.After(time.Now()) {
			a.State = job.Scheduled.String()
		}
	}
	switch j.state { //nolint:exhaustive // the others are as they are
	case job.Leased:
		a.Attempts-- // it is tried again
	case job.Failed:
		a.Fails = 1
	}
	return a
}

// workqID tells a job from others that had the same id before it. What a server shows of the time are its seconds.
func workqID(id dialect.UUID, created time.Time) string {
	return id.String() + " " + created.UTC().Format(time.RFC3339)
}

// workqReader reads the parts of a command.
type workqReader struct {
	text []byte // of the record
	next int    // in text
	file int
	at   int64 // of the record, in the file
	// short tells that something is missing, or is of another form.
	short bool
}

// bytes returns the next n bytes. They are zeros if there are fewer.
func (r *workqReader) bytes(n int) []byte {
	if n > len(r.text)-r.next {
		r.short = true
		return make([]byte, min(n, workqTime+1))
	}
	r.next += n
	return r.text[r.next-n : r.next]
}

func (r *workqReader) uint() uint64 {
	n, used := binary.Uvarint(r.text[r.next:])
	if used <= 0 {
		r.short = true
		return 0
	}
	r.next += used
	return n
}

func (r *workqReader) int() int64 {
	n, used := binary.Varint(r.text[r.next:])
	if used <= 0 {
		r.short = true
		return 0
	}
	r.next += used
	return n
}

func (r *workqReader) length() int {
	n := r.uint()
	if n > uint64(len(r.text)-r.next) { //nolint:gosec // not negative
		r.short = true
		return 0
	}
	return int(n) //nolint:gosec // checked above
}

// piece passes over bytes, and tells where they are.
func (r *workqReader) piece() piece {
	n := r.length()
	p := piece{int32(r.file), int32(n), r.at + int64(r.next)} //nolint:gosec // a record is shorter
	r.bytes(n)
	return p
}

func (r *workqReader) time() (t time.Time) {
	if t.UnmarshalBinary(r.bytes(workqTime)) != nil {
		r.short = true
	}
	return t
}
