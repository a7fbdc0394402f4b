package storetest_test

import (
	"errors"
	"testing"

	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/store/storetest"
)

func TestFaultyConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(testing.TB) store.Store { return storetest.NewFaulty(memstore.New()) },
	})
}

func TestFaultyFailsWhenTold(t *testing.T) {
	t.Parallel()
	f := storetest.NewFaulty(memstore.New())
	boom := errors.New("boom")
	f.Fail(storetest.CallCommit, 2, boom)
	var b store.Batch
	b.Set([]byte("k"), []byte("v"))
	for i, want := range []error{nil, boom, nil} {
		if err := store.CommitNow(f, &b); !errors.Is(err, want) {
			t.Errorf("commit %d: %v, want %v", i, err, want)
		}
	}
	snap, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	f.Fail(storetest.CallGet, 1, boom)
	if _, _, err := snap.Get(nil, []byte("k")); !errors.Is(err, boom) {
		t.Errorf("Get: %v, want %v", err, boom)
	}
	f.FailAll(boom)
	if _, err := f.Snapshot(); !errors.Is(err, boom) {
		t.Errorf("Snapshot: %v, want %v", err, boom)
	}
	f.FailAll(nil)
	if err := store.CommitNow(f, &b); err != nil {
		t.Errorf("commit: %v", err)
	}
	for call, want := range map[storetest.Call]int{
		storetest.CallCommit: 4, storetest.CallGet: 1, storetest.CallScan: 0, storetest.CallSnapshot: 2,
	} {
		if got := f.Count(call); got != want {
			t.Errorf("call %d was counted %d times, want %d", call, got, want)
		}
	}
}
