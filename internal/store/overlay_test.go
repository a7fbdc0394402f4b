package store

import (
	"fmt"
	"testing"
)

// An overlay is emptied for its next use, and a huge one gives its memory back.
func TestOverlayReset(t *testing.T) {
	t.Parallel()
	var o Overlay
	for round := range 2 {
		for i := range 40_000 {
			o.Set(fmt.Appendf(nil, "key %d of round %d", i, round), []byte("value"))
		}
		o.DeleteRange([]byte("a"), []byte("b"))
		if _, there, known := o.Lookup(fmt.Appendf(nil, "key 39999 of round %d", round)); !there || !known {
			t.Fatal("a key is lost")
		}
		if n := len(o.changesIn(Range{})); n != 40_000 {
			t.Fatalf("%d changes, want 40,000", n)
		}
		o.Reset()
		if o.Len() != 0 || len(o.ranges.runs) != 0 || len(o.slots) > slotsKept || len(o.changesIn(Range{})) != 0 {
			t.Fatalf("not empty: %d changes, %d slots", o.Len(), len(o.slots))
		}
		if _, _, known := o.Lookup([]byte("key 5 of round 0")); known {
			t.Fatal("an emptied overlay knows a key")
		}
	}
}

// Keys that come and go leave nothing to be written, also when the changes come in batches.
func TestOverlayCancelsOut(t *testing.T) {
	t.Parallel()
	var o Overlay
	for i := range 100 {
		var push, ack Batch
		push.Insert(fmt.Appendf(nil, "job %d", i), []byte("body"))
		push.Insert(fmt.Appendf(nil, "list %d", i), nil)
		ack.Remove(fmt.Appendf(nil, "list %d", i))
		ack.Delete(fmt.Appendf(nil, "job %d", i))
		o.Add(&push)
		o.Add(&ack)
	}
	o.Each(func(op Op, key, _ []byte) bool {
		t.Errorf("operation %d of %q is left", op, key)
		return true
	})
}
