package store

import (
	"bytes"
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

// Keys are inserted without being entered into the index: no way of asking for them may tell.
func TestOverlayIndexesLate(t *testing.T) {
	t.Parallel()
	key := func(i int) []byte { return fmt.Appendf(nil, "job %03d", i) }
	fill := func() *Overlay {
		o := &Overlay{}
		for i := range 100 {
			o.Insert(key(99-i), []byte("body"))
		}
		if len(o.slots) != 0 {
			t.Fatal("keys are indexed when they are inserted")
		}
		return o
	}
	left := func(o *Overlay) (n int) {
		o.Each(func(Op, []byte, []byte) bool { n++; return true })
		return n
	}

	o := fill()
	if value, there, known := o.Lookup(key(7)); !there || !known || string(value) != "body" {
		t.Errorf("looked up: %q, there %t, known %t", value, there, known)
	}
	if _, _, known := o.Lookup([]byte("job")); known {
		t.Error("it knows a key that was never inserted")
	}

	o = fill()
	for i, c := range o.changesIn(Range{}) {
		if !bytes.Equal(c.key, key(i)) || !c.there {
			t.Fatalf("change %d is of %q", i, c.key)
		}
	}

	o = fill()
	o.Set(key(7), []byte("other"))
	if value, _, _ := o.Lookup(key(7)); string(value) != "other" || left(o) != 100 {
		t.Errorf("set: %q, %d changes", value, left(o))
	}
	o.Delete(key(7))
	o.Remove(key(8))
	o.Insert(key(9), []byte("twice"))
	if _, there, _ := o.Lookup(key(7)); there || left(o) != 99 {
		t.Errorf("deleted: there %t, %d changes", there, left(o))
	}

	o = fill()
	o.DeleteRange(key(10), key(20))
	o.Insert(key(15), []byte("again"))
	if value, there, _ := o.Lookup(key(15)); !there || string(value) != "again" {
		t.Errorf("inserted behind a range delete: %q, there %t", value, there)
	}
	if _, there, known := o.Lookup(key(16)); there || !known {
		t.Errorf("of a range delete: there %t, known %t", there, known)
	}
	if n := len(o.changesIn(Range{Lo: key(15), Hi: key(16)})); n != 1 {
		t.Errorf("a key that was inserted twice is found %d times", n)
	}
}
