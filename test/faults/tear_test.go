//go:build linux

package faults

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/store/storetest"
	"millrace/test/tier"
)

// chronicle is a directory with what was written to it in order, and where.
type chronicle struct {
	files   image
	count   int // of jobs, of which some are in tables and some in the log alone
	applied int // the first ones, that are in tables
	// records are those of the others in order, in several segments, and the marks of their ends.
	records []storetest.LogRecord
}

// A chronicle has so many jobs at least, and so many in the log alone.
const (
	jobsMin   = 400
	jobsInLog = 60
)

// newChronicle pushes jobs one after the other, each numbered in its body.
func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	rng := rand.New(rand.NewPCG(*seedFlag, 2))
	fsys := &storetest.LogWatch{MemFS: vfs.NewCrashableMem()}
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
		n.flush(t, fsys)
		ch.applied = ch.count
		before := fsys.Written()
		pushJobs(jobsInLog)
		ch.records = behind(fsys.Written(), before[len(before)-1])
		ch.files = imageNow(t, fsys.MemFS)
		if ch.count > 20*jobsMin {
			t.Fatalf("%d jobs, and there is never enough in tables and the log", ch.count)
		}
	}
	n.mustClose(t)
	return ch
}

// complete reports whether all of the last jobs are in the log alone, each in a record of its own, in three segments at
// least, and the last one not alone in its segment. Pebble flushes them by itself now and then.
func (ch *chronicle) complete(t *testing.T) bool {
	t.Helper()
	if ch.records == nil || len(ch.jobs()) != jobsInLog || len(segmentsOf(ch.records)) < 3 ||
		ch.records[len(ch.records)-1].Ends || ch.records[len(ch.records)-2].Ends {
		return false
	}
	n, err := ch.recovered(t, ch.files.cut(ch.records, 0).mem(t))
	if err != nil && !refusal(err) {
		t.Fatal(err)
	}
	return err == nil && n == ch.applied
}

// jobs returns the records that are jobs.
func (ch *chronicle) jobs() []storetest.LogRecord {
	return slices.DeleteFunc(slices.Clone(ch.records), func(r storetest.LogRecord) bool { return r.Ends })
}

// last returns the last record.
func (ch *chronicle) last() storetest.LogRecord { return ch.records[len(ch.records)-1] }

// end returns where what is in use of a file ends.
func (ch *chronicle) end(name string) int {
	for _, r := range slices.Backward(ch.records) {
		if r.Name() == name {
			return r.End
		}
	}
	return len(ch.files[name])
}

// safe returns how many jobs are there whatever happens to the last segment from a byte on.
func (ch *chronicle) safe(from int) int {
	n := ch.applied
	for _, r := range ch.jobs() {
		if r.Name() != ch.last().Name() || r.End <= from {
			n++
		}
	}
	return n
}

// behind reports whether a whole record that is needed lies behind a byte of the last segment.
func (ch *chronicle) behind(to int) bool { return ch.last().Begin >= to }

