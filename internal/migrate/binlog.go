package migrate

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The binlog of beanstalkd is files named binlog.N. Each begins with its version. Then come records: the length of a
// tube's name, the name, the job without its body, the body. A record without a name is a change of a job that an
// earlier one has told whole. Numbers are those of the machine, of which only little-endian ones are known here.
const (
	binlogVersion  = 7
	binlogJobSize  = 80
	binlogNameMax  = 200
	binlogBodyMax  = 1 << 30
	binlogDeleted  = 0
	binlogReserved = 2
	binlogBuried   = 3
	binlogDelayed  = 4
)

// binlog reads the directory of a server that is stopped.
type binlog struct {
	dir   string
	files []string
	jobs  map[uint64]*binlogJob // without their bodies
}

// binlogJob is the last that was told of a job.
type binlogJob struct {
	tube   string
	file   int // where its body is
	at     int64
	size   int
	record [binlogJobSize]byte
}

func openBinlog(dir string) (Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	b := &binlog{dir: dir, jobs: make(map[uint64]*binlogJob)}
	if b.files, err = filepath.Glob(filepath.Join(dir, "binlog.*")); err != nil {
		return nil, err
	}
	number := func(path string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "binlog.")) // others come first
		return n
	}
	slices.SortFunc(b.files, func(x, y string) int { return cmp.Compare(number(x), number(y)) })
	if len(b.files) == 0 {
		return nil, fmt.Errorf("%s has no files of a binlog", dir)
	}
	for i := range b.files {
		if err := b.scan(i); err != nil {
			return nil, fmt.Errorf("%s: %w", b.files[i], err)
		}
	}
	return b, nil
}

func (b *binlog) Protocol() string                      { return "beanstalkd" }
func (b *binlog) Name() string                          { return "beanstalkd:" + b.dir }
func (b *binlog) Count(context.Context) (uint64, error) { return uint64(len(b.jobs)), nil }
func (b *binlog) Close() error                          { return nil }

// scan reads the records of one file. What was cut off at its end was never acknowledged.
func (b *binlog) scan(index int) error {
	file, err := os.Open(b.files[index])
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from
	in := &counted{r: bufio.NewReaderSize(file, 1<<20)}
	var version [4]byte
	if _, err := io.ReadFull(in, version[:]); err != nil {
		return nil
	}
	if v := binary.LittleEndian.Uint32(version[:]); v != binlogVersion {
		return fmt.Errorf("it has version %d: only %d can be read", v, binlogVersion)
	}
	for {
		done, err := b.one(in, index)
		if done || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w", in.at, err)
		}
	}
}

// counted tells how far a reader is.
type counted struct {
	r  *bufio.Reader
	at int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.at += int64(n)
	return n, err
}

// one reads a record. The rest of a file is zeros: done.
func (b *binlog) one(in *counted, index int) (done bool, err error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return false, err
	}
	n := int32(binary.LittleEndian.Uint32(length[:])) //nolint:gosec // a negative one is wrong
	if n < 0 || n > binlogNameMax {
		return false, fmt.Errorf("a name of %d bytes: the file is damaged", n)
	}
	name := make([]byte, n)
	var record [binlogJobSize]byte
	if _, err := io.ReadFull(in, name); err != nil {
		return false, err
	}
	if _, err := io.ReadFull(in, record[:]); err != nil {
		return false, err
	}
	id := binary.LittleEndian.Uint64(record[:])
	if id == 0 {
		return true, nil
	}
	j := b.jobs[id]
	if n > 0 {
		size := int(int32(binary.LittleEndian.Uint32(record[32:]))) //nolint:gosec // a negative one is wrong
		if size < len("\r\n") || size > binlogBodyMax {
			return false, fmt.Errorf("a body of %d bytes: the file is damaged", size)
		}
		j = &binlogJob{tube: string(name), file: index, at: in.at, size: size - len("\r\n")}
		if _, err := io.CopyN(io.Discard, in, int64(size)); err != nil {
			return false, err
		}
	}
	switch {
	case record[76] == binlogDeleted:
		delete(b.jobs, id)
	case j != nil:
		j.record = record
		b.jobs[id] = j
	}
	return false, nil
}

// Read tells the jobs by their ids.
func (b *binlog) Read(ctx context.Context, to Sink) error {
	open := -1
	var file *os.File
	defer func() {
		if file != nil {
			_ = file.Close() // only read from
		}
	}()
	for _, id := range slices.Sorted(maps.Keys(b.jobs)) {
		j := b.jobs[id]
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if j.file != open {
			if file != nil {
				_ = file.Close() // only read from
			}
			var err error
			if file, err = os.Open(b.files[j.file]); err != nil {
				return err
			}
			open = j.file
		}
		a := j.arrival(id)
		a.Body = make([]byte, j.size)
		if _, err := file.ReadAt(a.Body, j.at); err != nil {
			return fmt.Errorf("read job %d of %s: %w", id, b.files[j.file], err)
		}
		if err := to.Take(a); err != nil {
			return err
		}
	}
	return nil
}

// arrival tells a job without its body.
func (j *binlogJob) arrival(id uint64) *dialect.Arrival {
	r := &j.record
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(r[at:]) }
	i64 := func(at int) int64 { return int64(binary.LittleEndian.Uint64(r[at:])) } //nolint:gosec // the same bits
	a := &dialect.Arrival{
		ID: strconv.FormatUint(id, 10), Queue: j.tube, State: job.Ready.String(), Priority: int64(u32(8)),
		Delay: time.Duration(i64(16)), TTR: time.Duration(i64(24)),
		Created: job.Time(i64(40) / 1000), Attempts: u32(56), Lapses: u32(60), Releases: u32(64), Buries: u32(68),
		Kicks: u32(72),
	}
	switch r[76] {
	case binlogReserved:
		a.State = job.Leased.String()
	case binlogDelayed:
		a.State, a.RunAt = job.Scheduled.String(), job.Time(i64(48)/1000)
	case binlogBuried:
		a.State = job.Buried.String()
	}
	return a
}
