package lmstfy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTable adds and looks up from many goroutines: a name has one value for ever, and there
// are not more than there is room for.
func TestTable(t *testing.T) {
	t.Parallel()
	const names, room = 300, 200
	left := new(atomic.Int64)
	left.Store(room)
	table := newTable[string](left)
	var made atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				for n := range names {
					name := fmt.Sprintf("name %d", n)
					v := table.add(name, func(name string) *string {
						made.Add(1)
						return &name
					})
					if v != nil && *v != name {
						t.Errorf("%q has the value of %q", name, *v)
					}
					if got := table.get(name); v != nil && got != v {
						t.Errorf("%q has two values", name)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n != room || len(table.all()) != room || left.Load() != 0 {
		t.Errorf("%d were made, %d are there, room for %d", n, len(table.all()), left.Load())
	}
	if table.get("unknown") != nil {
		t.Error("an unknown name has a value")
	}
	// After enough looks everything is found without a lock.
	found := 0
	for n := range names {
		if (*table.read.Load())[fmt.Sprintf("name %d", n)] != nil {
			found++
		}
	}
	if found != room {
		t.Errorf("%d of %d are found without a lock", found, room)
	}
}
