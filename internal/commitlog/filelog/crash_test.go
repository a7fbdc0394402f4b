package filelog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
	"millrace/internal/store"
	"millrace/internal/store/storetest"
)

// knowledge is what is known about a log at a moment.
type knowledge struct {
	contents map[uint64][]byte // of all records that were appended
	trimmed  uint64            // the log may have lost the records up to here
	safe     uint64            // it must not have lost the others up to here
	newest   uint64            // it has none behind this one
}

func (k knowledge) clone() knowledge {
	k.contents = maps.Clone(k.contents)
	return k
}

// visit checks the records that a log has from a number on. Last is the last of them afterwards.
func (k knowledge) visit(last *uint64, from uint64) commitlog.Visit {
	*last = from - 1
	return func(number uint64, content []byte) error {
		if number != *last+1 || number > k.newest {
			return fmt.Errorf("from %d: record %d is read behind %d; %d is the newest", from, number, *last, k.newest)
		}
		if want := k.contents[number]; !bytes.Equal(content, want) {
			return fmt.Errorf("record %d is %.30q, want %.30q", number, content, want)
		}
		*last = number
		return nil
	}
}

// open opens a log and checks what it has. What it has not is forgotten.
func (k *knowledge) open(o Options, rng *rand.Rand) (*Log, error) {
	from := k.trimmed + 1 + rng.Uint64N(max(k.safe, k.trimmed)-k.trimmed+1)
	var last uint64
	l, err := Open(o, from, k.safe-min(k.safe, rng.Uint64N(3)), k.visit(&last, from))
	if err != nil {
		return nil, fmt.Errorf("records from %d on, %d were safe, %d trimmed: %w", from, k.safe, k.trimmed, err)
	}
	if last < k.safe {
		err = fmt.Errorf("from %d: %d were safe, and %d is the last", from, k.safe, last)
	}
	if got := l.Safe(); got != last {
		err = fmt.Errorf("the log has %d records, and %d are safe", last, got)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	k.newest, k.safe = last, last
	return l, nil
}

// append appends a record that no other life has appended.
func (k *knowledge) append(l *Log, life uint64) error {
	k.newest++
	k.contents[k.newest] = logtest.Content(k.newest, life)
	err := logtest.Append(l, k.newest, k.contents[k.newest])
	if err == nil && l.o.Mode == commitlog.Fsync {
		k.safe = k.newest
	}
	k.safe = max(k.safe, l.Safe())
	return err
}

func kept(percent int, rng *rand.Rand) vfs.CrashCloneCfg {
	return vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}
}

// recover opens a log that a crash has left, goes on with it, and opens it again after another crash. It returns how
// many records the first one has lost.
func (k knowledge) recover(o Options, disk *vfs.MemFS, percent int, rng *rand.Rand) (lost uint64, err error) {
	o.FS = disk
	lost = k.newest
	l, err := k.open(o, rng)
	if err != nil {
		return 0, err
	}
	lost -= min(lost, k.newest)
	for range 1 + rng.IntN(4) {
		err = errors.Join(err, k.append(l, rng.Uint64()))
	}
	o.FS = disk.CrashClone(kept(percent, rng))
	if err := errors.Join(err, l.Close(), missed(disk, l.current, k.trimmed+1, rng)); err != nil {
		return lost, err
	}
	if l, err = k.open(o, rng); err != nil {
		return lost, fmt.Errorf("after another crash: %w", err)
	}
	return lost, l.Close()
}

// missed takes the segment away that was written to last, as a whole or all of it behind its header. Whatever crashes
// have left, somebody must miss it.
func missed(disk *vfs.MemFS, s *segment, from uint64, rng *rand.Rand) error {
	path := memDir + "/" + s.name
	if rng.IntN(2) == 0 {
		if err := disk.Remove(path); err != nil {
			return err
		}
	} else {
		data, err := disk.UnsafeGetFileDataBuffer(path)
		if err != nil {
			return err
		}
		data[rng.IntN(len(magic)+44)] ^= 1 << rng.IntN(8)
	}
	if rng.IntN(2) == 0 {
		from = max(from, s.first) // the state has all that is before
	}
	if err := Read(disk, memDir, testID, from, 0, func(uint64, []byte) error { return nil }); !errors.Is(err,
		store.ErrCorrupt) {
		return fmt.Errorf("the segment of record %d, %s, is not there, and from %d on nobody misses it: %v",
			s.first, s.name, from, err) //nolint:errorlint // it may be nil
	}
	return nil
}

// missedAtOnce takes the last segment away before the log is opened again, if it has records that were safe.
func (k knowledge) missedAtOnce(disk *vfs.MemFS, rng *rand.Rand) error {
	used, _, err := list(disk, memDir)
	if err != nil {
		return err
	}
	if last := used[len(used)-1]; last.first <= k.safe {
		return missed(disk, last, k.trimmed+1, rng)
	}
	return nil
}

// machine is a computer with a log on its disk, which loses its power whenever something is about to be changed.
type machine struct {
	t       *testing.T
	o       Options
	mem     *vfs.MemFS
	percent int // of what was not synced is there after a loss of power

	mu      sync.Mutex // guards what follows
	rng     *rand.Rand
	know    knowledge
	log     *Log
	crashes int
	lost    uint64 // records that were appended and not there afterwards
	failed  bool
}

