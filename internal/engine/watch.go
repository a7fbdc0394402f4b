package engine

import (
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
)

// DoorCount is the number of doors that the engine tells apart; those behind count as the last.
const DoorCount = 16

// timedQueuesMax is how many queues have figures of their own unless Options say otherwise.
const timedQueuesMax = 500

// watch is what the machine tells about jobs, counted by queue and door since the engine was opened. It is called,
// and read, with the engine's lock held.
type watch struct {
	max    int
	queues map[queueKey]*queueWatch
	other  *queueWatch // of queues beyond the bound; nil: there is none
	gone   doorTimes   // of queues that were removed
	kinds  kinds
	by     job.Door // of the request that is being applied
}

type queueKey struct{ namespace, name string }

// queueWatch is told about the jobs of one queue, or of all those beyond the bound.
type queueWatch struct {
	key   queueKey
	watch *watch
	doors [DoorCount]*doorWatch // nil where there is nothing to tell
}

// doorWatch is what happened to the jobs of a queue through one door.
type doorWatch struct {
	counts [job.CounterCount]uint64
	times  *Times   // nil: nothing was fetched
	kinds  []*Times // those of jobs of a type, by its kind; they are in times, too
}

func newWatch(maxQueues, maxTypes int) *watch {
	if maxQueues <= 0 {
		maxQueues = timedQueuesMax
	}
	return &watch{max: maxQueues, queues: map[queueKey]*queueWatch{}, kinds: newKinds(maxTypes)}
}

// Watch returns who is told about a queue. The queues that are used first have figures of their own.
func (w *watch) Watch(namespace, queue string) machine.QueueObserver {
	if w.room() {
		q := &queueWatch{key: queueKey{namespace, queue}, watch: w}
		w.queues[q.key] = q
		return q
	}
	if w.other == nil {
		w.other = &queueWatch{watch: w}
	}
	return w.other
}

// room reports whether one more queue can have figures of its own.
func (w *watch) room() bool { return len(w.queues) < w.max }

// all returns everyone that is told about queues.
func (w *watch) all() []*queueWatch {
	list := make([]*queueWatch, 0, len(w.queues)+1)
	for _, q := range w.queues {
		list = append(list, q)
	}
	if w.other != nil {
		list = append(list, w.other)
	}
	return list
}

func (q *queueWatch) at(door job.Door) *doorWatch {
	door = min(door, DoorCount-1)
	if q.doors[door] == nil {
		q.doors[door] = new(doorWatch)
	}
	return q.doors[door]
}

// Pushed counts a job.
func (q *queueWatch) Pushed(by job.Door) { q.at(by).counts[job.CountPushed]++ }

// Counted counts what a command did at the door that it came through.
func (q *queueWatch) Counted(c job.Counter, n uint64, asked bool) {
	var by job.Door
	if asked {
		by = q.watch.by
	}
	q.at(by).counts[c] += n
}

// Fetched counts a delivery and how long the job has waited.
func (q *queueWatch) Fetched(by job.Door, typ string, waited time.Duration) machine.Kind {
	d, kind := q.at(by), q.watch.kinds.of(typ)
	d.counts[job.CountFetched]++
	if d.times == nil {
		d.times = new(Times)
	}
	d.times.Wait.Observe(waited)
	if t := q.watch.kinds.times(d, kind); t != nil {
		t.Wait.Observe(waited)
	}
	return kind
}

// Settled counts how long a job has run.
func (q *queueWatch) Settled(by job.Door, kind machine.Kind, ran time.Duration, failed bool) {
	d := q.at(by)
	if d.times == nil { // it was fetched before the engine was opened
		d.times = new(Times)
	}
	d.times.settled(ran, failed)
	if t := q.watch.kinds.times(d, kind); t != nil {
		t.settled(ran, failed)
	}
}

// Gone makes room for another queue. One that comes back under the same name counts from zero.
func (q *queueWatch) Gone() {
	if q == q.watch.other {
		return
	}
	delete(q.watch.queues, q.key)
	for door, d := range q.doors {
		if d == nil {
			continue
		}
		q.watch.kinds.release(d)
		if d.times != nil {
			q.watch.gone.at(job.Door(door)).Add(d.times)
		}
	}
}

// QueueCounts are how much the lifetime counters of a queue have grown through one door since the engine was
// opened, or with Others those of all queues together that have no figures of their own. Door 0 has what time
// brings and what the server does by itself.
type QueueCounts struct {
	Namespace, Queue string
	Others           bool
	Door             job.Door
	Counts           [job.CounterCount]uint64
}

// EachQueueCounts calls visit for every queue that has figures of its own and every door through which something
// happened to it, in no order, and for all other queues together. It reports whether there is room for more queues:
// then nothing has happened to those that are not visited.
func (e *Engine) EachQueueCounts(visit func(*QueueCounts)) (room bool) {
	e.mu.Lock()
	list := e.watch.all()
	room = e.watch.room()
	e.mu.Unlock()
	var c QueueCounts
	for _, q := range list {
		for door := range q.doors {
			e.mu.Lock() // for each anew, so that nobody waits for the copies of all
			d := q.doors[door]
			if d != nil {
				c = QueueCounts{q.key.namespace, q.key.name, q == e.watch.other, job.Door(door), d.counts}
			}
			e.mu.Unlock()
			if d != nil {
				visit(&c)
			}
		}
	}
	return room
}
