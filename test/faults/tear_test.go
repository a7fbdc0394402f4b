//go:build linux

package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
)

// chronicle is a directory with what was written to it in order, and where.
type chronicle struct {
	files   image
	count   int    // of jobs, of which some are in tables, some in the newest log and some in the journal alone
	applied int    // the first ones, that are not in the journal alone
	log     string // the newest
	logEnd  int    // where its last record ends
	// journal has the records of the others in order, all in one file.
	journal []storetest.JournalRecord
}

// A chronicle has so many jobs at least, and so many in the journal alone.
const (
	jobsMin      = 400
	jobsUnmerged = 30
)

// newChronicle pushes jobs one after the other, each numbered in its body.
func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	rng := rand.New(rand.NewPCG(*seedFlag, 2))
	fsys := &storetest.JournalWatch{MemFS: vfs.NewCrashableMem()}
	n := open(t, fsys, memDir)
	c := n.NewCaller()
	ch := &chronicle{}
	pushJobs := func(more int) {
		for range more {
			must(t, c, push("q", string(append(fmt.Appendf(nil, "%d ", ch.count), bytesOf(rng, rng.IntN(600))...))))
			ch.count++
		}
	}
	pushJobs(jobsMin)
	for !ch.complete(t) {
		n.apply(t)
		ch.applied = ch.count
		before := len(fsys.Written())
		pushJobs(jobsUnmerged)
		ch.journal = fsys.Written()[before:]
		ch.files = imageNow(t, fsys.MemFS)
		if ch.count > 20*jobsMin {
			t.Fatalf("%d jobs, and there is never enough in tables, the log and the journal", ch.count)
		}
	}
	n.mustClose(t)
	return ch
}

// complete reports whether all of the last jobs are in one file of the journal alone, and others in tables and in the log. Pebble
// has them applied by itself now and then.
func (ch *chronicle) complete(t *testing.T) bool {
	t.Helper()
	if len(ch.journal) != jobsUnmerged || ch.journal[0].Begin > ch.journal[jobsUnmerged-1].Begin {
		return false
	}
	if ch.log, ch.logEnd = newestLog(t, ch.files); ch.logEnd < 8<<10 || len(ch.files.ofKind("table")) == 0 {
		return false
	}
	name, from := ch.journal[0].Name(), ch.journal[0].Begin
	without := slices.Clone(ch.files[name])
	clear(without[from:])
	n, err := ch.recovered(t, ch.files.with(name, without).mem(t))
	if err != nil {
		t.Fatal(err)
	}
	return n == ch.applied
}

// newestLog returns the log that is being written, and where its last record ends: behind that a file may hold those of the log that it
// was before.
func newestLog(t *testing.T, files image) (name string, end int) {
	t.Helper()
	const block, header, syncHeader = 32 << 10, 11, 19 // as internal/store/pebblestore/log.go has it
	names := files.ofKind("log")
	name = names[len(names)-1]
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	for data := files[name]; end+syncHeader <= len(data); {
		if left := block - end%block; left < syncHeader {
			end += left
			continue
		}
		chunk := data[end:]
		kind := chunk[6]
		if kind < 5 || kind > 12 || uint64(binary.LittleEndian.Uint32(chunk[7:])) != number {
			break
		}
		if end += header + int(binary.LittleEndian.Uint16(chunk[4:])); kind > 8 {
			end += syncHeader - header
		}
	}
	return name, end
}

// safe returns how many jobs are there whatever happens to the file of the journal that is in use from a byte on.
func (ch *chronicle) safe(from int) int {
	n := ch.applied
	for _, w := range ch.journal {
		if w.End <= from {
			n++
		}
	}
	return n
}

// behind reports whether a whole record that is needed lies behind a byte of that file.
func (ch *chronicle) behind(to int) bool { return ch.journal[len(ch.journal)-1].Begin >= to }

// recovered returns how many jobs a directory has. They must be the first ones, whole and in order, and
// all that belongs to them must fit.
func (ch *chronicle) recovered(t *testing.T, fsys vfs.FS) (n int, err error) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: fsys, NoCompactions: true, JournalBytes: journalBytes})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := engine.CheckInvariants(s, job.TimeOf(time.Now()), nil); err != nil {
		return 0, err
	}
	page, err := engine.NewQuery(s).List(engine.ListOptions{Namespace: namespace, Queue: "q", State: job.Ready, Limit: 1 << 30, Bodies: true})
	if err != nil && !errors.Is(err, job.ErrNoQueue) {
		return 0, err
	}
	for i := range page.Jobs {
		head, _, _ := bytes.Cut(page.Jobs[i].Body, []byte(" "))
		if n, err := strconv.Atoi(string(head)); err != nil || n != i {
			return 0, fmt.Errorf("a hole: job %d comes as number %d", n, i)
		}
	}
	return len(page.Jobs), nil
}

// tear is one way to spoil the end of a file: from is the first byte that may differ, and to the first behind it that does not.
type tear struct {
	what     string
	from, to int
	data     []byte
}