func newMachine(t *testing.T, mode commitlog.Mode, segment int64, percent int) *machine {
	t.Helper()
	m := &machine{
		t: t, mem: vfs.NewCrashableMem(), percent: percent,
		rng: rand.New(rand.NewPCG(uint64(percent), uint64(segment))),
	}
	m.know.contents = map[uint64][]byte{}
	m.o = options(m.mem, mode)
	m.o.SegmentBytes = segment
	create(t, m.o)
	return m
}

var errKilled = errors.New("the process was killed")

// process is one that works on a machine, until it is killed.
type process struct {
	*machine
	left int // changes until it is killed, which leaves what the operating system has; negative: never
}

func (p *process) String() string { return "process" }

// MaybeError is called before each operation, and so behind the one before.
func (p *process) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		return errKilled
	}
	p.left--
	p.crash()
	return nil
}

// crash looks at what a loss of power would leave.
func (m *machine) crash() {
	if m.failed {
		return // one failure is enough to look at
	}
	m.crashes++
	know := m.know.clone()
	if m.log != nil {
		know.safe = max(know.safe, m.log.Safe())
	}
	disk := m.mem.CrashClone(kept(m.percent, m.rng))
	if err := know.missedAtOnce(disk.CrashClone(vfs.CrashCloneCfg{}), m.rng); err != nil {
		m.t.Errorf("crash %d: %v", m.crashes, err)
		m.failed = true
	}
	lost, err := know.recover(m.o, disk, m.percent, rand.New(rand.NewPCG(m.rng.Uint64(), 0)))
	if err != nil {
		m.t.Errorf("crash %d: %v", m.crashes, err)
		m.failed = true
	}
	m.lost += lost
}

// run opens the log and appends n records, some of which are trimmed. It reports whether the process was killed.
func (p *process) run(count int, life uint64) (killed bool) {
	p.t.Helper()
	o := p.o
	o.FS = storetest.Hooked(p.mem, p)
	p.mu.Lock()
	know := p.know.clone()
	rng := rand.New(rand.NewPCG(life, 9))
	p.mu.Unlock()
	l, err := know.open(o, rng)
	if errors.Is(err, errKilled) {
		return true
	}
	if err != nil {
		p.t.Errorf("life %d: %v", life, err)
		return false
	}
	p.set(know, l)
	for range count {
		// What is about to be there may be there.
		next := know.clone()
		next.newest++
		next.contents[next.newest] = logtest.Content(next.newest, life)
		p.set(next, l)
		if err = know.append(l, life); err != nil {
			know = next
			break
		}
		p.set(know, l)
		switch rng.IntN(6) {
		case 0:
			know.trimmed = max(know.trimmed, know.newest-min(know.newest, rng.Uint64N(12)))
			p.set(know, l)
			err = l.Trim(know.trimmed)
		case 1:
			err = l.Sync()
		}
		if err != nil {
			break
		}
	}
	closed := l.Close()
	if err == nil {
		know.safe = know.newest
		if closed == nil {
			p.set(know, nil)
		}
	} else {
		// The operating system has what was done, whatever the mode, and nobody has lost power.
		p.set(know, nil)
	}
	err = errors.Join(err, closed)
	if err != nil && !errors.Is(err, errKilled) {
		p.t.Errorf("life %d: %v", life, err)
	}
	return err != nil
}

func (m *machine) set(know knowledge, l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.know, m.log = know.clone(), l
}

// each runs a test for all modes, and some sizes of segments and parts of the data that are kept.
func each(t *testing.T, test func(t *testing.T, m *machine)) {
	t.Helper()
	for _, mode := range logtest.Modes {
		for _, c := range []struct {
			segment int64
			percent int
		}{
			// In the last one some blocks of a segment are kept and others are not.
			{8 << 10, 0}, {8 << 10, 50}, {8 << 10, 100}, {16 << 10, 50},
		} {
			t.Run(fmt.Sprintf("%s/segment=%d/kept=%d%%", mode.Name, c.segment, c.percent), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t, mode.Mode, c.segment, c.percent)
				test(t, m)
				t.Logf("%d crashes, which lost %d records", m.crashes, m.lost)
				if mode.Mode != commitlog.Fsync && c.percent < 100 && m.lost == 0 {
					t.Error("no crash has lost anything, so that this test tells nothing")
				}
			})
		}
	}
}

// TestCrash loses the power at every change that a log makes to its files while it is used, over several lives. What
// was safe is there, nothing is there that was not appended, and what was cut off does not come back.
func TestCrash(t *testing.T) {
	t.Parallel()
	each(t, func(_ *testing.T, m *machine) {
		for life := range uint64(3) {
			if (&process{machine: m, left: -1}).run(14, life) {
				m.t.Error("nobody has killed it")
			}
		}
		m.crash()
	})
}

// TestKill kills the process at many of its changes. The operating system has the rest, and loses the power while the
// log is opened again: what was read from its memory must not be missed on the disk.
func TestKill(t *testing.T) {
	t.Parallel()
	each(t, func(_ *testing.T, m *machine) {
		killed := 0
		for life := range uint64(8) {
			if (&process{machine: m, left: 1 + m.rng.IntN(25)}).run(4, life) {
				killed++
			}
		}
		if killed == 0 {
			m.t.Error("no process was killed")
		}
		if (&process{machine: m, left: -1}).run(4, 99) {
			m.t.Error("nobody has killed it")
		}
	})
}
