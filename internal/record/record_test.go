package record

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/job"
)

// gen makes random values with many at the edges.
type gen struct{ *rand.Rand }

func newGen(seed uint64) gen { return gen{rand.New(rand.NewPCG(seed, 0))} }

func (g gen) int64() int64 {
	edges := []int64{0, 0, 1, -1, 127, 128, -128, -129, 1 << 32, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}
	if n := g.IntN(2 * len(edges)); n < len(edges) {
		return edges[n]
	}
	return int64(g.Uint64()) >> g.IntN(64)
}

func (g gen) uint64() uint64 { return uint64(g.int64()) }
func (g gen) uint32() uint32 { return uint32(g.uint64()) }
func (g gen) bool() bool     { return g.IntN(2) == 0 }
func (g gen) byte() byte     { return byte(g.Uint32()) }

func (g gen) bytes() []byte {
	if g.IntN(3) == 0 {
		return nil
	}
	b := make([]byte, 1+g.IntN(40))
	for i := range b {
		b[i] = byte(g.Uint32N(4)) * 85 // with zero bytes and 0xff among them
	}
	return b
}

func (g gen) text() string { return string(g.bytes()) }

// time is an instant as far as one can be stored beside a moment of creation.
func (g gen) time() job.Time {
	switch g.IntN(4) {
	case 0:
		return 0
	case 1:
		return job.Never
	default:
		return job.Time(g.int64())
	}
}

func (g gen) created() job.Time { return 1 + job.Time(g.Int64N(1<<60)) }

func (g gen) policy() job.Policy {
	p := job.Policy{
		Priority: g.int64(), Lease: time.Duration(g.int64()), ExpireAt: g.time(), Expiry: job.Expiry(g.IntN(2)),
		MaxAttempts: g.uint32(), MaxFails: g.uint32(), Lapse: job.Lapse(g.IntN(2)),
		Requeue: job.Place(g.IntN(6)), Due: job.Place(g.IntN(6)), Exhaust: job.Exhaust(g.IntN(4)),
		DeadQueue: g.text(), DeadFor: time.Duration(g.int64()), DeadMax: g.uint32(),
		DeadSlots: g.bool(), Keep: g.bool(),
		Backoff: job.Backoff{Floor: g.bool()},
	}
	if unit := g.int64(); unit != 0 { // without a unit there is no back-off
		p.Backoff.Unit = time.Duration(unit)
		p.Backoff.Power, p.Backoff.Skip = g.byte(), g.byte()
		p.Backoff.Base, p.Backoff.Jitter = time.Duration(g.int64()), g.uint32()
	}
	return p
}

// meta is a job with the fields of its small record.
func (g gen) meta() job.Job {
	j := job.Job{
		State: job.State(1 + g.IntN(job.StateCount-1)), Flags: job.Flags(g.Uint32()),
		Created: g.created(), Since: g.time(),
		Entered: g.uint64(), RunAt: g.time(), Timer: g.time(), Attempts: g.uint32(), Fails: g.uint32(),
		Buries: g.uint32(),
		Order:  job.Order{Rank: g.int64(), Priority: g.int64(), At: g.time(), Seq: g.uint64(), First: g.uint64()},
		Policy: g.policy(), Key: g.text(), Group: g.text(),
	}
	if g.bool() {
		j.Lapses, j.Releases, j.Kicks, j.Delay = g.uint32(), g.uint32(), g.uint32(), time.Duration(g.int64())
	}
	if j.Flags.Has(job.FlagSerial) {
		j.Serial = g.uint64()
	}
	if g.bool() {
		j.Fingerprint = g.digest()
	}
	if g.bool() {
		j.Batch = 1 + job.BatchID(g.uint64()>>1)
	}
	if g.bool() {
		j.Lock, j.LockUntil = "lock"+g.text(), job.LockEnd(g.IntN(2))
	}
	if j.State == job.Leased {
		j.Lease = job.Lease{
			Holder: job.Holder{Node: g.uint32(), Num: g.uint64()}, Until: g.time(), Length: time.Duration(g.int64()),
			Exclusive: g.bool(), OnEnd: job.OnEnd(g.IntN(3)), Door: job.Door(g.byte()),
		}
	}
	if j.State == job.Blocked {
		j.Blockers = make([]job.ID, g.IntN(20))
		for i := range j.Blockers {
			j.Blockers[i] = job.ID(g.uint64())
		}
	}
	return j
}

