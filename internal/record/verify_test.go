package record

import (
	"errors"
	"slices"
	"testing"

	"millrace/internal/job"
)

// Every kind of record is taken as it is written, and refused with a byte too many, with
// another version, under a key of another length, or with a value where none belongs.
func TestVerify(t *testing.T) {
	t.Parallel()
	j := plainJob(job.Ready)
	queue := QueueKey(nil, "ns", "q")
	lock := LockKey(nil, "ns", "l")
	for name, r := range map[string]struct {
		key, value []byte
		free       bool // the value may be anything
		open       bool // so may the end of the key
	}{
		"shard": {key: MetaKey(), value: AppendShard(nil, &Shard{NextID: 1, NextSeq: 1, NextQueue: 1})},
		"queue": {key: queue, value: AppendQueue(nil, &Queue{ID: 1}), open: true},
		"name":  {key: QueueNameKey(nil, 1), value: queue, free: true},
		"first": {key: JobKey(nil, 1, 2, PartFirst), value: AppendFirst(nil, &j)},
		"body":  {key: JobKey(nil, 1, 2, PartBody), value: AppendBody(nil, &j), free: true},
		"failures": {
			key:   JobKey(nil, 1, 2, PartFailures),
			value: AppendFailures(nil, []job.Failure{{Message: "no"}}),
		},
		"result":     {key: JobKey(nil, 1, 2, PartResult), value: []byte("any"), free: true},
		"state":      {key: JobKey(nil, 1, 2, PartState), value: AppendMeta(nil, &j)},
		"progress":   {key: JobKey(nil, 1, 2, PartProgress), value: AppendProgress(nil, &Progress{Text: "half"})},
		"list":       {key: ListKey(nil, 1, ListReady, &j), open: true},
		"blocked":    {key: ListKey(nil, 1, List(job.Blocked), &j), open: true},
		"busy group": {key: GroupKey(nil, 1, "g"), value: AppendUint(nil, 7), open: true},
		"group":      {key: GroupKey(nil, 1, "g"), value: AppendGroup(nil, &Group{Running: 1}), open: true},
		"turn":       {key: TurnKey(nil, 1, 5, 77, 9), open: true},
		"look":       {key: RecheckKey(nil, 1, goldenTime, "g"), open: true},
		"timer":      {key: TimerKey(nil, 5, 1, 2)},
		"key":        {key: KeyKey(nil, "ns", "k"), value: AppendKeyRef(nil, KeyRef{}), open: true},
		"more":       {key: MoreKey(nil, "ns", "k", 2), value: AppendUint(nil, 1)},
		"number":     {key: NumberKey(nil, 9), value: AppendRef(nil, JobRef{Queue: 1, ID: 2})},
		"serial":     {key: SerialKey(nil, 1, 3), value: AppendUint(nil, 2)},
		"alike":      {key: AlikeKey(nil, 1, job.Digest{1}, 2)},
		"dependant":  {key: DependantKey(nil, 1, 1, 2)},
		"ephemeral":  {key: EphemeralKey(nil, 1, 2)},
		"sweep":      {key: SweepKey(nil, 1), value: AppendSweep(nil, Sweep{})},
		"ending":     {key: EndingKey(nil, 1, 2), value: AppendEnding(nil, Ending{})},
		"flush":      {key: FlushKey(), value: AppendFlush(nil, &Flush{})},
		"spared":     {key: FlushKeptKey(nil, 1)},
		"lock":       {key: lock, value: AppendLock(nil, Lock{Taker: 2, Until: 5}), open: true},
		"outcome": {
			key:   OutcomeKey(nil, "ns", "k"),
			value: AppendOutcome(nil, &Outcome{ID: 2, How: 1}), open: true,
		},
		"forget":       {key: ForgetKey(nil, 5, 2, lock), value: lock, free: true},
		"batch":        {key: BatchKey(nil, 1, BatchState), value: AppendBatch(nil, &Batch{})},
		"batch def":    {key: BatchKey(nil, 1, BatchFixed), value: AppendBatchDef(nil, &BatchDef{})},
		"batches":      {key: BatchesKey(nil, "ns", 1)},
		"schedule":     {key: ScheduleKey(nil, 1, BatchState), value: AppendSchedule(nil, &Schedule{})},
		"schedule def": {key: ScheduleKey(nil, 1, BatchFixed), value: AppendScheduleDef(nil, &job.Schedule{})},
		"schedules":    {key: ScheduleNameKey(nil, "ns", "name"), value: AppendUint(nil, 1), open: true},
		"hook":         {key: HookKey(nil, "ns", "q"), value: AppendHook(nil, &job.Hook{}), open: true},
		"holder":       {key: HolderKey(nil, "name"), value: AppendHolder(nil, &job.KeptHolder{}), open: true},
		"value":        {key: ValueKey(nil, "space", "name"), value: []byte("any"), free: true, open: true},
	} {
		if err := Verify(r.key, r.value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		refuse := func(what string, key, value []byte) {
			if err := Verify(key, value); !errors.Is(err, ErrFormat) {
				t.Errorf("%s with %s: %v", name, what, err)
			}
		}
		if !r.free {
			refuse("a longer value", r.key, append(slices.Clone(r.value), 0))
		}
		if !r.open {
			refuse("a longer key", append(slices.Clone(r.key), 0), r.value)
		}
		if name != "shard" && name != "flush" { // which have one byte
			refuse("a short key", r.key[:1], r.value)
		}
	}
	for name, key := range map[string][]byte{
		"no key": nil, "another space": {'x'}, "another part": JobKey(nil, 1, 2, 99),
		"another part of a batch":    BatchKey(nil, 1, 99),
		"another part of a schedule": ScheduleKey(nil, 1, 99),
	} {
		if err := Verify(key, nil); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
