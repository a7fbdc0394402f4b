package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/job"
)

// How a job stands is read over how it stood before, of which nothing is left.
func TestMetaIsReadOverAnother(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		g := newGen(seed)
		want, got := g.meta(), g.meta()
		if err := DecodeMeta(AppendMeta(nil, &want), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// A job that is buried behind the others cannot be read by a release that does not know that place.
func TestBuriedLastHasVersion(t *testing.T) {
	t.Parallel()
	j := plainJob(job.Buried)
	if b := AppendMeta(nil, &j); b[0] != 1 {
		t.Errorf("%x", b)
	}
	j.Flags |= job.FlagBuriedLast
	if b := AppendMeta(nil, &j); b[0] != 2 {
		t.Errorf("%x", b)
	}
}

// The length of what is before the body needs two bytes, or three.
func TestLongFirst(t *testing.T) {
	t.Parallel()
	want := plainJob(job.Ready)
	want.Flags |= job.FlagInline
	want.BodyKind, want.Body = job.BodyBytes, []byte("body")
	short := len(AppendMeta(nil, &want))
	for size := 1<<14 - 10; size < 1<<14+10; size++ {
		want.Key = strings.Repeat("k", size-short)
		var got job.Job
		if err := DecodeFirst(AppendFirst(nil, &want), &got); err != nil || !cmp.Equal(want, got) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

// What is rare about groups is kept without the rest of it, and is always written in the same order.
func TestQueueWithGroups(t *testing.T) {
	t.Parallel()
	weights := map[string]uint32{}
	for i := range job.WeightsMax {
		weights[fmt.Sprint(i)] = 2
	}
	for _, want := range []Queue{
		{Limits: job.Limits{GroupConcurrency: 1}},
		{Limits: job.Limits{GroupRate: 1, GroupPer: time.Second, GroupBurst: 1}},
		{Regroup: RegroupRefill},
		{Turns: true, Turn: 5, Credit: 2},
		{Turns: true, Fairness: job.Fairness{On: true, Weights: weights}},
	} {
		b := AppendQueue(nil, &want)
		got, err := DecodeQueue(b)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if !bytes.Equal(AppendQueue(nil, &got), b) {
			t.Errorf("%+v is written in two ways", want)
		}
	}
	held := Group{Running: 1, Held: true}
	if got, err := DecodeGroup(AppendGroup(nil, &held)); err != nil || got != held {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of blockers only those that are no places in an Atomic are kept, and a number that is too large is refused.
func TestBlockersAndNumbers(t *testing.T) {
	t.Parallel()
	def := BatchDef{Success: &job.Spec{BlockedBy: []job.Blocker{{Back: 1}, {QueueNum: 3, ID: 5}}}}
	got, err := DecodeBatchDef(AppendBatchDef(nil, &def))
	if err != nil || len(got.Success.BlockedBy) != 1 || got.Success.BlockedBy[0].ID != 5 {
		t.Errorf("%+v, %v", got.Success, err)
	}
	if r, err := DecodeRef(AppendUint(AppendUint(nil, 1<<32), 7)); err == nil {
		t.Errorf("%+v", r)
	}
}
