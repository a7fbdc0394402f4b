package tarantool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// legacyCounter is one of the counters that statistics shows of a tube.
type legacyCounter uint8

const (
	legacyCountPut legacyCounter = iota
	legacyCountUrgent
	legacyCountTake
	legacyCountTakeTimeout
	legacyCountAck
	legacyCountDelete
	legacyCountTouch
	legacyCountDone
	legacyCountBury
	legacyCountDig
	legacyCountRelease
	legacyCountRequeue
	legacyCountMeta
	legacyCountPeek

	legacyCounterCount = int(legacyCountPeek) + 1
)

// What else statistics shows, behind the counters.
const (
	legacyShowExpired = legacyCounterCount + iota
	legacyShowExpiredReady
	legacyShowExpiredDelayed
	legacyShowExpiredTaken
	legacyShowExpiredBuried
	legacyShowExpiredDone
	legacyShowDisconnect
	legacyShowRestart
	legacyShowTotal
	legacyShowReady
	legacyShowDelayed
	legacyShowTaken
	legacyShowBuried
	legacyShowDone

	legacyShownCount
)

// legacyShown are the names of what statistics shows of a tube: what was counted,
// if it was, and from legacyShowTotal on how many tasks there are.
var legacyShown = [legacyShownCount]string{
	"put", "urgent", "take", "take_timeout", "ack", "delete", "touch", "done", "bury", "dig", "release", "requeue", "meta", "peek",
	"ttl.total", "ttl.ready", "ttl.delayed", "ttl.taken", "ttl.buried", "ttl.done", "ready_by_disconnect", "ready_by_restart",
	"tasks.total", "tasks.ready", "tasks.delayed", "tasks.taken", "tasks.buried", "tasks.done",
}

// legacyTubesMax is how many tubes are counted: a client that asks for ever more
// names must not use up the memory.
const legacyTubesMax = 100_000

// legacyTube names a tube.
type legacyTube struct {
	space uint64
	name  string
}

func (t legacyTube) compare(u legacyTube) int {
	return cmp.Or(cmp.Compare(t.space, u.space), strings.Compare(t.name, u.name))
}

// legacyCounts are the counters of a tube.
type legacyCounts [legacyCounterCount]atomic.Uint64

// legacyStats counts the calls since the start of the server, for all connections.
type legacyStats struct {
	begin sync.Once
	err   error
	// base is what the engine had counted before the server started, for the queues
	// of which it had counted anything. Only start writes it.
	base map[legacyQueue]legacyBase

	mu    sync.RWMutex // guards tubes; the counters themselves are atomic
	tubes map[legacyTube]*legacyCounts
	limit int // of tubes, if not legacyTubesMax
}

// legacyQueue names a queue of the engine.
type legacyQueue struct{ namespace, name string }

// legacyBase is what the engine has counted for a queue.
type legacyBase struct {
	ended   uint64
	expired [job.StateCount]uint64
}

// start remembers what the engine has counted so far.
func (s *legacyStats) start(e *engine.Engine) error {
	s.begin.Do(func() { s.err = s.readBase(e) })
	return s.err
}

func (s *legacyStats) readBase(e *engine.Engine) error {
	s.base = make(map[legacyQueue]legacyBase)
	v, err := e.View()
	if err != nil {
		return fmt.Errorf("read the counters of queues: %w", err)
	}
	err = v.EachQueue("", "", func(q *job.QueueInfo) bool {
		if b := (legacyBase{q.Totals[job.CountEnded], q.Expired}); b != (legacyBase{}) {
			s.base[legacyQueue{q.Namespace, q.Name}] = b
		}
		return true
	})
	if err = errors.Join(err, v.Close()); err != nil {
		return fmt.Errorf("read the counters of queues: %w", err)
	}
	return nil
}

// since returns how much a counter of the engine has grown. One that is smaller than
// it was belongs to a queue that was removed meanwhile.
func since(now, base uint64) uint64 {
	if now < base {
		return now
	}
	return now - base
}

// add counts calls that concerned a tube.
func (s *legacyStats) add(t legacyTube, counter legacyCounter, n uint64) {
	s.mu.RLock()
	counts := s.tubes[t]
	s.mu.RUnlock()
	if counts == nil {
		if counts = s.enter(t); counts == nil {
			return
		}
	}
	counts[counter].Add(n)
}

// enter lists a tube; nil if there are too many.
func (s *legacyStats) enter(t legacyTube) *legacyCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.tubes[t]
	if counts == nil && len(s.tubes) < cmp.Or(s.limit, legacyTubesMax) {
		if s.tubes == nil {
			s.tubes = make(map[legacyTube]*legacyCounts)
		}
		counts = new(legacyCounts)
		s.tubes[t] = counts
	}
	return counts
}

// legacyRow is what statistics shows of a tube.
type legacyRow struct {
	legacyTube
	values [legacyShownCount]uint64
}

// rows returns the tubes that have been used since the start and that want agrees
// to, in order, with what has been counted here.
func (s *legacyStats) rows(want func(legacyTube) bool) []legacyRow {
	var rows []legacyRow
	s.mu.RLock()
	for t, counts := range s.tubes {
		if !want(t) {
			continue
		}
		row := legacyRow{legacyTube: t}
		for i := range counts {
			row.values[i] = counts[i].Load()
		}
		rows = append(rows, row)
	}
	s.mu.RUnlock()
	slices.SortFunc(rows, func(a, b legacyRow) int { return a.compare(b.legacyTube) })
	return rows
}

// fill adds what the engine knows about the tube. The tasks that were released by
// starts of the server are those of all starts.
func (r *legacyRow) fill(q *job.QueueInfo, base *legacyBase) {
	v, n := &r.values, &q.Counts
	v[legacyShowTotal] = q.Total()
	v[legacyShowReady], v[legacyShowDelayed], v[legacyShowTaken], v[legacyShowBuried], v[legacyShowDone] = legacySums(n)
	var expired [job.StateCount]uint64
	for s := range expired {
		expired[s] = since(q.Expired[s], base.expired[s])
		v[legacyShowExpired] += expired[s]
	}
	v[legacyShowExpiredReady], v[legacyShowExpiredDelayed], v[legacyShowExpiredTaken],
		v[legacyShowExpiredBuried], v[legacyShowExpiredDone] = legacySums(&expired)
	v[legacyShowDisconnect] = since(q.Totals[job.CountEnded], base.ended)
	v[legacyShowRestart] = q.Totals[job.CountRestarted]
}

// legacySums adds up numbers of jobs by the statuses that their states are shown as.
func legacySums(n *[job.StateCount]uint64) (ready, delayed, taken, buried, done uint64) {
	return n[job.Ready], n[job.Scheduled] + n[job.Blocked] + n[job.Retrying], n[job.Leased],
		n[job.Buried] + n[job.Dead], n[job.Done] + n[job.Failed]
}

// shows reports whether a value is shown.
func (r *legacyRow) shows(i int) bool { return i >= legacyShowTotal || r.values[i] > 0 }
