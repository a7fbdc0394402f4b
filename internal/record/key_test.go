package record

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"testing"

	"millrace/internal/job"
)

// Numbers sort as their encoded forms over the whole range, and none is a prefix of
// another.
func TestOrdIntsSort(t *testing.T) {
	t.Parallel()
	vs := []int64{math.MinInt64, math.MaxInt64, 0}
	for shift := range 63 {
		for d := int64(-2); d <= 2; d++ {
			v := int64(1)<<shift + d
			vs = append(vs, v, -v)
		}
	}
	g := newGen(1)
	for range 2000 {
		vs = append(vs, g.int64())
	}
	slices.Sort(vs)
	vs = slices.Compact(vs)
	for i := 1; i < len(vs); i++ {
		a, b := appendOrdInt(nil, vs[i-1]), appendOrdInt(nil, vs[i])
		if bytes.Compare(a, b) >= 0 || bytes.HasPrefix(b, a) {
			t.Fatalf("%d is %x, %d is %x", vs[i-1], a, vs[i], b)
		}
	}
	us := make([]uint64, len(vs))
	for i, v := range vs {
		us[i] = uint64(v)
	}
	slices.Sort(us)
	for i := 1; i < len(us); i++ {
		a, b := appendOrdUint(nil, us[i-1]), appendOrdUint(nil, us[i])
		if bytes.Compare(a, b) >= 0 || bytes.HasPrefix(b, a) {
			t.Fatalf("%d is %x, %d is %x", us[i-1], a, us[i], b)
		}
	}
}

// The entries of every list sort as section 1 of the semantics says.
func TestListKeysSort(t *testing.T) {
	t.Parallel()
	byOrder := func(a, b *job.Job) int {
		switch {
		case a.Order.Before(b.Order):
			return -1
		case b.Order.Before(a.Order):
			return 1
		default:
			return cmp.Compare(a.ID, b.ID)
		}
	}
	byEntry := func(a, b *job.Job) int { return cmp.Or(cmp.Compare(a.Entered, b.Entered), cmp.Compare(a.ID, b.ID)) }
	byDue := func(a, b *job.Job) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID)) }
	lists := map[List]func(a, b *job.Job) int{ //nolint:exhaustive // the others have keys of their own
		ListReady: byOrder, List(job.Buried): byOrder, ListGrouped: byOrder, ListFirst: byOrder,
		ListPerGroup:        func(a, b *job.Job) int { return cmp.Or(cmp.Compare(a.Group, b.Group), byOrder(a, b)) },
		List(job.Scheduled): byDue, List(job.Retrying): byDue,
		List(job.Done): byEntry, List(job.Failed): byEntry, List(job.Dead): byEntry,
		List(job.Blocked): func(a, b *job.Job) int { return cmp.Compare(a.ID, b.ID) },
		ListLeased: func(a, b *job.Job) int {
			kept := func(j *job.Job) int {
				if j.Lease.OnEnd == job.EndKeep {
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(kept(a), kept(b)), byEntry(a, b))
		},
	}
	for list, compare := range lists {
		g := newGen(uint64(list))
		for range 4000 {
			a, b := g.listed(), g.listed()
			if g.bool() { // nearly alike
				c := *a
				c.ID, c.Order.Seq = b.ID, b.Order.Seq
				b = &c
			}
			ka, kb := ListKey(nil, 7, list, a), ListKey(nil, 7, list, b)
			if got, want := bytes.Compare(ka, kb), compare(a, b); got != want {
				t.Fatalf("list %d: %+v and %+v compare as %d, want %d", list, a, b, got, want)
			}
			if EntryID(ka) != a.ID {
				t.Fatalf("list %d: the entry of job %d leads to %d", list, a.ID, EntryID(ka))
			}
			lo, hi := ListStart(nil, 7, list), ListEnd(nil, 7, list)
			if bytes.Compare(ka, lo) < 0 || bytes.Compare(ka, hi) >= 0 {
				t.Fatalf("list %d: %x lies outside", list, ka)
			}
		}
	}
}