func (g gen) digest() job.Digest {
	return job.Digest{0: g.byte(), 7: g.byte(), 15: 1 | g.byte()}
}

func (g gen) progress() Progress {
	p := Progress{Text: g.text(), At: job.Time(g.int64()), HasPercent: g.bool()}
	if p.HasPercent {
		p.Percent = g.int64()
	}
	return p
}

func (g gen) batch() Batch {
	return Batch{
		Namespace: g.text(), Parent: job.BatchID(g.uint64()), Created: g.created(), Open: g.bool(),
		Committed: g.time(), Succeeded: g.time(), ForgetAt: g.time(),
		Complete: job.Callback(g.IntN(3)), Success: job.Callback(g.IntN(3)), Total: g.uint64(), Pending: g.uint64(),
		Failed: g.uint64(), Incomplete: g.uint64(), Unsuccessful: g.uint64(), Children: g.uint64(),
	}
}

func (g gen) batchDef() BatchDef {
	return BatchDef{
		Text: g.text(), OpenFor: time.Duration(g.int64()), KeepFor: time.Duration(g.int64()),
		KeepDone: time.Duration(g.int64()),
		Complete: g.spec(), Success: g.spec(),
	}
}

func (g gen) schedule() Schedule {
	s := Schedule{
		Namespace: g.text(), Name: g.text(), Source: job.Source(g.IntN(2)), Created: g.created(),
		Paused: g.bool(), Next: g.time(),
		LastTick: g.time(), LastAt: g.time(), Pushed: g.uint64(), Missed: g.uint64(), Skipped: g.uint64(),
		Behind:  g.uint32(),
		Running: job.ID(g.uint64()),
	}
	for range g.IntN(5) {
		s.Runs = append(s.Runs, job.ScheduleRun{
			Tick: g.time(), At: g.time(), Kind: job.RunKind(g.IntN(5)), Count: g.uint64(), Job: job.ID(g.uint64()),
			Outcome: job.Outcome(g.IntN(4)), Ended: g.time(), Refused: job.Kind(g.byte()),
		})
	}
	return s
}

func (g gen) scheduleDef() job.Schedule {
	s := job.Schedule{
		Namespace: g.text(), Name: g.text(), When: g.text(), Zone: g.text(), Missed: job.Missed(g.IntN(3)),
		MissedMax: g.uint32(),
		Overlap:   job.Overlap(g.IntN(2)), Source: job.Source(g.IntN(2)), Paused: g.bool(),
	}
	if spec := g.spec(); spec != nil {
		s.Job = *spec
	}
	s.Job.Unique, s.Job.Lock, s.Job.LockFor, s.Job.LockUntil = g.bool(), g.text(), time.Duration(g.int64()),
		job.LockEnd(g.IntN(2))
	return s
}

// spec is one of a callback, or nil.
func (g gen) spec() *job.Spec {
	if g.IntN(3) == 0 {
		return nil
	}
	s := &job.Spec{
		Namespace: g.text(), Queue: g.text(), Key: g.text(), Numbered: g.bool(), Type: g.text(), Group: g.text(),
		BodyKind: job.BodyKind(g.IntN(5)), Extra: g.bytes(), Origin: job.Door(g.byte()),
		Policy: g.policy(), RunAt: g.time(),
		Delay: time.Duration(g.int64()), TTL: time.Duration(g.int64()), TTLFromRun: g.bool(), At: job.Place(g.IntN(6)),
		Tracked: g.bool(),
	}
	if g.bool() {
		s.Fingerprint = g.digest()
	}
	if s.BodyKind != job.BodyNone {
		s.Body = append([]byte{}, g.bytes()...) // an empty body differs from none
	}
	for range g.IntN(3) {
		s.BlockedBy = append(s.BlockedBy, job.Blocker{QueueNum: g.uint32(), ID: job.ID(g.uint64()), Number: g.uint32()})
	}
	return s
}

