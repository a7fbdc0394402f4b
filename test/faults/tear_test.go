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
)

// chronicle is a directory with what was written to it in order, and where.
type chronicle struct {
	files image
	log   string // the newest
	// ends has for each job where the newest log ended when its push was acknowledged, or zero
	// if that was in an earlier log.
	ends []int
}

// jobCount is how many jobs a chronicle has, of which some are in tables and some in the newest log only.
const jobCount = 400

// newChronicle pushes jobs one after the other, each numbered in its body.
func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	rng := rand.New(rand.NewPCG(*seedFlag, 2))
	fsys := vfs.NewCrashableMem()
	n := open(t, fsys, memDir)
	c := n.NewCaller()
	ch := &chronicle{}
	for i := range jobCount {
		body := append(fmt.Appendf(nil, "%d ", i), bytesOf(rng, rng.IntN(600))...)
		must(t, c, push("q", string(body)))
		newest, data := newestLog(t, fsys)
		if newest != ch.log {
			clear(ch.ends)
			ch.log = newest
		}
		_, end, _ := logRecords(t, ch.log, data)
		ch.ends = append(ch.ends, end)
	}
	ch.files = imageNow(t, fsys)
	n.mustClose(t)
	if len(ch.files.ofKind("table")) == 0 || slices.Max(ch.ends) < 16<<10 {
		t.Fatalf("tables %v and a log of %d bytes are too little", ch.files.ofKind("table"), slices.Max(ch.ends))
	}
	return ch
}

// newestLog returns the log that is being written.
func newestLog(t *testing.T, fsys vfs.FS) (name string, data []byte) {
	t.Helper()
	names, err := fsys.List(memDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			name = max(name, n)
		}
	}
	return name, readFile(t, fsys, fsys.PathJoin(memDir, name))
}

// logRecords returns where the records of a log begin and where the last ends: behind that a file may hold those of the log that it
// was before. Up to synced it tells itself that it had been synced.
func logRecords(t *testing.T, name string, data []byte) (begins []int, end, synced int) {
	t.Helper()
	const block, header, syncHeader = 32 << 10, 11, 19 // as internal/store/pebblestore/log.go has it
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	for end+syncHeader <= len(data) {
		if left := block - end%block; left < syncHeader {
			end += left
			continue
		}
		chunk := data[end:]
		kind := chunk[6]
		if kind < 5 || kind > 12 || uint64(binary.LittleEndian.Uint32(chunk[7:])) != number {
			break
		}
		if kind == 5 || kind == 6 || kind == 9 || kind == 10 { // whole, or the first part
			begins = append(begins, end)
		}
		if end += header + int(binary.LittleEndian.Uint16(chunk[4:])); kind > 8 {
			end += syncHeader - header
			synced = max(synced, int(binary.LittleEndian.Uint64(chunk[header:])&^(1<<63)))
		}
	}
	return begins, end, synced
}

// safe returns how many jobs are there whatever happens to the newest log from a byte on.
func (ch *chronicle) safe(from int) int {
	n := 0
	for n < len(ch.ends) && ch.ends[n] <= from {
		n++
	}
	return n
}

// recovered returns how many jobs a directory has. They must be the first ones, whole and in order, and
// all that belongs to them must fit.
func (ch *chronicle) recovered(t *testing.T, fsys vfs.FS) (n int, err error) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{Dir: memDir, FS: fsys, NoCompactions: true})
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

// tear is one way to spoil the end of a file: from is the first byte that may differ.
type tear struct {
	what string
	from int
	data []byte
}