// recovered returns how many jobs a directory has. They must be the first ones, whole and in order, and
// all that belongs to them must fit.
func (ch *chronicle) recovered(t *testing.T, fsys vfs.FS) (n int, err error) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{
		Dir: memDir, FS: fsys, NoCompactions: true,
		SegmentBytes: segmentBytes,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := engine.CheckInvariants(s, job.TimeOf(time.Now()), nil); err != nil {
		return 0, err
	}
	page, err := engine.NewQuery(s).List(engine.ListOptions{
		Namespace: namespace, Queue: "q", State: job.Ready,
		Limit: 1 << 30, Bodies: true,
	})
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

// tear is one way to spoil the end of a file: from is the first byte that may differ, and to the first behind it that
// does not.
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
		return tear{
			"the last page is zero", from, len(data),
			append(slices.Clone(data[:from]), make([]byte, len(data)-from)...),
		}
	case 1:
		out := append(slices.Clone(data[:end]), data[lastPage:end]...)
		if len(out) < len(data) { // a segment has its full length from the beginning
			out = append(out, data[len(out):]...)
		}
		return tear{"the last page comes twice", end, len(data), out}
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

// TestTears spoils the ends of files as disks and crashes do. Of the log a beginning of what was done is recovered,
// without a hole, with everything that lies before the damage; if anything is left behind that, it is told. Whatever
// else is torn, nothing is lost, because the log still has it; or it is told.
func TestTears(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	type count struct{ torn, whole, prefix, told int }
	var mu sync.Mutex
	counts := map[string]*count{}
	kinds := []string{
		"log", "log", "log", "log", "log", "last", "last", "table", "manifest", "manifest",
		"options", "format",
	}
	deal(t, cmp.Or(*tearsFlag, tier.Pick(150, 16)), func(t *testing.T, i int) { //nolint:thelper // a part of the test
		rng := rand.New(rand.NewPCG(*seedFlag, uint64(i)+1<<32))
		kind := kinds[rng.IntN(len(kinds))]
		name := ch.last().Name()
		if kind != "last" {
			names := slices.DeleteFunc(ch.files.ofKind(kind),
				func(name string) bool { return len(ch.files[name]) == 0 })
			if kind == "log" {
				names = segmentsOf(ch.records)
			}
			if name = names[len(names)-1]; kind == "table" || kind == "log" {
				name = names[rng.IntN(len(names))]
			}
		}
		tr := tearsOf(rng, ch.files[name], ch.end(name))
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
			if name != ch.last().Name() || got < ch.safe(tr.from) || ch.behind(tr.to) {
				t.Errorf("tear %d: %s: %s from byte %d to %d of %d: nobody is told, and %d jobs are left of %d",
					i, name, tr.what, tr.from, tr.to, len(ch.files[name]), got, ch.count)
			}
		}
	})
	for kind, c := range counts {
		t.Logf("%s: %+v", kind, *c)
	}
}

// TestTornLastWrite spoils nothing but the last record of the log, which a crash may do before it was synced: the
// directory always opens, with everything that came before.
func TestTornLastWrite(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	last := ch.last()
	data, begin, end := ch.files[last.Name()], last.Begin, last.End
	rng := rand.New(rand.NewPCG(*seedFlag, 3))
	wants := func(what string, from int, p []byte) {
		got, err := ch.recovered(t, ch.files.with(last.Name(), p).mem(t))
		if err != nil || got != ch.count-1 {
			t.Errorf("from byte %d on, %d into the record, the log %s: %d jobs of %d, %v", from, from-begin, what,
				got, ch.count, err)
		}
	}
	// mixed returns the file with the last record of one kind up to a byte, and of another behind that.
	mixed := func(from int, head, tail []byte) []byte {
		return slices.Concat(data[:begin], head[begin:from], tail[from:end], data[end:])
	}
	const sector = 512
	padded := 7 // bytes at the end that may mean nothing
	for from := begin; from < end-padded; from++ {
		if from%7 == 0 { // which no crash does to a file that had its full length before
			if _, err := ch.recovered(t, ch.files.with(last.Name(), data[:from]).mem(t)); !refusal(err) {
				t.Errorf("the log ends at byte %d, %d into the last record: %v", from, from-begin, err)
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
		if at := from + rng.IntN(end-padded-from); at < end-padded {
			similar := slices.Clone(data)
			similar[at] ^= 4
			wants("is nearly the same", from, similar)
		}
	}
	if got, err := ch.recovered(t, ch.files.mem(t)); err != nil || got != ch.count {
		t.Errorf("whole: %d jobs of %d, %v", got, ch.count, err)
	}
}

// TestTornEarlier spoils one record after the other that is not the last, and the marks of the ends of segments. All
// records but the last were on stable storage, as those behind them tell: it is damage, also at the borders of
// segments. A mark is only needed where the next segment is missing.
func TestTornEarlier(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	deal(t, len(ch.records)-1, func(t *testing.T, i int) { //nolint:thelper // a part of the test
		r := ch.records[i]
		rng := rand.New(rand.NewPCG(*seedFlag, uint64(i)+1<<34))
		data := ch.files[r.Name()]
		zero, other, flipped := slices.Clone(data), slices.Clone(data), slices.Clone(data)
		clear(zero[r.Begin:r.End])
		copy(other[r.Begin:r.End], bytesOf(rng, r.End-r.Begin))
		flipped[r.Begin+rng.IntN(r.End-7-r.Begin)] ^= 1 << rng.IntN(8)
		for what, p := range map[string][]byte{"zero": zero, "something else": other, "flipped": flipped} {
			got, err := ch.recovered(t, ch.files.with(r.Name(), p).mem(t))
			if r.Ends && (err != nil || got != ch.count) || !r.Ends && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("record %d of %d in the log alone, a mark: %t, is %s: %d jobs of %d, %v", i, len(ch.records),
					r.Ends, what, got, ch.count, err)
			}
		}
	})
}

// TestCutAnywhere lets the log end before each of its records, as it did once: what was written by then is there.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	deal(t, len(ch.records), func(t *testing.T, i int) { //nolint:thelper // a part of the test
		want := ch.applied
		for _, r := range ch.records[:i] {
			if !r.Ends {
				want++
			}
		}
		if ch.records[i].Ends {
			return // what a crash leaves there has a next segment, which cut takes away
		}
		if got, err := ch.recovered(t, ch.files.cut(ch.records, i).mem(t)); err != nil || got != want {
			t.Errorf("before record %d: %d jobs, %v, want %d", i, got, err, want)
		}
	})
}

