package machine

import (
	"slices"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// queue is a queue in memory. All stored queues are there. One that has been removed, and that
// pushes still wait to get into, has no ID, is not stored and is forgotten with the last of them.
// The embedded record is what is stored. Whoever changes it calls markDirty, and Seal writes it once
// per batch.
type queue struct {
	record.Queue
	namespace, name string
	dirty           bool
	waking          bool   // is in Machine.wakes or Machine.leftWakes
	mark            uint64 // of the last walk over queues that has met it
	wakingRoom      bool   // is in Machine.roomWakes or Machine.leftRoomWakes
	kept            bool   // is spared by the flush that is under way
	sums            *sums  // of its namespace
	activeRound     uint32 // of activity, in which it has the place
	activeIndex     uint32 // among the active queues of that round

	ungrouped window  // ready jobs without a group
	firsts    *window // first ready jobs of free groups; nil: not looked at yet
	turns     *window // those of groups that have a turn
	groups    map[string]*group

	waiters       *waitList // fetches, in order of arrival; nil if there never was one
	pushWaiters   *waitList // pushes that wait for room; nil if there never was one
	waitingPushes uint64    // how many they are
	awaited       *jobWaits // those who wait for results of its jobs; nil if there never was one
	alarm         *alarm    // the end of a pause
	limit         *limiter  // nil if nothing is limited
	regroupFrom   []byte    // where to go on showing or hiding groups; nil: that is done
	rewriteOnly   bool      // nothing changes by that but records, and the queue gives out jobs meanwhile
	sweep         *sweep    // the clean-up after a purge; nil if there is none

	observer QueueObserver // nil if there is none yet
}

// noFirsts is the window of all queues that are known to have no groups.
var noFirsts = &window{whole: true}

// total returns how many jobs the queue has, in any state.
func (q *queue) total() uint64 {
	var n uint64
	for _, c := range q.Counts {
		n += c
	}
	return n
}

// findQueue returns the stored queue of that name, or nil.
func (m *Machine) findQueue(namespace, name string) *queue {
	q := m.spaces[namespace][name]
	if q == nil || q.ID == 0 {
		return nil
	}
	return q
}

// QueueCount returns how many queues are stored.
func (m *Machine) QueueCount() int { return len(m.byID) }

// HasQueue reports whether a queue is stored.
func (m *Machine) HasQueue(namespace, name string) bool { return m.findQueue(namespace, name) != nil }

// queueNamed returns the queue of that name, stored or not. A new one takes over those who wait for jobs
// of that name already.
func (m *Machine) queueNamed(namespace, name string) *queue {
	space := m.spaces[namespace]
	if space == nil {
		space = map[string]*queue{}
		m.spaces[namespace] = space
	}
	q := space[name]
	if q == nil {
		q = &queue{namespace: namespace, name: name, ungrouped: window{whole: true}, sums: m.sumsOf(namespace)}
		space[name] = q
		m.adoptWaiters(q)
	}
	return q
}

// makeQueue returns the stored queue of that name and creates it if need be. If a flush is still to
// come to the queue, it is removed first, so that what is added now is not lost with it (section
// 13). Numbers of queues are never used again: entries of a removed queue may still wait for their
// sweep.
func (m *Machine) makeQueue(namespace, name string) *queue {
	q := m.queueNamed(namespace, name)
	if m.flush != nil && q.ID != 0 && !plant.NewerFlushed.On() {
		m.flushBefore(q)
	}
	if q.ID == 0 {
		// flushBefore may have forgotten the queue that was found before.
		q = m.queueNamed(namespace, name)
		q.ID = m.shard.NextQueue
		m.shard.NextQueue++
		m.markShardDirty()
		q.Created = m.now
		q.firsts, q.turns = noFirsts, noFirsts
		q.addToSums()
		m.byID[q.ID] = q
		m.markDirty(q)
		m.set(record.QueueNameKey(nil, q.ID), record.QueueKey(nil, namespace, name))
	}
	return q
}

// markVisited reports whether the walk in progress has met the queue before, and marks it. A fetch may name
// a queue twice. The walk begins with a new mark.
func (m *Machine) markVisited(q *queue) bool {
	if q.mark == m.mark {
		return true
	}
	q.mark = m.mark
	return false
}

// forgetQueue drops a queue that is not stored and that no push waits to get into. Fetches that wait for
// its jobs stay, under its name.
func (m *Machine) forgetQueue(q *queue) {
	if q.ID == 0 && q.pushWaiters.empty() && m.spaces[q.namespace][q.name] == q {
		m.keepWaiters(q)
		delete(m.spaces[q.namespace], q.name)
		if len(m.spaces[q.namespace]) == 0 {
			delete(m.spaces, q.namespace)
			delete(m.sums, q.namespace)
		}
	}
}

// markDirty has the queue's record written with this batch. The step is noted: answers that tell a
// count have to wait for the batch, although no other key may have changed.
func (m *Machine) markDirty(q *queue) {
	m.changedAt = m.step
	if !q.dirty {
		q.dirty = true
		m.dirty = append(m.dirty, q)
	}
}

// loadQueue takes a queue from the store at the start. It reads none of its jobs: windows are empty
// and are refilled when somebody fetches. Regrouping and counting that a crash has interrupted
// begin again.
func (m *Machine) loadQueue(key, value []byte) *queue {
	namespace, name, ok := record.ParseQueueKey(key)
	if !ok {
		corrupt("queue key", record.ErrFormat)
	}
	rec, err := record.DecodeQueue(value)
	corrupt("queue "+name, err)
	q := m.queueNamed(namespace, name)
	q.Queue = rec
	q.addToSums()
	q.ungrouped.whole = rec.Counts[job.Ready] == 0
	if rec.Counts[job.Ready] == 0 {
		q.firsts, q.turns = noFirsts, noFirsts
	}
	m.byID[q.ID] = q
	if q.Paused && q.PausedTill != 0 {
		m.armPause(q)
	}
	if !plant.LimitForgotten.On() {
		m.rebuildLimiter(q)
	}
	if !q.Limits.IsZero() { // set before formats were counted
		m.format = max(m.format, record.FormatLimits)
	}
	if q.Regroup != 0 {
		m.beginRegroup(q)
	}
	return q
}

// queuesInOrder returns the stored queues by their numbers, so that nothing
// depends on the order of a map.
func (m *Machine) queuesInOrder() []*queue {
	qs := make([]*queue, 0, len(m.byID))
	for _, q := range m.byID {
		qs = append(qs, q)
	}
	slices.SortFunc(qs, func(a, b *queue) int { return int(a.ID) - int(b.ID) })
	return qs
}
