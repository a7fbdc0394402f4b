package engine

import (
	"time"

	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// Times are how long jobs waited, from when they were ready until they were fetched, and how long they ran, from
// then until a worker acked or failed them.
type Times struct {
	Wait, Run timing.Histogram
	Failed    uint64 // of those that ran
}

func (t *Times) settled(ran time.Duration, failed bool) {
	t.Run.Observe(ran)
	if failed {
		t.Failed++
	}
}

// Add adds what others were.
func (t *Times) Add(o *Times) {
	t.Wait.Add(&o.Wait)
	t.Run.Add(&o.Run)
	t.Failed += o.Failed
}

// Sub takes away what a part of them were.
func (t *Times) Sub(o *Times) {
	t.Wait.Sub(&o.Wait)
	t.Run.Sub(&o.Run)
	t.Failed -= o.Failed
}

// QueueTimes are the times of the jobs of one queue that were fetched through one door, since the engine was
// opened, or with Others those of all queues together that have none of their own.
type QueueTimes struct {
	Namespace, Queue string
	Others           bool
	Door             job.Door
	// Type is that of the jobs if EachTypeTimes tells, and OtherTypes that they are of all types together that
	// have no times of their own.
	Type       string
	OtherTypes bool
	Times
}

// DoorTimes are the times of the jobs of all queues that were fetched through one door.
type DoorTimes struct {
	Door job.Door
	Times
}

// doorTimes are times by door; nil where there are none.
type doorTimes [DoorCount]*Times

func (d *doorTimes) at(door job.Door) *Times {
	door = min(door, DoorCount-1)
	if d[door] == nil {
		d[door] = new(Times)
	}
	return d[door]
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
	for _, d := range q.doors {
		if d != nil && d.times != nil {
			t.Add(d.times)
			ok = true
		}
	}
	return t, ok
}

// EachQueueTimes calls visit for every queue that has times of its own and every door that it was fetched from
// through, in no order, and for all other queues together. The times are valid until visit returns.
func (e *Engine) EachQueueTimes(visit func(*QueueTimes)) {
	e.eachTimes(visit, func(list []QueueTimes, t QueueTimes, _ []*Times) []QueueTimes { return append(list, t) })
}

// EachTypeTimes does the same for every type of jobs on its own. Jobs without a type are one more, and with them
// those whose type is not known any more: they were fetched before the engine was opened, or too many were leased.
func (e *Engine) EachTypeTimes(visit func(*QueueTimes)) {
	e.eachTimes(visit, func(list []QueueTimes, all QueueTimes, kinds []*Times) []QueueTimes {
		rest := all
		for kind, t := range kinds {
			if t == nil {
				continue
			}
			all.Type, all.OtherTypes, all.Times = e.watch.kinds.names[kind], machine.Kind(kind) == kindOther, *t
			list = append(list, all)
			rest.Sub(t)
		}
		if rest.Wait.Count > 0 || rest.Run.Count > 0 {
			list = append(list, rest)
		}
		return list
	})
}

// eachTimes visits what add, with the lock held, makes of the times of each queue and door.
func (e *Engine) eachTimes(visit func(*QueueTimes), add func(list []QueueTimes, all QueueTimes, kinds []*Times) []QueueTimes) {
	e.mu.Lock()
	queues := e.watch.all()
	e.mu.Unlock()
	var list []QueueTimes
	for _, q := range queues {
		for door := range q.doors {
			e.mu.Lock() // for each anew, so that nobody waits for the copies of all
			list = list[:0]
			if d := q.doors[door]; d != nil && d.times != nil {
				list = add(list, QueueTimes{
					Namespace: q.key.namespace, Queue: q.key.name, Others: q == e.watch.other, Door: job.Door(door), Times: *d.times,
				}, d.kinds)
			}
			e.mu.Unlock()
			for i := range list {
				visit(&list[i])
			}
		}
	}
}

// DoorTimes returns the times of the jobs of all queues by the door through which they were fetched.
func (e *Engine) DoorTimes() []DoorTimes {
	e.mu.Lock()
	defer e.mu.Unlock()
	var sum doorTimes
	for door, t := range e.watch.gone {
		if t != nil {
			sum.at(job.Door(door)).Add(t)
		}
	}
	for _, q := range e.watch.all() {
		for door, d := range q.doors {
			if d != nil && d.times != nil {
				sum.at(job.Door(door)).Add(d.times)
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
