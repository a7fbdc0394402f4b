package migrate

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The write-ahead files of Masenko are named masenko.N.wal. The newest has everything; others are left lying. It is
// chunks: a length, a checksum and operations, as many as two bytes say, each behind two bytes of length. An operation
// is its kind and the id of a task, and what else it has. Numbers are little-endian, and instants are seconds since
// 1970.
const (
	masenkoHead   = 8
	masenkoChunks = 1 << 30 // of one at most

	masenkoAdd    = 1
	masenkoDelete = 2
	masenkoFail   = 4
	masenkoNext   = 8 // the next id

	masenkoTaskMin = 5 // bytes of an operation
)

var masenkoFile = regexp.MustCompile(`^masenko\.([0-9]+)\.wal$`)

// masenko reads the write-ahead files of a server that is stopped.
type masenko struct {
	dir   string
	file  string
	tasks map[uint32]*masenkoTask
	count int // that were added, which orders them
	names map[string]string
}

// masenkoTask is a task as the file tells it so far, with the payload left in the file.
type masenkoTask struct {
	id                     uint32
	order                  int
	queue, name, deadQueue string
	payload                piece
	runAt                  uint32 // zero: at once
	retry                  uint8
	fails                  uint32
	blockers               []uint32
}

func openMasenko(_ context.Context, dir string) (Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := logFiles(dir, masenkoFile)
	if err != nil {
		return nil, err
	}
	m := &masenko{
		dir:   dir,
		file:  files[len(files)-1],
		tasks: make(map[uint32]*masenkoTask),
		names: make(map[string]string),
	}
	return m, readLog(m.file, true, 0, m.chunk)
}

func (m *masenko) Protocol() string                      { return "masenko" }
func (m *masenko) Name() string                          { return "masenko:" + m.dir }
func (m *masenko) Count(context.Context) (uint64, error) { return uint64(len(m.tasks)), nil }
func (m *masenko) Close() error                          { return nil }

// chunk reads the operations that happened together.
func (m *masenko) chunk(l *logFile) error {
	if err := l.fill(masenkoHead); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(l.record)
	if size < 2 || size > masenkoChunks {
		return fmt.Errorf("a chunk of %d bytes: %w", size, errDamaged)
	}
	if err := l.fill(masenkoHead + int(size)); err != nil {
		return err
	}
	body := l.record[masenkoHead:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(l.record[4:]) {
		return fmt.Errorf("the checksum of a chunk is wrong: %w", errDamaged)
	}
	deleted := make(map[uint32]bool)
	next := 2
	for range binary.LittleEndian.Uint16(body) {
		if len(body)-next < 2 {
			return errMasenkoForm
		}
		n := int(binary.LittleEndian.Uint16(body[next:]))
		next += 2
		if n < masenkoTaskMin || n > len(body)-next {
			return errMasenkoForm
		}
		if err := m.operation(body[next:next+n], l.at+int64(masenkoHead+next), deleted); err != nil {
			return err
		}
		next += n
	}
	if next != len(body) {
		return errMasenkoForm
	}
	return nil
}

var errMasenkoForm = errors.New("an operation is of another form than is known here")

// operation has an operation happen again. Deleted are the tasks that others of its chunk have deleted.
func (m *masenko) operation(b []byte, at int64, deleted map[uint32]bool) error {
	id := binary.LittleEndian.Uint32(b[1:])
	t := m.tasks[id]
	switch {
	case b[0] == masenkoAdd:
		task, ok := m.add(b, at)
		if !ok {
			return errMasenkoForm
		}
		if t != nil || deleted[id] { // it moves to its dead queue, where nothing holds it up
			task.blockers = nil
		}
		m.tasks[id] = task
	case b[0] == masenkoDelete && len(b) == masenkoTaskMin:
		delete(m.tasks, id)
		deleted[id] = true
	case b[0] == masenkoFail && len(b) == masenkoTaskMin: // of a build that kept no time
		if t != nil {
			t.fails++
		}
	case b[0] == masenkoFail && len(b) == masenkoTaskMin+4:
		if t != nil {
			t.fails++
			t.runAt = binary.LittleEndian.Uint32(b[masenkoTaskMin:])
		}
	case b[0] == masenkoNext && len(b) == masenkoTaskMin:
	default:
		return fmt.Errorf("an operation of the kind %d and of %d bytes is not known here", b[0], len(b))
	}
	return nil
}

// add reads a task: queue, name and dead queue behind a byte of length each, the payload behind two, when it is to run,
// how often it is tried again, and in some builds the tasks that it waits for.
func (m *masenko) add(b []byte, at int64) (*masenkoTask, bool) {
	m.count++
	t := &masenkoTask{id: binary.LittleEndian.Uint32(b[1:]), order: m.count}
	next := masenkoTaskMin
	for _, name := range []*string{&t.queue, &t.name, &t.deadQueue} {
		if next >= len(b) || int(b[next]) > len(b)-next-1 {
			return nil, false
		}
		text := b[next+1 : next+1+int(b[next])]
		next += 1 + len(text)
		if m.names[string(text)] == "" {
			m.names[string(text)] = string(text)
		}
		*name = m.names[string(text)]
	}
	if len(b)-next < 2 {
		return nil, false
	}
	size := int(binary.LittleEndian.Uint16(b[next:]))
	next += 2
	t.payload = piece{size: int32(size), at: at + int64(next)} //nolint:gosec // 16 bits
	if next += size; len(b)-next < 5 {
		return nil, false
	}
	t.runAt, t.retry = binary.LittleEndian.Uint32(b[next:]), b[next+4]
	if next += 5; next == len(b) {
		return t, true
	}
	count := int(b[next])
	if next++; len(b)-next != 4*count {
		return nil, false
	}
	for ; next < len(b); next += 4 {
		t.blockers = append(t.blockers, binary.LittleEndian.Uint32(b[next:]))
	}
	return t, true
}

// Read tells the tasks in the order in which they were added.
func (m *masenko) Read(ctx context.Context, to Sink) error {
	file := pieces{paths: []string{m.file}}
	defer file.close() //nolint:errcheck // only read from
	now := job.TimeOf(time.Now())
	tasks := slices.SortedFunc(
		maps.Values(m.tasks),
		func(a, b *masenkoTask) int { return cmp.Compare(a.order, b.order) },
	)
	return tell(ctx, tasks, to, func(t *masenkoTask) (*dialect.Arrival, error) {
		a := t.arrival(now)
		for _, id := range t.blockers {
			if m.tasks[id] != nil {
				to.Leave(a, fmt.Sprintf("it waits for the task %d: push it again here, to wait for that one", id))
				return nil, nil
			}
		}
		payload, err := file.read(t.payload)
		if len(payload) > 0 {
			a.Text = payload
		}
		return a, err
	})
}

func (t *masenkoTask) arrival(now job.Time) *dialect.Arrival {
	a := &dialect.Arrival{
		ID: strconv.FormatUint(
			uint64(t.id),
			10,
		),
		Queue:     t.queue,
		Type:      t.name,
		DeadQueue: t.deadQueue,
		State:     job.Ready.String(),
		Attempts:  t.fails,
		Fails:     t.fails,
		MaxFails:  uint32(t.retry) + 1,
		RunAt:     job.Time(t.runAt) * 1e6,
	}
	if a.RunAt > now { // else it is ready, before those that never waited
		if a.State = job.Scheduled.String(); t.fails > 0 {
			a.State = job.Retrying.String()
		}
	}
	return a
}