func (g gen) failures() []job.Failure {
	var fs []job.Failure
	for range g.IntN(job.FailuresKept + 1) {
		f := job.Failure{At: job.Time(g.int64()), Kind: job.FailureKind(g.IntN(4)), Type: g.text(), Message: g.text()}
		for range g.IntN(4) {
			f.Backtrace = append(f.Backtrace, g.text())
		}
		fs = append(fs, f)
	}
	return fs
}

func (g gen) queue() Queue {
	q := Queue{
		ID: QueueID(g.uint32()), Created: g.created(), Paused: g.bool(), PausedAt: g.time(), PausedTill: g.time(),
		Configured: g.bool(), Hidden: g.bool(),
		Settings:   job.Settings{Capacity: g.uint64(), Serials: g.bool(), Attrs: g.bytes(), OnePerGroup: g.bool()},
		NextSerial: g.uint64(), Linked: g.bool(),
	}
	for i := range q.Counts {
		q.Counts[i], q.Purged[i] = g.uint64(), g.uint64()
	}
	for i := range q.Totals {
		q.Totals[i] = g.uint64()
	}
	return q
}

// Every record comes back as it was written, and a truncated or longer one is refused.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		g := newGen(seed)
		j := g.meta()
		check(t, seed, "meta", AppendMeta(nil, &j), j,
			func(b []byte) (j job.Job, err error) { return j, DecodeMeta(b, &j) })
		first := j
		first.Flags |= job.FlagInline
		first.BodyKind, first.Type, first.Body = job.BodyBytes, "type", []byte("body")
		whole := AppendFirst(nil, &first)
		var back job.Job
		if err := DecodeFirst(whole, &back); err != nil || !reflect.DeepEqual(back, first) {
			t.Fatalf("seed %d: first record comes back as %+v, %v, want %+v", seed, back, err, first)
		}
		for n := range len(whole) - len("body") {
			if err := DecodeFirst(whole[:n], &back); err == nil {
				t.Fatalf("seed %d: %d of %d bytes of a first record are accepted", seed, n, len(whole))
			}
		}
		fs := g.failures()
		check(t, seed, "failures", AppendFailures(nil, fs), fs, DecodeFailures)
		q := g.queue()
		check(t, seed, "queue", AppendQueue(nil, &q), q, DecodeQueue)
		s := Shard{job.ID(g.uint64()), g.uint64(), QueueID(g.uint32())}
		check(t, seed, "shard", AppendShard(nil, &s), s, DecodeShard)
		r := JobRef{QueueID(g.uint32()), job.ID(g.uint64())}
		check(t, seed, "reference", AppendRef(nil, r), r, DecodeRef)
		k := KeyRef{r, g.bool()}
		check(t, seed, "key", AppendKeyRef(nil, k), k, DecodeKeyRef)
		w := Sweep{job.ID(g.uint64()), g.text()}
		check(t, seed, "sweep", AppendSweep(nil, w), w, DecodeSweep)
		x := Ending{g.bool(), job.ID(g.uint64()), r}
		check(t, seed, "ending", AppendEnding(nil, x), x, DecodeEnding)
		f := Flush{
			Namespace: g.text(), Door: job.Door(g.IntN(256)), Batches: job.BatchID(g.uint64()),
			NextBatch: job.BatchID(g.uint64()),
			Queues:    QueueID(g.uint32()), NextQueue: QueueID(g.uint32()),
		}
		check(t, seed, "flush", AppendFlush(nil, &f), f, DecodeFlush)
		n := g.uint64()
		check(t, seed, "number", AppendUint(nil, n), n, DecodeUint)
		l := Lock{job.ID(g.uint64()), g.time()}
		check(t, seed, "lock", AppendLock(nil, l), l, DecodeLock)
		p := g.progress()
		check(t, seed, "progress", AppendProgress(nil, &p), p, DecodeProgress)
		o := Outcome{g.progress(), job.Outcome(g.IntN(3)), job.ID(g.uint64()), g.time()}
		check(t, seed, "outcome", AppendOutcome(nil, &o), o, DecodeOutcome)
		b := g.batch()
		check(t, seed, "batch", AppendBatch(nil, &b), b, DecodeBatch)
		def := g.batchDef()
		check(t, seed, "batch definition", AppendBatchDef(nil, &def), def, DecodeBatchDef)
		sc := g.schedule()
		check(t, seed, "schedule", AppendSchedule(nil, &sc), sc, DecodeSchedule)
		sd := g.scheduleDef()
		check(t, seed, "schedule definition", AppendScheduleDef(nil, &sd), sd, DecodeScheduleDef)
		hook := job.Hook{Namespace: g.text(), Queue: g.text(), Source: job.Source(g.IntN(2)), Job: sd.Job}
		hook.Job.Unique, hook.Job.Lock, hook.Job.LockFor, hook.Job.LockUntil = false, "", 0, 0
		key := HookKey(nil, hook.Namespace, hook.Queue)
		check(t, seed, "hook", AppendHook(nil, &hook), hook,
			func(b []byte) (job.Hook, error) { return DecodeHook(key, b) })
		kept := job.KeptHolder{
			Name: "n" + g.text(), Holder: job.Holder{Node: g.uint32(), Num: g.uint64()},
			Grace: time.Duration(g.uint64()),
		}
		key = HolderKey(nil, kept.Name)
		check(t, seed, "holder", AppendHolder(nil, &kept), kept,
			func(b []byte) (job.KeptHolder, error) { return DecodeHolder(key, b) })
		checkBody(t, g)
	}
}

