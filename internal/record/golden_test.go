package record

import (
	"bytes"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/job"
)

const goldenTime job.Time = 1_700_000_000_000_000

// golden reads a record of the first version.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	return goldenOf(t, "v1", name)
}

// goldenOf reads a record in hexadecimal, with comments.
func goldenOf(t *testing.T, version, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", version, name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "#")
		p, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
		b = append(b, p...)
	}
	return b
}

// plainJob is what the golden records of jobs without anything special hold.
func plainJob(s job.State) job.Job {
	return job.Job{State: s, Created: goldenTime, Since: goldenTime, Entered: 2, Order: job.Order{Seq: 1, First: 1}}
}

func goldenJobs() map[string]job.Job {
	tombstone, blocked, scheduled := plainJob(job.Dead), plainJob(job.Blocked), plainJob(job.Scheduled)
	tombstone.Flags = job.FlagTombstone
	blocked.Blockers = []job.ID{5, 1<<53 - 1}
	scheduled.RunAt, scheduled.Since = job.Never, goldenTime-1
	locked := plainJob(job.Ready)
	locked.Batch, locked.Lock, locked.LockUntil, locked.Flags = 300, "lock", job.LockUntilFetch,
		job.FlagTracked|job.FlagTried
	alike := plainJob(job.Ready)
	alike.Fingerprint = job.Digest{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	return map[string]job.Job{
		"job_locked": locked, "job_alike": alike,
		"job_ready": plainJob(job.Ready), "job_tombstone": tombstone, "job_blocked": blocked,
		"job_scheduled": scheduled,
		"job_leased": {
			State: job.Leased, Flags: job.FlagNumbered | job.FlagSerial | job.FlagDependants | job.FlagFailures,
			Created: goldenTime, Since: goldenTime + 5e6, Entered: 300,
			Order: job.Order{Rank: -1, Priority: 7, At: goldenTime + 1e6, Seq: 200, First: 100},
			RunAt: goldenTime + 1e6, Timer: goldenTime + 35e6, Attempts: 3, Fails: 2, Buries: 1, Serial: 41,
			Policy: job.Policy{
				Priority: 7, Lease: 30 * time.Second, ExpireAt: goldenTime + 3600e6, Expiry: job.ExpireWaiting,
				MaxAttempts: 5, MaxFails: 25,
				Backoff: job.Backoff{
					Unit: time.Second, Power: 4, Skip: 1, Base: 15 * time.Second,
					Jitter: 30, Floor: true,
				},
				Lapse: job.LapseFail, Requeue: job.PlaceOld, Due: job.PlaceDue, Exhaust: job.ExhaustDead,
				DeadQueue: "dead",
				DeadFor:   24 * time.Hour, DeadMax: 1000, DeadSlots: true, Keep: true,
			},
			Key: "key", Group: "group",
			Lease: job.Lease{
				Holder: job.Holder{Node: 1, Num: 99}, Until: goldenTime + 35e6, Length: 30 * time.Second,
				Exclusive: true, OnEnd: job.EndFail, Door: 3,
			},
		},
	}
}

// goldenDef is a batch with one callback that has everything and one that has nothing.
func goldenDef() BatchDef {
	return BatchDef{
		Text: "text", OpenFor: 2 * time.Second, KeepFor: 3 * time.Second, KeepDone: time.Second,
		Complete: &job.Spec{
			Namespace: "ns", Queue: "queue", Key: "key", Numbered: true, Type: "type", Group: "group",
			Body:     []byte(`[1]`),
			BodyKind: job.BodyArgs, Extra: []byte("extra"), Origin: 4,
			Policy: job.Policy{Priority: 7, MaxFails: 25, Exhaust: job.ExhaustDead},
			RunAt:  specBase + 1, Delay: time.Second, TTL: 2 * time.Second, TTLFromRun: true,
			At: job.PlaceHead, Tracked: true,
			BlockedBy: []job.Blocker{{QueueNum: 7, ID: 300}, {Number: 5}},
		},
		Success: &job.Spec{Namespace: "ns", Queue: "queue", Fingerprint: job.Digest{15: 1}},
	}
}

// goldenSchedule is a schedule that has everything.
func goldenSchedule() (Schedule, job.Schedule) {
	state := Schedule{
		Namespace: "ns", Name: "name", Source: job.SourceFile, Created: goldenTime, Paused: true,
		Next:     goldenTime + 60e6,
		LastTick: goldenTime + 50e6, LastAt: goldenTime + 51e6, Pushed: 300, Missed: 7, Skipped: 8,
		Behind: 3, Running: 12344,
		Runs: []job.ScheduleRun{
			{
				Kind: job.RunPushed, Tick: goldenTime + 1e6, At: goldenTime + 2e6, Count: 1, Job: 12343,
				Outcome: job.Died,
				Ended:   goldenTime + 3e6,
			},
			{Kind: job.RunRefused, Tick: goldenTime + 4e6, At: goldenTime + 5e6, Count: 2, Refused: job.Full},
		},
	}
	set := job.Schedule{
		Namespace: "ns", Name: "name", When: "@daily", Zone: "Asia/Tokyo", Job: *goldenDef().Complete,
		Missed: job.MissedAll, MissedMax: 300,
		Overlap: job.OverlapSkip, Source: job.SourceFile, Paused: true,
	}
	set.Job.Unique, set.Job.Lock, set.Job.LockFor, set.Job.LockUntil = true, "lock", time.Second, job.LockUntilFetch
	return state, set
}

// Records of version 1 are read for ever, and as long as it is the version that is
// written they are what is written.
func TestGoldenRecords(t *testing.T) {
	t.Parallel()
	var names []string
	same := func(name string, got, want any, err error, encoded []byte) {
		t.Helper()
		names = append(names, name+".hex")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if b := golden(t, name); !bytes.Equal(encoded, b) {
			t.Errorf("%s is written as\n%x, want\n%x", name, encoded, b)
		}
	}
	for name, want := range goldenJobs() {
		var got job.Job
		err := DecodeMeta(golden(t, name), &got)
		same(name, got, want, err, AppendMeta(nil, &want))
	}
	for name, want := range map[string]job.Job{
		"body": {
			BodyKind: job.BodyJSON, Origin: 4, Type: "type", Extra: []byte("\x00extra"),
			Body: []byte(`{"a":1}`),
		},
		"body_none": {},
	} {
		var got job.Job
		err := DecodeBody(golden(t, name), &got)
		same(name, got, want, err, AppendBody(nil, &want))
	}
	first := goldenJobs()["job_ready"]
	first.Flags |= job.FlagInline
	first.BodyKind, first.Origin, first.Type, first.Body = job.BodyJSON, 4, "type", []byte(`{"a":1}`)
	var gotFirst, inline job.Job
	err := DecodeFirst(golden(t, "first"), &gotFirst)
	same("first", gotFirst, first, err, AppendFirst(nil, &first))
	if err := DecodeInline(golden(t, "first"), &inline); err != nil || string(inline.Body) != `{"a":1}` ||
		inline.State != 0 {
		t.Errorf("the body of the first record is %+v, %v", inline, err)
	}
	failures := []job.Failure{
		{At: goldenTime, Type: "Type", Message: "message", Backtrace: []string{"line 1", "line 2"}},
		{At: goldenTime + 1, Kind: job.FailedByBlocker},
	}
	fs, err := DecodeFailures(golden(t, "failures"))
	same("failures", fs, failures, err, AppendFailures(nil, failures))
	queue := Queue{
		ID: 7, Created: goldenTime, Paused: true, PausedTill: goldenTime + 60e6, Configured: true,
		Hidden: true, Linked: true,
		Settings: job.Settings{Capacity: 1000, Serials: true, Attrs: []byte("attrs")}, NextSerial: 42,
	}
	for i := range queue.Counts {
		queue.Counts[i] = uint64(i)
	}
	for i := range queue.Totals {
		queue.Totals[i] = uint64(100 + i)
	}
	queue.Purged[job.Ready], queue.Purged[job.Dead] = 50, 70
	queue.Expired[job.Ready], queue.Expired[job.Leased], queue.Doors = 9, 8, job.Doors(0).With(1).With(3)
	// Before there were as many counters: those that were not there are zero.
	clear(queue.Totals[job.CountPaused:])
	q, err := DecodeQueue(golden(t, "queue_counters"))
	same("queue_counters", q, queue, err, golden(t, "queue_counters"))
	clear(queue.Totals[job.CountRetried:])
	q, err = DecodeQueue(golden(t, "queue"))
	same("queue", q, queue, err, golden(t, "queue"))
	shard := Shard{NextID: 12345, NextSeq: 67890, NextQueue: 8}
	s, err := DecodeShard(golden(t, "shard"))
	same("shard", s, shard, err, AppendShard(nil, &shard))
	ref := JobRef{Queue: 7, ID: 12344}
	r, err := DecodeRef(golden(t, "reference"))
	same("reference", r, ref, err, AppendRef(nil, ref))
	key := KeyRef{JobRef: ref, More: true}
	k, err := DecodeKeyRef(golden(t, "key"))
	same("key", k, key, err, AppendKeyRef(nil, key))
	sweep := Sweep{Next: 500, Dropped: "ns"}
	w, err := DecodeSweep(golden(t, "sweep"))
	same("sweep", w, sweep, err, AppendSweep(nil, sweep))
	ending := Ending{Failed: true, Before: 12345, Next: ref}
	x, err := DecodeEnding(golden(t, "ending"))
	same("ending", x, ending, err, AppendEnding(nil, ending))
	flush := Flush{Namespace: "ns", Door: 3, Batches: 12345, NextBatch: 500, Queues: 8, NextQueue: 2}
	f, err := DecodeFlush(golden(t, "flush"))
	same("flush", f, flush, err, AppendFlush(nil, &flush))
	n, err := DecodeUint(golden(t, "number"))
	same("number", n, uint64(300), err, AppendUint(nil, 300))
	lock := Lock{Taker: 12344, Until: goldenTime}
	l, err := DecodeLock(golden(t, "lock"))
	same("lock", l, lock, err, AppendLock(nil, lock))
	progress := Progress{Percent: -5, HasPercent: true, Text: "text", At: goldenTime}
	p, err := DecodeProgress(golden(t, "progress"))
	same("progress", p, progress, err, AppendProgress(nil, &progress))
	outcome := Outcome{
		Progress: Progress{Text: "text", At: goldenTime}, How: job.Died, ID: 12344,
		Until: goldenTime + 1,
	}
	o, err := DecodeOutcome(golden(t, "outcome"))
	same("outcome", o, outcome, err, AppendOutcome(nil, &outcome))
	batch := Batch{
		Namespace: "ns", Parent: 200, Created: goldenTime, Open: true, Committed: goldenTime + 1e6,
		Succeeded: goldenTime + 2e6,
		ForgetAt:  goldenTime + 3600e6, Complete: job.CallbackAcked, Success: job.CallbackPushed,
		Total: 9, Pending: 8, Failed: 7, Incomplete: 4, Unsuccessful: 6, Children: 5,
	}
	b, err := DecodeBatch(golden(t, "batch"))
	same("batch", b, batch, err, AppendBatch(nil, &batch))
	def := goldenDef()
	bd, err := DecodeBatchDef(golden(t, "batch_definition"))
	same("batch_definition", bd, def, err, AppendBatchDef(nil, &def))
	state, set := goldenSchedule()
	sc, err := DecodeSchedule(golden(t, "schedule"))
	same("schedule", sc, state, err, AppendSchedule(nil, &state))
	sd, err := DecodeScheduleDef(golden(t, "schedule_definition"))
	same("schedule_definition", sd, set, err, AppendScheduleDef(nil, &set))
	hook := job.Hook{Namespace: "ns", Queue: "queue", Job: *goldenDef().Complete, Source: job.SourceFile}
	h, err := DecodeHook(HookKey(nil, "ns", "queue"), golden(t, "hook"))
	same("hook", h, hook, err, AppendHook(nil, &hook))

	holder := job.KeptHolder{Name: "name", Holder: job.Holder{Node: 3, Num: 300}, Grace: time.Minute}
	kh, err := DecodeHolder(HolderKey(nil, "name"), golden(t, "holder"))
	same("holder", kh, holder, err, AppendHolder(nil, &holder))

	files, err := filepath.Glob("testdata/v1/*.hex")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	slices.Sort(names)
	if diff := cmp.Diff(files, names); diff != "" {
		t.Errorf("golden files and tests differ:\n%s", diff)
	}
}

// Jobs and queues have a second version, which is written for those that have something of what came with it.
func TestGoldenSecondVersion(t *testing.T) {
	t.Parallel()
	want := plainJob(job.Buried)
	want.Flags, want.Buries = job.FlagBuriedLast, 1
	want.Lapses, want.Releases, want.Kicks, want.Delay = 300, 2, 1, 5*time.Second
	var got job.Job
	b := goldenOf(t, "v2", "job")
	if err := DecodeMeta(b, &got); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if encoded := AppendMeta(nil, &want); !bytes.Equal(encoded, b) {
		t.Errorf("the job is written as\n%x, want\n%x", encoded, b)
	}
	queue := Queue{ID: 7, Created: goldenTime, Paused: true, PausedAt: goldenTime + 30e6, PausedTill: goldenTime + 60e6}
	queue.Totals[job.CountPaused] = 3
	b = goldenOf(t, "v2", "queue")
	q, err := DecodeQueue(b)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(queue, q); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if encoded := AppendQueue(nil, &queue); !bytes.Equal(encoded, b) {
		t.Errorf("the queue is written as\n%x, want\n%x", encoded, b)
	}
	queue.Limits = job.Limits{Concurrency: 300, Worker: 5, SlotFor: time.Minute, Rate: 100, Per: time.Second, Burst: 20}
	queue.Bucket = job.Bucket{Level: 7_500_000, At: goldenTime + 40e6}
	b = goldenOf(t, "v3", "queue")
	if q, err = DecodeQueue(b); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(queue, q); diff != "" {
		t.Errorf("queue with limits (-want +got):\n%s", diff)
	}
	if encoded := AppendQueue(nil, &queue); !bytes.Equal(encoded, b) {
		t.Errorf("the queue with limits is written as\n%x, want\n%x", encoded, b)
	}
	queue.Limits.GroupConcurrency, queue.Limits.GroupRate, queue.Limits.GroupPer, queue.Limits.GroupBurst = 2,
		10, time.Second, 3
	queue.Fairness = job.Fairness{On: true, Weights: map[string]uint32{"gold": 5, "silver": 2}}
	queue.Turns, queue.Turn, queue.Credit, queue.Regroup = true, 300, 1, RegroupShow
	b = goldenOf(t, "v4", "queue")
	if q, err = DecodeQueue(b); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(queue, q); diff != "" {
		t.Errorf("fair queue (-want +got):\n%s", diff)
	}
	if encoded := AppendQueue(nil, &queue); !bytes.Equal(encoded, b) {
		t.Errorf("the fair queue is written as\n%x, want\n%x", encoded, b)
	}
	last := job.Job{
		ID: 12344, Entered: 300, Order: job.Order{Rank: -1, Priority: 7, At: goldenTime, Seq: 200},
		Flags: job.FlagBuriedLast,
	}
	key := goldenOf(t, "v2", "key_buried_last")
	if got := ListKey(nil, 7, List(job.Buried), &last); !bytes.Equal(got, key) {
		t.Errorf("the key is\n%x, want\n%x", got, key)
	}
}

// Keys have no version: they never change.
func TestGoldenKeys(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "v1", "keys.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, key, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			want[name] = key
		}
	}
	j := &job.Job{
		ID: 12344, Group: "gr\x00up", RunAt: goldenTime, Entered: 300,
		Order: job.Order{Rank: -1, Priority: 7, At: goldenTime, Seq: 200},
	}
	bound := *j
	bound.Lease.OnEnd = job.EndRelease
	const ns = "n\x00s"
	got := map[string][]byte{
		"job meta": JobKey(nil, 7, j.ID, PartFirst), "job body": JobKey(nil, 7, j.ID, PartBody),
		"job failures": JobKey(nil, 7, j.ID, PartFailures), "job result": JobKey(nil, 7, j.ID, PartResult),
		"list leased bound": ListKey(nil, 7, ListLeased, &bound),
		"list grouped":      ListKey(nil, 7, ListGrouped, j), "list first": ListKey(nil, 7, ListFirst, j),
		"list per group": ListKey(nil, 7, ListPerGroup, j),
		"alike":          AlikeKey(nil, 7, job.Digest{1, 15: 16}, j.ID),
		"group":          GroupKey(nil, 7, j.Group), "serial": SerialKey(nil, 7, 41),
		"timer":     TimerKey(nil, goldenTime, 7, j.ID),
		"dependant": DependantKey(nil, 5, 7, j.ID), "ephemeral": EphemeralKey(nil, 7, j.ID),
		"key":  KeyKey(nil, ns, "key"),
		"more": MoreKey(nil, ns, "key", j.ID), "number": NumberKey(nil, 12344), "queue": QueueKey(nil, ns, "name"),
		"ending": EndingKey(nil, j.ID, 41), "flush": FlushKey(), "flush spares": FlushKeptKey(nil, 7),
		"shard": MetaKey(), "sweep": SweepKey(nil, 7), "job progress": JobKey(nil, 7, j.ID, PartProgress),
		"value": ValueKey(nil, "sp\x00ce", "name"), "lock": LockKey(nil, ns, "lock"),
		"outcome":     OutcomeKey(nil, ns, "key"),
		"batch state": BatchKey(nil, 12344, BatchState), "batch definition": BatchKey(nil, 12344, BatchFixed),
		"batches": BatchesKey(nil, ns, 12344), "timer of a batch": TimerKey(nil, goldenTime, 0, 12344),
		"schedule state":      ScheduleKey(nil, 12344, BatchState),
		"schedule definition": ScheduleKey(nil, 12344, BatchFixed),
		"schedule name":       ScheduleNameKey(nil, ns, "name"),
		"hook":                HookKey(nil, ns, "queue"), "holder": HolderKey(nil, "name"),
		"forget lock":    ForgetKey(nil, goldenTime, j.ID, LockKey(nil, ns, "lock")),
		"forget outcome": ForgetKey(nil, goldenTime, j.ID, OutcomeKey(nil, ns, "key")),
		"job state":      JobKey(nil, 7, j.ID, PartState),
	}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		got["list "+s.String()] = ListKey(nil, 7, List(s), j)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if k := hex.EncodeToString(got[name]); k != want[name] {
			t.Errorf("%s is %s, want %s", name, k, want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys are tested, %d are in the file", len(got), len(want))
	}
}

