package migrate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"millrace/internal/dialect"
)

// logFiles returns the files of a directory whose names are of a form, by the number that its group finds.
func logFiles(dir string, form *regexp.Regexp) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type numbered struct {
		path   string
		number uint64
	}
	var files []numbered
	for _, e := range entries {
		if m := form.FindStringSubmatch(e.Name()); m != nil && e.Type().IsRegular() {
			if n, err := strconv.ParseUint(m[1], 10, 64); err == nil {
				files = append(files, numbered{filepath.Join(dir, e.Name()), n})
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no files whose names are like %s", dir, form)
	}
	slices.SortFunc(files, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	paths := make([]string, len(files))
	for i := range files {
		paths[i] = files[i].path
	}
	return paths, nil
}

// logFile reads the records of a log one after the other.
type logFile struct {
	in     *bufio.Reader
	size   int64  // of the file
	at     int64  // where the record begins
	record []byte // as far as it has been read
}

var errDamaged = errors.New("the file is damaged")

// readLog reads the records of a file, of which one reads one. The last of a log may be cut off or not be written: then
// it was never acknowledged, and is no record.
func readLog(path string, last bool, head int, one func(l *logFile) error) error {
	file, err := os.Open(path) //nolint:gosec // that the caller names
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from
	info, err := file.Stat()
	if err != nil {
		return err
	}
	l := &logFile{in: bufio.NewReaderSize(file, 1<<20), size: info.Size()}
	for first := head > 0; l.at < l.size; first = false {
		l.record = l.record[:0]
		if first {
			err = l.fill(head)
		}
		if err == nil {
			err = one(l)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && !last {
			err = fmt.Errorf("a record is cut off, but other files follow: %w", errDamaged)
		}
		if err != nil && last && l.torn(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s, at byte %d: %w", path, l.at, err)
		}
		l.at += int64(len(l.record))
	}
	return nil
}

// fill reads on until the record has n bytes.
func (l *logFile) fill(n int) error {
	have := len(l.record)
	if int64(n) > l.size-l.at {
		return io.ErrUnexpectedEOF
	}
	l.record = slices.Grow(l.record, n-have)[:n]
	_, err := io.ReadFull(l.in, l.record[have:])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// torn reports whether what is wrong is the tail of a file that was being written: a record that ends the file, or
// zeros.
func (l *logFile) torn(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errDamaged) && l.at+int64(len(l.record)) == l.size {
		return true
	}
	if !errors.Is(err, errDamaged) {
		return false
	}
	zero := func(b byte) bool { return b != 0 }
	if slices.ContainsFunc(l.record, zero) {
		return false
	}
	for {
		b, err := l.in.ReadByte()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if b != 0 {
			return false
		}
	}
}

// piece is a part of a file.
type piece struct {
	file int32
	size int32
	at   int64
}

// pieces reads parts of files. Those of one file are read one after the other.
type pieces struct {
	paths []string
	open  int32
	file  *os.File
}

func (p *pieces) read(c piece) ([]byte, error) {
	if p.file == nil || p.open != c.file {
		if err := p.close(); err != nil {
			return nil, err
		}
		var err error
		if p.file, err = os.Open(p.paths[c.file]); err != nil {
			return nil, err
		}
		p.open = c.file
	}
	b := make([]byte, c.size)
	if _, err := p.file.ReadAt(b, c.at); err != nil {
		return nil, fmt.Errorf("read %s again: %w", p.paths[c.file], err)
	}
	return b, nil
}

func (p *pieces) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// tell tells jobs in order, one by one. A job without an arrival is left.
func tell[T any](ctx context.Context, jobs []T, to Sink, arrival func(T) (*dialect.Arrival, error)) error {
	for _, j := range jobs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a, err := arrival(j)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if err := to.Take(a); err != nil {
			return err
		}
	}
	return nil
}