// tearsOf draws what may become of the end of a file, of which all is in use up to end.
func tearsOf(rng *rand.Rand, data []byte, end int) tear {
	const page, sector = 4096, 512
	tail := max(0, end-64<<10)
	lastPage := max(0, (end-1)/page*page)
	switch rng.IntN(5) {
	case 0:
		from := lastPage
		return tear{"the last page is zero", from, len(data), append(slices.Clone(data[:from]), make([]byte, len(data)-from)...)}
	case 1:
		return tear{"the last page comes twice", end, len(data), append(slices.Clone(data[:end]), data[lastPage:end]...)}
	case 2:
		from := max(0, end-sector*(1+rng.IntN(8))) / sector * sector
		to := min(len(data), from+sector)
		out := slices.Clone(data)
		copy(out[from:to], bytesOf(rng, to-from))
		return tear{"a sector is of something else", from, to, out}
	case 3:
		from := max(0, end-sector*(1+rng.IntN(8))) / sector * sector
		to := min(len(data), from+sector)
		out := slices.Clone(data)
		clear(out[from:to])
		return tear{"a sector is zero", from, to, out}
	default:
		from := tail + rng.IntN(end-tail)
		return tear{"the file ends early", from, len(data), data[:from]}
	}
}

// TestTears spoils the ends of files as disks and crashes do. Of the journal a beginning of what was done is recovered, without a
// hole, with everything that lies before the damage; if anything is left behind that, it is told. Whatever else is torn, nothing is lost,
// because the journal still has it; or it is told.
func TestTears(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	type count struct{ torn, whole, prefix, told int }
	var mu sync.Mutex
	counts := map[string]*count{}
	kinds := []string{"journal", "journal", "journal", "log", "log", "log", "table", "manifest", "options", "format"}
	deal(t, *tearsFlag, func(t *testing.T, i int) { //nolint:thelper // a part of the test
		rng := rand.New(rand.NewPCG(*seedFlag, uint64(i)+1<<32))
		kind := kinds[rng.IntN(len(kinds))]
		names := slices.DeleteFunc(ch.files.ofKind(kind), func(name string) bool { return len(ch.files[name]) == 0 })
		name := names[len(names)-1]
		if kind == "table" || kind == "journal" {
			name = names[rng.IntN(len(names))]
		}
		end, last := len(ch.files[name]), ch.journal[len(ch.journal)-1]
		switch name {
		case ch.log:
			end = ch.logEnd
		case last.Name():
			end = last.End
		}
		tr := tearsOf(rng, ch.files[name], end)
		got, err := ch.recovered(t, ch.files.with(name, tr.data).mem(t))
		mu.Lock()
		defer mu.Unlock()
		if counts[kind] == nil {
			counts[kind] = &count{}
		}
		counts[kind].torn++
		switch {
		case err != nil:
			counts[kind].told++
			if !refusal(err) {
				t.Errorf("tear %d: %s: %s from byte %d: %v", i, name, tr.what, tr.from, err)
			}
		case got == ch.count:
			counts[kind].whole++
		default:
			counts[kind].prefix++
			if name != last.Name() || got < ch.safe(tr.from) || ch.behind(tr.to) {
				t.Errorf("tear %d: %s: %s from byte %d to %d of %d: nobody is told, and %d jobs are left of %d",
					i, name, tr.what, tr.from, tr.to, len(ch.files[name]), got, ch.count)
			}
		}
	})
	for kind, c := range counts {
		t.Logf("%s: %+v", kind, *c)
	}
}

// TestTornLastWrite spoils nothing but the last record of the journal, which a crash may do before it was synced: the
// directory always opens, with everything that came before.
func TestTornLastWrite(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	last := ch.journal[len(ch.journal)-1]
	data, begin, end := ch.files[last.Name()], last.Begin, last.End
	rng := rand.New(rand.NewPCG(*seedFlag, 3))
	wants := func(what string, from int, p []byte) {
		got, err := ch.recovered(t, ch.files.with(last.Name(), p).mem(t))
		if err != nil || got != ch.count-1 {
			t.Errorf("from byte %d on, %d into the record, the journal %s: %d jobs of %d, %v", from, from-begin, what, got, ch.count, err)
		}
	}
	// mixed returns the file with the last record of one kind up to a byte, and of another behind that.
	mixed := func(from int, head, tail []byte) []byte {
		return slices.Concat(data[:begin], head[begin:from], tail[from:end], data[end:])
	}
	const sector = 512
	padded := 15 // bytes at the end that may mean nothing
	for from := begin; from < end-padded; from++ {
		if from%7 == 0 { // which no crash does to a file that had its full length before
			if _, err := ch.recovered(t, ch.files.with(last.Name(), data[:from]).mem(t)); !refusal(err) || from >= journalBytes {
				t.Errorf("the journal ends at byte %d, %d into the last record: %v", from, from-begin, err)
			}
		}
		if from != begin && from%sector != 0 {
			continue
		}
		wants("is zero", from, mixed(from, data, make([]byte, end)))
		wants("is of something else", from, mixed(from, data, bytesOf(rng, end)))
		wants("is what it was", from, mixed(from, data, last.Before))
		if from > begin {
			wants("was not written before", from, mixed(from, last.Before, data))
		}
		// What was there before may look nearly the same.
		if at := (from/sector + 1) * sector; at < end-padded {
			similar := slices.Clone(data)
			similar[at] ^= 4
			wants("is nearly the same", from, similar)
		}
	}
	if got, err := ch.recovered(t, ch.files.mem(t)); err != nil || got != ch.count {
		t.Errorf("whole: %d jobs of %d, %v", got, ch.count, err)
	}
}
