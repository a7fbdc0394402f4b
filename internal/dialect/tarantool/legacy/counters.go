package legacy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// counter is one of the counters that statistics shows of a tube.
type counter uint8

const (
	countPut counter = iota
	countUrgent
	countTake
	countTakeTimeout
	countAck
	countDelete
	countTouch
	countDone
	countBury
	countDig
	countRelease
	countRequeue
	countMeta
	countPeek

	counterCount = int(countPeek) + 1
)

// What else statistics shows, behind the counters: what has expired or was taken from its worker, and from showTotal on
// how many tasks there are.
const (
	showTotal  = counterCount + 8
	shownCount = showTotal + 6
)

// shown are the names of what statistics shows of a tube: what was counted,
// if it was, and from showTotal on how many tasks there are.
var shown = [shownCount]string{
	"put", "urgent", "take", "take_timeout", "ack", "delete", "touch", "done", "bury", "dig", "release", "requeue",
	"meta", "peek",
	"ttl.total", "ttl.ready", "ttl.delayed", "ttl.taken", "ttl.buried", "ttl.done", "ready_by_disconnect",
	"ready_by_restart",
	"tasks.total", "tasks.ready", "tasks.delayed", "tasks.taken", "tasks.buried", "tasks.done",
}

// tubesMax is how many tubes are counted: a client that asks for ever more
// names must not use up the memory, nor the time of those who ask for statistics.
const tubesMax = dialect.QueuesShown

// tubeName names a tube.
type tubeName struct {
	space uint64
	name  string
}

func (t tubeName) compare(u tubeName) int {
	return cmp.Or(cmp.Compare(t.space, u.space), strings.Compare(t.name, u.name))
}

// tubeCounts are the counters of a tube.
type tubeCounts [counterCount]atomic.Uint64

// stats counts the calls since the start of the server, for all connections.
type stats struct {
	begin sync.Once
	err   error
	// base is what the engine had counted before the server started, for the queues
	// of which it had counted anything. Only start writes it.
	base map[queueName]baseline

	mu    sync.RWMutex // guards tubes; the counters themselves are atomic
	tubes map[tubeName]*tubeCounts
	limit int // of tubes, if not tubesMax
}

// queueName names a queue of the engine.
type queueName struct{ namespace, name string }

// baseline is what the engine has counted for a queue.
type baseline struct {
	ended   uint64
	expired [job.StateCount]uint64
}

// start remembers what the engine has counted so far.
func (s *stats) start(e *engine.Engine) error {
	s.begin.Do(func() { s.err = s.readBase(e) })
	return s.err
}

func (s *stats) readBase(e *engine.Engine) error {
	s.base = make(map[queueName]baseline)
	err := e.Read(func(v *engine.View) error {
		return v.EachQueue("", "", func(q *job.QueueInfo) bool {
			if b := (baseline{q.Totals[job.CountEnded], q.Expired}); b != (baseline{}) {
				s.base[queueName{q.Namespace, q.Name}] = b
			}
			return true
		})
	})
	if err != nil {
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
func (s *stats) add(t tubeName, counter counter, n uint64) {
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
func (s *stats) enter(t tubeName) *tubeCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.tubes[t]
	if counts == nil && len(s.tubes) < cmp.Or(s.limit, tubesMax) {
		if s.tubes == nil {
			s.tubes = make(map[tubeName]*tubeCounts)
		}
		counts = new(tubeCounts)
		s.tubes[t] = counts
	}
	return counts
}

// used reports whether any tube has been used since the start.
func (s *stats) used() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.tubes) > 0
}

// statsRow is what statistics shows of a tube.
type statsRow struct {
	tubeName
	values [shownCount]uint64
}

// rows returns the tubes that have been used since the start and that want agrees
// to, in order, with what has been counted here.
func (s *stats) rows(want func(tubeName) bool) (rows []statsRow) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for t, counts := range s.tubes {
		if !want(t) {
			continue
		}
		row := statsRow{tubeName: t}
		for i := range counts {
			row.values[i] = counts[i].Load()
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b statsRow) int { return a.compare(b.tubeName) })
	return rows
}

// fill adds what the engine knows about the tube. The tasks that were released by
// starts of the server are those of all starts.
func (r *statsRow) fill(q *job.QueueInfo, base *baseline) {
	var expired [job.StateCount]uint64
	all := uint64(0)
	for s := range expired {
		expired[s] = since(q.Expired[s], base.expired[s])
		all += expired[s]
	}
	values := append([]uint64{all}, sums(&expired)...)
	values = append(values, since(q.Totals[job.CountEnded], base.ended), q.Totals[job.CountRestarted], q.Total())
	copy(r.values[counterCount:], append(values, sums(&q.Counts)...))
}

// sums adds up numbers of jobs by the statuses that their states are shown as: ready, delayed, taken, buried, done.
func sums(n *[job.StateCount]uint64) []uint64 {
	return []uint64{
		n[job.Ready], n[job.Scheduled] + n[job.Blocked] + n[job.Retrying], n[job.Leased],
		n[job.Buried] + n[job.Dead], n[job.Done] + n[job.Failed],
	}
}

// shows reports whether a value is shown.
func (r *statsRow) shows(i int) bool { return i >= showTotal || r.values[i] > 0 }