// tearsOf draws what may become of the end of a file, of which all is in use up to end.
func tearsOf(rng *rand.Rand, data []byte, end int) tear {
	const page, sector = 4096, 512
	tail := max(0, end-64<<10)
	lastPage := max(0, (end-1)/page*page)
	switch rng.IntN(5) {
	case 0:
		from := lastPage
		return tear{"the last page is zero", from, append(slices.Clone(data[:from]), make([]byte, len(data)-from)...)}
	case 1:
		return tear{"the last page comes twice", end, append(slices.Clone(data[:end]), data[lastPage:end]...)}
	case 2:
		from := max(0, end-sector*(1+rng.IntN(8))) / sector * sector
		to := min(len(data), from+sector)
		out := slices.Clone(data)
		copy(out[from:to], bytesOf(rng, to-from))
		return tear{"a sector is of something else", from, out}
	case 3:
		from := max(0, end-sector*(1+rng.IntN(8))) / sector * sector
		out := slices.Clone(data)
		clear(out[from:min(len(out), from+sector)])
		return tear{"a sector is zero", from, out}
	default:
		from := tail + rng.IntN(end-tail)
		return tear{"the file ends early", from, data[:from]}
	}
}

// TestTears spoils the ends of files as disks and crashes do. What is recovered begins with everything that lies
// before the damage, and is a beginning of what was done, without a hole; or the damage is told.
func TestTears(t *testing.T) {
	t.Parallel()
	ch := newChronicle(t)
	type count struct{ torn, whole, prefix, told int }
	var mu sync.Mutex
	counts := map[string]*count{}
	kinds := []string{"log", "log", "log", "table", "manifest", "options", "format"}
	deal(t, *tearsFlag, func(t *testing.T, i int) { //nolint:thelper // a part of the test
		rng := rand.New(rand.NewPCG(*seedFlag, uint64(i)+1<<32))
		kind := kinds[rng.IntN(len(kinds))]
		names := ch.files.ofKind(kind)
		name := names[len(names)-1]
		if kind == "table" {
			name = names[rng.IntN(len(names))]
		}
		end := len(ch.files[name])
		if name == ch.log {
			end = ch.ends[jobCount-1]
		}
		tr := tearsOf(rng, ch.files[name], end)
		got, err := ch.recovered(t, ch.files.with(name, tr.data).mem(t))
		safe := 0
		if name == ch.log {
			safe = ch.safe(tr.from)
		}
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
		case got == jobCount:
			counts[kind].whole++
		default:
			counts[kind].prefix++
			if got < safe || kind != "log" {
				t.Errorf("tear %d: %s: %s from byte %d of %d: nobody is told, and %d jobs are left, want at least %d",
					i, name, tr.what, tr.from, len(ch.files[name]), got, safe)
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
	data := ch.files[ch.log]
	begin, end := ch.ends[jobCount-2], ch.ends[jobCount-1]
	if begin == 0 || end > len(data) {
		t.Fatalf("the last record is at %d to %d of %d", begin, end, len(data))
	}
	rng := rand.New(rand.NewPCG(*seedFlag, 3))
	wants := func(what string, from int, p []byte) {
		got, err := ch.recovered(t, ch.files.with(ch.log, p).mem(t))
		if err != nil || got != jobCount-1 {
			t.Errorf("from byte %d on, %d into the record, the log %s: %d jobs, %v", from, from-begin, what, got, err)
		}
	}
	const sector = 512
	for from := begin; from < end; from++ {
		if from%7 == 0 {
			wants("ends", from, data[:from])
		}
		if from != begin && from%sector != 0 {
			continue
		}
		wants("is zero", from, append(slices.Clone(data[:from]), make([]byte, len(data)-from)...))
		wants("is of something else", from, append(slices.Clone(data[:from]), bytesOf(rng, len(data)-from)...))
		// What a log that is reused held before may look nearly the same.
		if at := (from/sector + 1) * sector; at < end {
			similar := slices.Clone(data)
			similar[at] ^= 4
			wants("is nearly the same", from, similar)
		}
	}
	if got, err := ch.recovered(t, ch.files.mem(t)); err != nil || got != jobCount {
		t.Errorf("whole: %d jobs, %v", got, err)
	}
}