func check[T any](t *testing.T, seed uint64, what string, b []byte, want T, decode func([]byte) (T, error)) {
	t.Helper()
	got, err := decode(b)
	if err != nil {
		t.Fatalf("seed %d: %s: %v", seed, what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("seed %d: %s (-want +got):\n%s", seed, what, diff)
	}
	for n := range b {
		if _, err := decode(b[:n]); err == nil {
			t.Fatalf("seed %d: %s: %d of %d bytes are enough", seed, what, n, len(b))
		}
	}
	if _, err := decode(append(bytes.Clone(b), 0)); err == nil {
		t.Fatalf("seed %d: %s: a byte more does not matter", seed, what)
	}
}

func checkBody(t *testing.T, g gen) {
	t.Helper()
	want := job.Job{BodyKind: job.BodyKind(g.IntN(5)), Origin: job.Door(g.byte()), Type: g.text(), Extra: g.bytes()}
	if want.BodyKind != job.BodyNone {
		want.Body = append([]byte{}, g.bytes()...) // an empty body differs from none
	}
	b := AppendBody([]byte("before"), &want)[len("before"):]
	var got job.Job
	if err := DecodeBody(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("body (-want +got):\n%s", diff)
	}
	head := len(b) - len(want.Body)
	for n := range head {
		if err := DecodeBody(b[:n], &got); err == nil {
			t.Fatalf("body: %d of %d bytes are enough", n, head)
		}
	}
}

// Records of a newer version, and version zero, are refused.
func TestVersions(t *testing.T) {
	t.Parallel()
	g := newGen(1)
	j, q := g.meta(), g.queue()
	var s Shard
	p, o, batch, def := g.progress(), Outcome{}, g.batch(), g.batchDef()
	sc, sd := g.schedule(), g.scheduleDef()
	for what, test := range map[string]struct {
		b      []byte
		decode func([]byte) error
	}{
		"job":      {AppendMeta(nil, &j), func(b []byte) error { return DecodeMeta(b, &job.Job{}) }},
		"body":     {AppendBody(nil, &j), func(b []byte) error { return DecodeBody(b, &job.Job{}) }},
		"failures": {AppendFailures(nil, nil), func(b []byte) error { _, err := DecodeFailures(b); return err }},
		"queue":    {AppendQueue(nil, &q), func(b []byte) error { _, err := DecodeQueue(b); return err }},
		"shard":    {AppendShard(nil, &s), func(b []byte) error { _, err := DecodeShard(b); return err }},
		"progress": {AppendProgress(nil, &p), func(b []byte) error { _, err := DecodeProgress(b); return err }},
		"outcome":  {AppendOutcome(nil, &o), func(b []byte) error { _, err := DecodeOutcome(b); return err }},
		"batch":    {AppendBatch(nil, &batch), func(b []byte) error { _, err := DecodeBatch(b); return err }},
		"schedule": {AppendSchedule(nil, &sc), func(b []byte) error { _, err := DecodeSchedule(b); return err }},
		"hook": {AppendHook(nil, &job.Hook{}), func(b []byte) error {
			_, err := DecodeHook(HookKey(nil, "", ""), b)
			return err
		}},
		"holder": {AppendHolder(nil, &job.KeptHolder{}), func(b []byte) error {
			_, err := DecodeHolder(HolderKey(nil, "name"), b)
			return err
		}},
		"schedule definition": {
			AppendScheduleDef(nil, &sd), func(b []byte) error { _, err := DecodeScheduleDef(b); return err },
		},
		"batch definition": {
			AppendBatchDef(nil, &def), func(b []byte) error { _, err := DecodeBatchDef(b); return err },
		},
	} {
		if err := test.decode(test.b); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, v := range []byte{0, test.b[0] + 1, 255} {
			b := bytes.Clone(test.b)
			b[0] = v
			if err := test.decode(b); err == nil {
				t.Errorf("%s: version %d is read", what, v)
			}
		}
	}
	j.State = job.State(job.StateCount)
	if err := DecodeMeta(AppendMeta(nil, &j), &job.Job{}); err == nil {
		t.Error("an unknown state is read")
	}
	plain := plainJob(job.Ready)
	for _, bit := range []byte{metaBatch, metaLock} {
		b := AppendMeta(nil, &plain)
		b[1] |= bit
		if err := DecodeMeta(append(b, 0, 0), &job.Job{}); err == nil {
			t.Error("batch zero, or a lock without a name, is read")
		}
	}
}

// A queue's record may have been written when there were fewer states or counters,
// or by a later release of the same version with more.
func TestQueueWithOtherCounters(t *testing.T) {
	t.Parallel()
	q := Queue{ID: 1, Created: 5}
	b := AppendQueue(nil, &q)
	head := len(b) - 5 - len(q.Counts) - len(q.Totals) - len(q.Purged) - len(q.Expired)
	b = append(b[:head:head], 2, 7, 8, 1, 9, 0, 0, 0)
	got, err := DecodeQueue(b)
	if err != nil || got.Counts[0] != 7 || got.Counts[1] != 8 || got.Counts[2] != 0 || got.Totals[0] != 9 {
		t.Errorf("fewer: %+v, %v", got, err)
	}
	b = b[:head:head]
	for range 4 {
		b = append(b, 40)
		for i := range byte(40) {
			b = append(b, i)
		}
	}
	b = append(b, 1)
	got, err = DecodeQueue(b)
	if err != nil || got.Counts[job.StateCount-1] != uint64(job.StateCount-1) || got.Purged[1] != 1 {
		t.Errorf("more: %+v, %v", got, err)
	}
}

// Purged jobs are those that entered a purged state before the purge.
func TestGone(t *testing.T) {
	t.Parallel()
	var q Queue
	q.Purged[job.Ready] = 10
	for _, test := range []struct {
		state   job.State
		entered uint64
		want    bool
	}{{job.Ready, 9, true}, {job.Ready, 10, true}, {job.Ready, 11, false}, {job.Dead, 9, false}} {
		if got := q.Gone(&job.Job{State: test.state, Entered: test.entered}); got != test.want {
			t.Errorf("%v entered at %d: %v", test.state, test.entered, got)
		}
	}
}
