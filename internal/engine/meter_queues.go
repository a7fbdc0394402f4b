package engine

import (
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// DoorCount is the number of doors that the engine tells apart; those behind count as the last.
const DoorCount = 16

// timedQueuesMax is how many queues have figures of their own unless Options say otherwise.
const timedQueuesMax = 500

// queueTable is what the machine tells about jobs, by queue and door. The engine's lock is held when it is told, and
// when it is read.
type queueTable struct {
	max    int
	queues map[queueKey]*queueRow
	other  *queueRow // of queues beyond the bound; nil: there is none
	made   uint64    // rows so far
	types  typeTable
	by     job.Door // of the request that is being applied
}

type queueKey struct{ namespace, name string }

// queueRow is told about the jobs of one queue, or of all those beyond the bound.
type queueRow struct {
	key    queueKey
	number uint64
	table  *queueTable
	doors  [DoorCount]*queueCell // nil where nothing has happened
}

// queueCell is what happened to the jobs of a queue through one door.
type queueCell struct {
	counts [job.CounterCount]uint64
	times  []*Times // by the number of the type; nil where none was fetched
}

// Times are how long jobs waited, from when they were ready until they were fetched, and how long they ran, from
// then until a worker acked or failed them.
type Times struct {
	Wait, Run timing.Histogram
	Failed    uint64 // of those that ran
}

// Add adds what others were.
func (t *Times) Add(o *Times) {
	t.Wait.Add(&o.Wait)
	t.Run.Add(&o.Run)
	t.Failed += o.Failed
}

// Sub takes away what an earlier copy of the same times had: what is left came since.
func (t *Times) Sub(o *Times) {
	t.Wait.Sub(&o.Wait)
	t.Run.Sub(&o.Run)
	t.Failed -= o.Failed
}

func newQueueTable(maxQueues, maxTypes int) queueTable {
	if maxQueues <= 0 {
		maxQueues = timedQueuesMax
	}
	return queueTable{max: maxQueues, queues: map[queueKey]*queueRow{}, types: newTypeTable(maxTypes)}
}

// Watch returns who is told about a queue. The queues that are used first have figures of their own.
func (t *queueTable) Watch(namespace, queue string) machine.QueueObserver {
	if t.room() {
		q := t.row(queueKey{namespace, queue})
		t.queues[q.key] = q
		return q
	}
	if t.other == nil {
		t.other = t.row(queueKey{})
	}
	return t.other
}

func (t *queueTable) row(key queueKey) *queueRow {
	t.made++
	return &queueRow{key: key, number: t.made, table: t}
}

// room reports whether one more queue can have figures of its own.
func (t *queueTable) room() bool { return len(t.queues) < t.max }

func (q *queueRow) at(door job.Door) *queueCell {
	door = min(door, DoorCount-1)
	if q.doors[door] == nil {
		q.doors[door] = new(queueCell)
	}
	return q.doors[door]
}

// Pushed counts a job.
func (q *queueRow) Pushed(by job.Door) { q.at(by).counts[job.CountPushed]++ }

// Counted counts what a command did at the door that it came through.
func (q *queueRow) Counted(c job.Counter, n uint64, asked bool) {
	var by job.Door
	if asked {
		by = q.table.by
	}
	q.at(by).counts[c] += n
}

// Fetched counts a delivery and how long the job has waited.
func (q *queueRow) Fetched(by job.Door, typ string, waited time.Duration) machine.TypeID {
	c, kind := q.at(by), q.table.types.idOf(typ)
	c.counts[job.CountFetched]++
	q.table.types.times(c, kind).Wait.Observe(waited)
	return kind
}

// Settled counts how long a job has run.
func (q *queueRow) Settled(by job.Door, kind machine.TypeID, ran time.Duration, failed bool) {
	t := q.table.types.times(q.at(by), kind)
	t.Run.Observe(ran)
	if failed {
		t.Failed++
	}
}

// Gone makes room for another queue. One that comes back under the same name counts from zero.
func (q *queueRow) Gone() {
	if q == q.table.other {
		return
	}
	delete(q.table.queues, q.key)
	for _, c := range q.doors {
		if c != nil {
			q.table.types.release(c)
		}
	}
}

// QueueFigures are what happened to the jobs of a queue through one door since the engine was opened, or with Others
// to those of all queues together that have no figures of their own.
type QueueFigures struct {
	Namespace, Queue string
	Row              uint64 // tells it apart from a queue of the same name that was removed
	Others           bool
	Door             job.Door // 0 has what was due and what the server does by itself
	// Counts are how much the lifetime counters of the queue have grown.
	Counts [job.CounterCount]uint64
	// Types are the times of the jobs that were fetched through the door, by their type.
	Types []TypeTimes
}

// TypeTimes are the times of the jobs of a type, or with Others of all types together that have none of their own.
// Jobs without a type are one more, and with them those whose type is not known any more: they were fetched before
// the engine was opened, or too many were leased.
type TypeTimes struct {
	Type   string
	Others bool
	Times
}

// EachQueueFigures calls visit for every queue that has figures of its own and every door through which something
// happened to it, in no order, and for all other queues together. The figures are valid until visit returns. It reports
// whether there is room for more queues: then nothing has happened to those that are not visited.
//
// Each piece is copied with the lock taken again, so that nobody waits for the copies of all.
func (e *Engine) EachQueueFigures(visit func(*QueueFigures)) (room bool) {
	t := &e.meter.queues
	e.mu.Lock()
	rows := make([]*queueRow, 0, len(t.queues)+1)
	for _, q := range t.queues {
		rows = append(rows, q)
	}
	if t.other != nil {
		rows = append(rows, t.other)
	}
	room = t.room()
	e.mu.Unlock()
	var f QueueFigures
	for _, q := range rows {
		e.mu.Lock()
		doors := q.doors
		e.mu.Unlock()
		for door, c := range doors {
			if c == nil {
				continue
			}
			e.mu.Lock()
			f = QueueFigures{q.key.namespace, q.key.name, q.number, q == t.other, job.Door(door), c.counts, f.Types[:0]}
			times := c.times
			e.mu.Unlock()
			for kind := range times {
				e.mu.Lock()
				if own := times[kind]; own != nil {
					f.Types = append(f.Types, TypeTimes{t.types.names[kind], machine.TypeID(kind) == typeOther, *own})
				}
				e.mu.Unlock()
			}
			visit(&f)
		}
	}
	return room
}
