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
	table := &table[string]{room: left}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				for n := range names {
					name := fmt.Sprintf("name %d", n)
					v := table.add(name, func(name string) *string { return &name })
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
	if n := len(table.all()); n != room || left.Load() != 0 {
		t.Errorf("%d are there, room for %d", n, left.Load())
	}
	if table.get("unknown") != nil {
		t.Error("an unknown name has a value")
	}
}