// listed is a job with what list keys are made of.
func (g gen) listed() *job.Job {
	j := &job.Job{ID: job.ID(g.Uint64N(1 << 53)), Group: g.text(), RunAt: job.Time(g.int64()), Entered: g.uint64()}
	j.Order = job.Order{
		Rank: g.int64(), Priority: max(g.int64(), -math.MaxInt64), At: job.Time(g.int64()), Seq: g.uint64(),
	}
	j.Lease.OnEnd = job.OnEnd(g.IntN(3))
	return j
}

// Texts within keys sort as their bytes, none is a prefix of another, and they come back.
func TestTexts(t *testing.T) {
	t.Parallel()
	g := newGen(3)
	texts := []string{
		"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "a", "a\x00", "a\x00b", "a\x01", "ab",
		"\xff", "\xff\xff",
	}
	for range 300 {
		texts = append(texts, g.text())
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	for i, s := range texts {
		k := appendText(nil, s)
		if got, rest, ok := parseText(append(bytes.Clone(k), "rest"...)); got != s || string(rest) != "rest" || !ok {
			t.Fatalf("%q comes back as %q, %q, %v", s, got, rest, ok)
		}
		if i > 0 {
			before := appendText(nil, texts[i-1])
			if bytes.Compare(before, k) >= 0 || bytes.HasPrefix(k, before) {
				t.Fatalf("%q does not sort before %q", texts[i-1], s)
			}
		}
	}
	for _, bad := range []string{"", "a", "a\x00", "a\x00\x02", "\x00\xff"} {
		if s, _, ok := parseText([]byte(bad)); ok {
			t.Errorf("%q is read as %q", bad, s)
		}
	}
}

// Each span holds the keys of its owner and no others.
func TestSpans(t *testing.T) {
	t.Parallel()
	within := func(key, lo, hi []byte) bool { return bytes.Compare(lo, key) <= 0 && bytes.Compare(key, hi) < 0 }
	names := []string{"", "a", "a\x00", "a\x00\x01", "ab", "b", "\xff"}
	j := &job.Job{ID: 5}
	for _, owner := range names {
		for _, other := range names {
			want := owner == other
			lo, hi := MoreSpan(owner, "k")
			if got := within(MoreKey(nil, other, "k", 1<<53-1), lo, hi); got != want {
				t.Errorf("more of %q, namespace %q: %v", owner, other, got)
			}
			lo, hi = MoreSpan("n", owner)
			if got := within(MoreKey(nil, "n", other, 0), lo, hi); got != want {
				t.Errorf("more of key %q, key %q: %v", owner, other, got)
			}
			lo, hi = GroupSpan(3, owner)
			j.Group = other
			if got := within(ListKey(nil, 3, ListPerGroup, j), lo, hi); got != want {
				t.Errorf("group %q, group %q: %v", owner, other, got)
			}
			lo, hi = QueuesSpan(owner)
			if got := within(QueueKey(nil, other, "q"), lo, hi); got != (want || owner == "") {
				t.Errorf("queues of %q, namespace %q: %v", owner, other, got)
			}
			for what, k := range map[string]struct {
				span func(string) (lo, hi []byte)
				key  []byte
			}{
				"values": {ValuesSpan, ValueKey(nil, other, "\xff")}, "locks": {LocksSpan, LockKey(nil, other, "\xff")},
				"outcomes": {OutcomesSpan, OutcomeKey(nil, other, "\xff")},
				"batches":  {BatchesSpan, BatchesKey(nil, other, math.MaxUint64)},
			} {
				lo, hi := k.span(owner)
				if got := within(k.key, lo, hi); got != want {
					t.Errorf("%s of %q, namespace %q: %v", what, owner, other, got)
				}
			}
		}
	}
	for q := QueueID(1); q < 5; q++ {
		keys := [][]byte{
			JobKey(nil, q, 1<<53-1, PartResult), ListKey(nil, q, ListPerGroup, j), GroupKey(nil, q, "\xff\xff"),
			SerialKey(nil, q, math.MaxUint64),
			AlikeKey(nil, q, job.Digest{255, 15: 255}, math.MaxUint64),
		}
		for p := QueueID(1); p < 5; p++ {
			n := 0
			for _, span := range QueueSpan(p) {
				for _, k := range keys {
					if within(k, span[0], span[1]) {
						n++
					}
				}
			}
			if want := map[bool]int{true: len(keys), false: 0}[p == q]; n != want {
				t.Errorf("%d keys of queue %d lie in the spans of %d", n, q, p)
			}
		}
	}
	for id := job.ID(1); id < 4; id++ {
		lo, hi := DependantSpan(2)
		if got := within(DependantKey(nil, id, math.MaxUint32, 1<<53-1), lo, hi); got != (id == 2) {
			t.Errorf("dependants of 2, blocker %d: %v", id, got)
		}
	}
	for _, like := range []job.Digest{{15: 1}, {15: 2}, {14: 1}} {
		for id := job.ID(1); id < 4; id++ {
			lo, hi := AlikeFrom(7, job.Digest{15: 1}, 2)
			if got := within(AlikeKey(nil, 7, like, id), lo, hi); got != (like == job.Digest{15: 1} && id >= 2) {
				t.Errorf("alike from 2 on, job %d about %x: %v", id, like, got)
			}
		}
	}
	lo, hi := BoundLeases(3)
	for end := job.EndKeep; end <= job.EndFail; end++ {
		j := &job.Job{ID: 1, Entered: math.MaxUint64, Lease: job.Lease{OnEnd: end}}
		if got := within(ListKey(nil, 3, ListLeased, j), lo, hi); got != (end != job.EndKeep) {
			t.Errorf("bound leases, end %d: %v", end, got)
		}
	}
	for name, key := range map[string][]byte{
		"ephemeral": EphemeralKey(nil, math.MaxUint32, math.MaxUint64), "sweep": SweepKey(nil, math.MaxUint32),
		"timer":  TimerKey(nil, job.Never, math.MaxUint32, math.MaxUint64),
		"forget": ForgetKey(nil, job.Never, math.MaxUint64, LockKey(nil, "", "")),
		"lock":   LockKey(nil, "\xff", "\xff"), "outcome": OutcomeKey(nil, "\xff", "\xff"),
		"alike":    AlikeKey(nil, math.MaxUint32, job.Digest{255}, math.MaxUint64),
		"schedule": ScheduleKey(nil, math.MaxUint64, BatchFixed), "schedules": ScheduleNameKey(nil, "\xff", "\xff"),
		"batch": BatchKey(nil, math.MaxUint64, BatchFixed), "batches": BatchesKey(nil, "\xff", math.MaxUint64),
		"value": ValueKey(nil, "\xff", "\xff"),
	} {
		for what, span := range map[string]func() (lo, hi []byte){
			"lock": AllLocks, "outcome": AllOutcomes,
			"batch": AllBatches, "alike": AllAlike, "schedule": AllSchedules,
		} {
			if lo, hi := span(); within(key, lo, hi) != (name == what) {
				t.Errorf("the key of a %s and the span of a %s", name, what)
			}
		}
		if within(key, ForgetFrom(nil, 0), ForgetEnd()) != (name == "forget") {
			t.Errorf("the key of a %s and the span of what is to be forgotten", name)
		}
		elo, ehi := EphemeralSpan()
		slo, shi := SweepSpan()
		if within(key, elo, ehi) != (name == "ephemeral") || within(key, slo, shi) != (name == "sweep") ||
			within(key, TimerFrom(nil, 0), TimerEnd()) != (name == "timer") {
			t.Errorf("the key of a %s lies in another span", name)
		}
	}
}

// Keys that are parsed come back, and timers sort by time, queue and id.
func TestKeysComeBack(t *testing.T) {
	t.Parallel()
	g := newGen(4)
	for range 2000 {
		q, id, part := QueueID(g.uint32()), job.ID(g.uint64()), Part(g.IntN(int(PartProgress)+1))
		if q2, id2, part2, ok := ParseJobKey(JobKey(nil, q, id, part)); q2 != q || id2 != id || part2 != part || !ok {
			t.Fatalf("job key of %d, %d, %d comes back as %d, %d, %d, %v", q, id, part, q2, id2, part2, ok)
		}
		at := max(job.Time(g.int64()), 0)
		if at2, q2, id2, ok := ParseTimerKey(TimerKey(nil, at, q, id)); at2 != at || q2 != q || id2 != id || !ok {
			t.Fatalf("timer key of %d, %d, %d comes back as %d, %d, %d, %v", at, q, id, at2, q2, id2, ok)
		}
		if q2, id2, ok := ParseDependantKey(DependantKey(nil, 9, q, id)); q2 != q || id2 != id || !ok {
			t.Fatalf("dependant key of %d, %d comes back as %d, %d, %v", q, id, q2, id2, ok)
		}
		like := g.digest()
		if q2, like2, id2, ok := ParseAlikeKey(AlikeKey(nil, q, like, id)); q2 != q || like2 != like ||
			id2 != id || !ok {
			t.Fatalf("entry of %d, %x, %d comes back as %d, %x, %d, %v", q, like, id, q2, like2, id2, ok)
		}
		if r := ParseEphemeralKey(EphemeralKey(nil, q, id)); r != (JobRef{q, id}) {
			t.Fatalf("ephemeral key of %d, %d comes back as %v", q, id, r)
		}
		if q2 := ParseSweepKey(SweepKey(nil, q)); q2 != q {
			t.Fatalf("sweep key of %d comes back as %d", q, q2)
		}
		if id2, seq2, ok := ParseEndingKey(EndingKey(nil, id, uint64(at))); id2 != id || seq2 != uint64(at) || !ok {
			t.Fatalf("ending key of %d, %d comes back as %d, %d, %v", id, at, id2, seq2, ok)
		}
		if q2, ok := ParseFlushKeptKey(FlushKeptKey(nil, q)); q2 != q || !ok {
			t.Fatalf("key of spared queue %d comes back as %d, %v", q, q2, ok)
		}
		namespace, name := g.text(), g.text()
		if ns2, name2, ok := ParseQueueKey(QueueKey(nil, namespace, name)); ns2 != namespace || name2 != name || !ok {
			t.Fatalf("queue key of %q, %q comes back as %q, %q, %v", namespace, name, ns2, name2, ok)
		}
		if s2, name2, ok := ParseValueKey(ValueKey(nil, namespace, name)); s2 != namespace || name2 != name || !ok {
			t.Fatalf("value key of %q, %q comes back as %q, %q, %v", namespace, name, s2, name2, ok)
		}
		if ns2, lock2, ok := ParseLockKey(LockKey(nil, namespace, name)); ns2 != namespace || lock2 != name || !ok {
			t.Fatalf("lock key of %q, %q comes back as %q, %q, %v", namespace, name, ns2, lock2, ok)
		}
		if ns2, key2, ok := ParseOutcomeKey(OutcomeKey(nil, namespace, name)); ns2 != namespace || key2 != name || !ok {
			t.Fatalf("outcome key of %q, %q comes back as %q, %q, %v", namespace, name, ns2, key2, ok)
		}
		if id2, part2, ok := ParseBatchKey(BatchKey(nil, job.BatchID(id), BatchFixed)); job.ID(id2) != id ||
			part2 != BatchFixed || !ok {
			t.Fatalf("batch key of %d comes back as %d, %d, %v", id, id2, part2, ok)
		}
		if id2 := EntryID(BatchesKey(nil, namespace, job.BatchID(id))); id2 != id {
			t.Fatalf("batch %d is listed as %d", id, id2)
		}
		at2, id2, lock, ok := ParseForgetKey(ForgetKey(nil, at, id, LockKey(nil, namespace, name)))
		if at2 != at || id2 != id || !lock || !ok {
			t.Fatalf("entry of lock %d, %d comes back as %d, %d, %v, %v", at, id, at2, id2, lock, ok)
		}
		if _, _, lock, ok := ParseForgetKey(ForgetKey(nil, at, id, OutcomeKey(nil, namespace, name))); lock || !ok {
			t.Fatalf("entry of an outcome is %v, that of a lock %v", ok, lock)
		}
		at3, q3, id3 := max(job.Time(g.int64()), 0), QueueID(g.uint32()), job.ID(g.uint64())
		want := cmp.Or(cmp.Compare(at, at3), cmp.Compare(q, q3), cmp.Compare(id, id3))
		if got := bytes.Compare(TimerKey(nil, at, q, id), TimerKey(nil, at3, q3, id3)); got != want {
			t.Fatalf("timers of %d and %d compare as %d", at, at3, got)
		}
	}
	// What is due before 1970 is due first.
	if !bytes.Equal(TimerFrom(nil, -5), TimerFrom(nil, 0)) {
		t.Error("a negative time is not the first")
	}
}

func TestEntryPriority(t *testing.T) {
	t.Parallel()
	prefix := len(ListStart(nil, 7, ListReady))
	for _, rank := range []int64{0, -1, 1, 300, -70000, math.MaxInt64, math.MinInt64} {
		for _, p := range []int64{0, 1, -1, 255, -256, 1024, -1024, 1 << 32, -1 << 32, math.MaxInt64, -math.MaxInt64} {
			j := &job.Job{ID: 1, Order: job.Order{Rank: rank, Priority: p, Seq: 5}}
			if got := EntryPriority(ListKey(nil, 7, ListReady, j)[prefix:]); got != p {
				t.Errorf("rank %d, priority %d is read as %d", rank, p, got)
			}
		}
	}
	for _, entry := range []string{"", "\x80", "\x88\x01", "\x80\xff"} {
		if got := EntryPriority([]byte(entry)); got != math.MinInt64 {
			t.Errorf("%q is read as %d", entry, got)
		}
	}
}

func TestDecodeMore(t *testing.T) {
	t.Parallel()
	want := JobRef{Queue: 7, ID: 1<<40 + 3}
	if got, err := DecodeMore(MoreKey(nil, "n", "k", want.ID), AppendUint(nil, uint64(want.Queue))); err != nil ||
		got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := DecodeMore(MoreKey(nil, "n", "k", 1), nil); err == nil {
		t.Error("an entry without a queue is taken")
	}
}

func TestTurnKey(t *testing.T) {
	t.Parallel()
	var last []byte
	for _, at := range []struct {
		priority int64
		turn     uint64
	}{{9, 300}, {9, 301}, {0, 1}, {0, 255}, {0, 256}, {-3, 2}} {
		key := TurnKey(nil, 7, at.priority, at.turn, 5)
		if EntryTurn(key) != at.turn || EntryID(key) != 5 {
			t.Errorf("%+v is read as turn %d of job %d", at, EntryTurn(key), EntryID(key))
		}
		if bytes.Compare(last, key) >= 0 {
			t.Errorf("%+v does not come behind the one before", at)
		}
		last = key
	}
	if EntryTurn(last[:7]) != 0 || EntryTurn(nil) != 0 {
		t.Error("a malformed key has a turn")
	}
}

func TestLookKey(t *testing.T) {
	t.Parallel()
	for _, at := range []job.Time{0, 1, goldenTime} {
		for _, name := range []string{"g", "a\x00b"} {
			if got, group, ok := ParseRecheckKey(RecheckKey(nil, 7, at, name)); !ok || got != at || group != name {
				t.Errorf("%d %q is read as %d %q, %v", at, name, got, group, ok)
			}
		}
	}
	if _, _, ok := ParseRecheckKey(ListStart(nil, 7, ListRecheck)); ok {
		t.Error("a malformed key was read")
	}
}
