package migrate

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hdt3213/rdb/crc64jones"
	"github.com/hdt3213/rdb/model"
	"github.com/hdt3213/rdb/parser"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// rdbFile is a file that a Redis server has saved. It is read several times, with one key in memory at a time.
type rdbFile struct {
	path string
	db   int
}

// openRDB opens FILE, or FILE?db=N, and verifies its checksum.
func openRDB(ctx context.Context, address string) (*rdbFile, error) {
	path, query, _ := strings.Cut(address, "?")
	f := &rdbFile{path: path}
	if text, ok := strings.CutPrefix(query, "db="); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a number of a database: write FILE?db=N", text)
		}
		f.db = n
	} else if query != "" {
		return nil, fmt.Errorf("%q is not understood: write FILE, or FILE?db=N", address)
	}
	return f, f.verify(ctx)
}

const rdbTrailer = 8 // bytes of the checksum at the end

// verify compares the checksum at the end of the file, before anything of it is used.
func (f *rdbFile) verify(ctx context.Context) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from
	info, err := file.Stat()
	if err != nil {
		return err
	}
	in := following(ctx, bufio.NewReaderSize(file, 1<<20))
	magic := make([]byte, 5) //nolint:mnd // REDIS
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != "REDIS" || info.Size() <= rdbTrailer {
		return fmt.Errorf("%s is no RDB file of a Redis server", f.path)
	}
	sum := crc64jones.New()
	_, _ = sum.Write(magic) // it cannot fail
	if _, err := io.CopyN(sum, in, info.Size()-rdbTrailer-int64(len(magic))); err != nil {
		return err
	}
	trailer := make([]byte, rdbTrailer)
	if _, err := io.ReadFull(in, trailer); err != nil {
		return err
	}
	if want := binary.LittleEndian.Uint64(trailer); want != 0 && want != sum.Sum64() { // zero: the server writes none
		return fmt.Errorf("%s is damaged or not whole: its checksum is wrong", f.path)
	}
	return nil
}

// following returns a reader that ends with ctx.
func following(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// each tells the keys of the database, one after the other.
func (f *rdbFile) each(ctx context.Context, use func(model.RedisObject) error) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from
	var failed error
	err = parser.NewDecoder(following(ctx, file)).Parse(func(o model.RedisObject) bool {
		if o.GetDBIndex() == f.db {
			failed = use(o)
		}
		return failed == nil
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	return nil
}

// faktoryFile reads the RDB file of a Faktory server.
type faktoryFile struct {
	file   *rdbFile
	queues map[string]bool
	paused []string
	jobs   uint64
}

func openFaktoryFile(ctx context.Context, address string) (Source, error) {
	file, err := openRDB(ctx, address)
	if err != nil {
		return nil, err
	}
	f := &faktoryFile{file: file, queues: map[string]bool{}}
	// The names of queues come first: they tell which lists are queues.
	err = file.each(ctx, func(o model.RedisObject) error {
		set, ok := o.(*model.SetObject)
		if !ok {
			return nil
		}
		for _, m := range set.Members {
			switch o.GetKey() {
			case faktoryQueues:
				f.queues[string(m)] = true
			case faktoryPaused:
				f.paused = append(f.paused, string(m))
			}
		}
		return nil
	})
	if err == nil {
		err = file.each(ctx, func(o model.RedisObject) error {
			if f.hasJobs(o) {
				f.jobs += uint64(o.GetElemCount()) //nolint:gosec // not negative
			}
			return nil
		})
	}
	slices.Sort(f.paused)
	return f, err
}

// hasJobs reports whether a key is that of a list or a sorted set of jobs.
func (f *faktoryFile) hasJobs(o model.RedisObject) bool {
	switch o.(type) {
	case *model.ListObject:
		return f.queues[o.GetKey()]
	case *model.ZSetObject:
		return slices.Contains([]string{faktoryWorking, faktoryScheduled, faktoryRetries, faktoryDead}, o.GetKey())
	}
	return false
}

func (f *faktoryFile) Protocol() string { return "faktory" }

// Name is that of the server itself: its jobs have the same ids wherever they are read.
func (f *faktoryFile) Name() string { return "faktory" }

func (f *faktoryFile) Close() error { return nil }

func (f *faktoryFile) Count(context.Context) (uint64, error) { return f.jobs, nil }

// Read tells what faktory.Read does, in the same order: paused queues, jobs that workers hold, and then the others as
// they stand in the file.
func (f *faktoryFile) Read(ctx context.Context, to Sink) error {
	for _, queue := range f.paused {
		if err := to.Take(&dialect.Arrival{
			ID: "paused " + queue, Queue: queue,
			State: dialect.StatePaused,
		}); err != nil {
			return err
		}
	}
	r := faktoryReader{to: to}
	for _, held := range []bool{true, false} {
		err := f.file.each(ctx, func(o model.RedisObject) error {
			if !f.hasJobs(o) || (o.GetKey() == faktoryWorking) != held {
				return nil
			}
			switch o := o.(type) {
			case *model.ListObject:
				for _, text := range slices.Backward(o.Values) { // jobs are added at the head
					if err := r.job(string(text), dialect.Arrival{
						Queue: o.Key,
						State: job.Ready.String(),
					}); err != nil {
						return err
					}
				}
			case *model.ZSetObject:
				return r.set(o)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// set reads a sorted set in the order of its scores.
func (r *faktoryReader) set(o *model.ZSetObject) error {
	slices.SortStableFunc(o.Entries, func(a, b *model.ZSetEntry) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(a.Member, b.Member))
	})
	for _, e := range o.Entries {
		if math.IsNaN(e.Score) {
			return fmt.Errorf("the sorted set %q has a score that is no number", o.Key)
		}
		if err := r.scored(o.Key, e.Member, e.Score); err != nil {
			return err
		}
	}
	return nil
}