// TestSegments takes segments away, cuts them off, and exchanges them for others. It is told, or makes no difference.
func TestSegments(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	needed := segmentsOf(ch.records)
	// One may just be being made.
	all := slices.DeleteFunc(ch.files.ofKind("log"),
		func(name string) bool { return len(ch.files[name]) < segmentBytes })
	for i := 0; len(all) > len(needed)+2; { // of those that are not needed some are enough
		if slices.Contains(needed, all[i]) {
			i++
		} else {
			all = slices.Delete(all, i, i+1)
		}
	}
	other := newChronicle(t)
	foreign := other.files[other.last().Name()]
	type damage struct {
		what  string
		files image
		must  bool // be told
	}
	var damages []damage
	for _, name := range all {
		data, isNeeded := ch.files[name], slices.Contains(needed, name)
		add := func(what string, must bool, p []byte) {
			damages = append(damages, damage{name + " " + what, ch.files.with(name, p), must})
		}
		gone := maps.Clone(ch.files)
		delete(gone, name)
		damages = append(damages, damage{name + " is missing", gone, isNeeded})
		for _, size := range []int{0, 1, 63, 4095, 4096, 4097, 8192, len(data) / 2, len(data) - 4096, len(data) - 1} {
			add(fmt.Sprint("has ", size, " bytes"), isNeeded, data[:size])
		}
		add("is zero", isNeeded, make([]byte, len(data)))
		add("has no header", isNeeded, append(make([]byte, 4096), data[4096:]...))
		add("has another header", isNeeded, append(slices.Clone(foreign[:4096]), data[4096:]...))
		add("is of another log", true, foreign)
		if isNeeded && name != ch.last().Name() {
			add("has nothing but its header", true, append(slices.Clone(data[:4096]), make([]byte, len(data)-4096)...))
		}
		add("is longer", false, append(slices.Clone(data), bytesOf(rand.New(rand.NewPCG(1, 1)), 5000)...))
		for _, twin := range all {
			if twin != name {
				add("is "+twin, isNeeded, ch.files[twin])
				swapped := ch.files.with(name, ch.files[twin])
				swapped[twin] = data
				damages = append(damages, damage{name + " and " + twin + " have changed their names", swapped, false})
			}
		}
	}
	told := 0
	var mu sync.Mutex
	deal(t, len(damages), func(t *testing.T, i int) { //nolint:thelper // a part of the test
		d := damages[i]
		got, err := ch.recovered(t, d.files.mem(t))
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			t.Errorf("%s: %v", d.what, err)
		case err == nil && d.must:
			t.Errorf("%s: nobody is told, and %d jobs are left of %d", d.what, got, ch.count)
		case err == nil && got != ch.count:
			t.Errorf("%s: %d jobs are left of %d", d.what, got, ch.count)
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			told++
		}
	})
	t.Logf("%d segments, %d of them needed; %d of %d damages are told", len(all), len(needed), told, len(damages))
}
