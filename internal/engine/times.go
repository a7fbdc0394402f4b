package engine

import (
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// Times are how long jobs waited, from when they were ready until they were fetched, and how long they ran, from
// then until a worker acked or failed them.
type Times struct{ Wait, Run timing.Histogram }

// add adds what others were.
func (t *Times) add(o *Times) {
	t.Wait.Add(&o.Wait)
	t.Run.Add(&o.Run)
}

// QueueTimes are the times of the jobs of one queue that were fetched through one door, since the engine was
// opened, or with Others those of all queues together that have none of their own.
type QueueTimes struct {
	Namespace, Queue string
	Others           bool
	Door             job.Door
	Times
}

// DoorTimes are the times of the jobs of all queues that were fetched through one door.
type DoorTimes struct {
	Door job.Door
	Times
}

// doorMax is the number of doors that are told apart.
const doorMax = 16

// timedQueuesMax is how many queues have times of their own unless Options say otherwise.
const timedQueuesMax = 500

// doorTimes are times by door; nil where there are none.
type doorTimes [doorMax]*Times

func (d *doorTimes) at(door job.Door) *Times {
	door = min(door, doorMax-1)
	if d[door] == nil {
		d[door] = new(Times)
	}
	return d[door]
}

// watch is what the machine tells about times. It is called, and read, with the engine's lock held.
type watch struct {
	max    int
	queues map[queueKey]*queueWatch
	other  *queueWatch // of queues beyond the bound; nil: there is none
	gone   doorTimes   // of queues that were removed
}

type queueKey struct{ namespace, name string }

// queueWatch is told about the jobs of one queue, or of all those beyond the bound.
type queueWatch struct {
	key   queueKey
	watch *watch
	times doorTimes
}

func newWatch(maxQueues int) *watch {
	if maxQueues <= 0 {
		maxQueues = timedQueuesMax
	}
	return &watch{max: maxQueues, queues: map[queueKey]*queueWatch{}}
}

// Watch returns who is told about a queue. The queues that are used first have times of their own.
func (w *watch) Watch(namespace, queue string) machine.QueueObserver {
	if len(w.queues) < w.max {
		q := &queueWatch{key: queueKey{namespace, queue}, watch: w}
		w.queues[q.key] = q
		return q
	}
	if w.other == nil {
		w.other = &queueWatch{watch: w}
	}
	return w.other
}

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

// Fetched counts how long a job has waited.
func (q *queueWatch) Fetched(by job.Door, waited time.Duration) { q.times.at(by).Wait.Observe(waited) }

// Settled counts how long a job has run.
func (q *queueWatch) Settled(by job.Door, ran time.Duration) { q.times.at(by).Run.Observe(ran) }

// Gone makes room for another queue. One that comes back under the same name counts from zero.
func (q *queueWatch) Gone() {
	if q == q.watch.other {
		return
	}
	delete(q.watch.queues, q.key)
	for door, t := range q.times {
		if t != nil {
			q.watch.gone.at(job.Door(door)).add(t)
		}
	}
}

// QueueTimes returns the times of the jobs of a queue, through whatever door. It is false for a queue that has
// none of its own: because nothing was fetched from it since the engine was opened, or because too many others
// were first.
func (e *Engine) QueueTimes(namespace, queue string) (t Times, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.watch.queues[queueKey{namespace, queue}]
	if q == nil {
		return t, false
	}
	for _, by := range q.times {
		if by != nil {
			t.add(by)
		}
	}
	return t, true
}

// EachQueueTimes calls visit for every queue that has times of its own and every door that it was fetched from
// through, in no order, and for all other queues together. The times are valid until visit returns.
func (e *Engine) EachQueueTimes(visit func(*QueueTimes)) {
	e.mu.Lock()
	list := e.watch.all()
	e.mu.Unlock()
	var t QueueTimes
	for _, q := range list {
		for door := range q.times {
			e.mu.Lock() // for each anew, so that nobody waits for the copies of all
			by := q.times[door]
			if by != nil {
				t = QueueTimes{q.key.namespace, q.key.name, q == e.watch.other, job.Door(door), *by}
			}
			e.mu.Unlock()
			if by != nil {
				visit(&t)
			}
		}
	}
}

// DoorTimes returns the times of the jobs of all queues by the door through which they were fetched.
func (e *Engine) DoorTimes() []DoorTimes {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := doorTimes{}
	for _, times := range append(e.watch.all(), &queueWatch{times: e.watch.gone}) {
		for door, t := range times.times {
			if t != nil {
				sum.at(job.Door(door)).add(t)
			}
		}
	}
	var list []DoorTimes
	for door, t := range sum {
		if t != nil {
			list = append(list, DoorTimes{job.Door(door), *t})
		}
	}
	return list
}