// A group is read as it was written, and so is what there was of one before it had a record.
func TestGoldenGroup(t *testing.T) {
	t.Parallel()
	group := Group{
		Running: 2, Held: true, Turn: 300, Credit: 5, Bucket: job.Bucket{Level: 500_000, At: goldenTime},
		RecheckAt: goldenTime + 500_000,
	}
	b := goldenOf(t, "v4", "group")
	if g, err := DecodeGroup(b); err != nil || g != group {
		t.Errorf("group is %+v (%v), want %+v", g, err, group)
	}
	if encoded := AppendGroup(nil, &group); !bytes.Equal(encoded, b) {
		t.Errorf("the group is written as\n%x, want\n%x", encoded, b)
	}
	busy := Group{Running: 1, Held: true, Only: 77}
	if g, err := DecodeGroup(AppendUint(nil, 77)); err != nil || g != busy {
		t.Errorf("a busy group is read as %+v (%v)", g, err)
	}
	if encoded := AppendGroup(nil, &busy); !bytes.Equal(encoded, AppendUint(nil, 77)) {
		t.Errorf("a busy group is written as %x", encoded)
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "cut": b[:5], "newer": {0, 99, 0},
		"long": append(slices.Clip(b), 1),
	} {
		if _, err := DecodeGroup(bad); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
}
