package beanstalkd

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// tube is what connections have to do with a tube. It is there as long as one uses or watches it, whether the engine
// has a queue of that name or not.
type tube struct {
	name            string
	using, watching int // guarded by tubes
	waiting         atomic.Int64
}

// tubes are those that connections use or watch.
type tubes struct {
	mu sync.Mutex
	by map[string]*tube
}

// use has one more connection use a tube, watch one more watch it.
func (t *tubes) use(name string) *tube   { return t.change(name, 1, 0) }
func (t *tubes) watch(name string) *tube { return t.change(name, 0, 1) }

func (t *tubes) change(name string, using, watching int) *tube {
	t.mu.Lock()
	defer t.mu.Unlock()
	tb := t.by[name]
	if tb == nil {
		if t.by == nil {
			t.by = make(map[string]*tube)
		}
		tb = &tube{name: name}
		t.by[name] = tb
	}
	tb.using += using
	tb.watching += watching
	if tb.using == 0 && tb.watching == 0 {
		delete(t.by, name)
	}
	return tb
}

// counts are how many connections use, watch and wait for a tube.
type counts struct{ using, watching, waiting int64 }

// look returns the counts of a tube, and whether anybody uses or watches it.
func (t *tubes) look(name string) (c counts, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tb := t.by[name]
	if tb == nil {
		return counts{}, false
	}
	return counts{int64(tb.using), int64(tb.watching), tb.waiting.Load()}, true
}

// names returns the names of all of them, sorted.
func (t *tubes) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.by))
}
