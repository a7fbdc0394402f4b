package machine

import (
	"cmp"
	"slices"
	"time"

	"millrace/internal/job"
)

// waiter is a caller whose command has not been answered yet.
type waiter struct {
	token   uint64
	arrival uint64
	holder  job.Holder
	alarm   alarm

	fetch *job.Fetch // waits for a job
	nodes []waitNode // its places in the lists of its queues

	push *job.Push // waits for room

	flush *job.Flush // waits for a flush to end

	awaits job.ID // waits for the result of this job, in the list of the queue that it is in
	run    bool   // and that job is its own
	late   bool   // its time is up, but a worker has the job
}

// waitNode is a place in a list of a queue.
type waitNode struct {
	w          *waiter
	q          *queue
	in         *waitList
	prev, next *waitNode
}

// standIn gives a caller that waits for one queue its place in a list of it.
func (w *waiter) standIn(q *queue, in *waitList) {
	w.nodes = []waitNode{{w: w, q: q, in: in}}
	in.push(&w.nodes[0])
}

// waitList is a queue of callers in order of arrival. The zero value is empty.
type waitList struct{ head, tail *waitNode }

func (l *waitList) empty() bool { return l.head == nil }

func (l *waitList) first() *waiter {
	if l.head == nil {
		return nil
	}
	return l.head.w
}

func (l *waitList) push(n *waitNode) {
	n.prev, n.next = l.tail, nil
	if l.tail == nil {
		l.head = n
	} else {
		l.tail.next = n
	}
	l.tail = n
}

func (l *waitList) remove(n *waitNode) {
	if n.prev == nil {
		l.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}

// alarm is a moment that concerns no stored job: the end of a wait, of a grace or
// of a pause.
type alarm struct {
	at     job.Time
	seq    uint64
	index  int // in the heap; -1 if not set
	waiter *waiter
	holder *holder
	queue  *queue
}

// alarmHeap is a heap of alarms, from which any can be taken out.
type alarmHeap []*alarm

func (h alarmHeap) less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h alarmHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h alarmHeap) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(i, p) {
			return
		}
		h.swap(i, p)
		i = p
	}
}

func (h alarmHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *alarmHeap) push(a *alarm) {
	a.index = len(*h)
	*h = append(*h, a)
	h.up(a.index)
}

func (h *alarmHeap) remove(a *alarm) {
	i, last := a.index, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	a.index = -1
}

func (h *alarmHeap) pop() *alarm {
	a := (*h)[0]
	h.remove(a)
	return a
}

// set arms an alarm; Never does not.
func (m *Machine) setAlarm(a *alarm, at job.Time) {
	a.index = -1
	if at == job.Never {
		return
	}
	m.arrivals++
	a.at, a.seq = at, m.arrivals
	m.alarms.push(a)
}

func (m *Machine) clearAlarm(a *alarm) {
	if a != nil && a.index >= 0 {
		m.alarms.remove(a)
	}
}

func (m *Machine) ring(a *alarm) {
	switch {
	case a.waiter != nil:
		m.timeUp(a.waiter)
	case a.holder != nil:
		m.holderGone(a.holder)
	case a.queue != nil:
		m.unpause(a.queue)
	}
}

// deadline of a wait that begins now.
func (m *Machine) deadline(wait time.Duration) job.Time {
	if wait == job.WaitForever {
		return job.Never
	}
	return m.now.Add(wait)
}

// enqueue registers a caller that waits until its deadline at the latest.
func (m *Machine) enqueue(w *waiter, until job.Time) {
	m.arrivals++
	w.arrival = m.arrivals
	w.alarm.waiter = w
	m.waiting[w.token] = w
	m.setAlarm(&w.alarm, until)
	if w.holder != (job.Holder{}) {
		m.holder(w.holder).waits[w.token] = struct{}{}
	}
}

// dequeue forgets a caller: whatever happens now is not given to it (INV-10).
func (m *Machine) dequeue(w *waiter) {
	delete(m.waiting, w.token)
	m.clearAlarm(&w.alarm)
	m.leaveLists(w)
	if w.holder != (job.Holder{}) {
		if h := m.holders[w.holder]; h != nil {
			delete(h.waits, w.token)
			m.forgetHolder(h)
		}
	}
	if w.awaits != 0 {
		m.awaiting[w.awaits] = slices.DeleteFunc(m.awaiting[w.awaits], func(o *waiter) bool { return o == w })
		if len(m.awaiting[w.awaits]) == 0 {
			delete(m.awaiting, w.awaits)
		}
		if w.run {
			delete(m.runs, w.awaits)
		}
	}
}

// leaveLists takes a caller off the lists of its queues.
func (m *Machine) leaveLists(w *waiter) {
	for i := range w.nodes {
		n := &w.nodes[i]
		n.in.remove(n)
		m.forget(n.q)
	}
	w.nodes = nil
}

// complete answers a waiting caller.
func (m *Machine) complete(w *waiter, res job.Result, needs uint64) {
	m.dequeue(w)
	m.out = append(m.out, Completion{Token: w.token, Result: res, Needs: needs})
}

func (m *Machine) refuse(w *waiter, err *job.Error) {
	m.complete(w, job.Result{Err: err}, m.step)
}

// timeUp ends a wait whose time has come. A run that is leased waits on: the end of
// the lease ends it.
func (m *Machine) timeUp(w *waiter) {
	if w.run {
		if e := m.runJob(w); e != nil && e.State == job.Leased {
			w.late = true
			return
		}
	}
	m.endWait(w, job.ErrTimeout)
}

// endWait answers a caller with an error. A job that was pushed for it alone is
// withdrawn unless a worker has it.
func (m *Machine) endWait(w *waiter, err *job.Error) {
	if w.run {
		e := m.runJob(w)
		m.refuse(w, err)
		if e != nil && e.State != job.Leased {
			m.count(e.q, job.CountCancelled)
			m.remove(e)
			m.succeeded(e)
		}
		return
	}
	m.refuse(w, err)
}

func (m *Machine) cancel(c *job.Cancel, res *job.Result) {
	if w := m.waiting[c.Token]; w != nil {
		m.endWait(w, job.ErrCanceled)
		res.Count = 1
	}
}

// wake has the queue served at the end of this transition.
func (m *Machine) wake(q *queue) {
	if !q.waking && !q.waiters.empty() {
		q.waking = true
		m.wakes.add(q)
	}
}

// outside ends a command or a timer, once it has done everything else: batches reach
// what they can, and pushes that waited for room come in.
func (m *Machine) outside() {
	m.inside = false
	m.serveWakes()
}

// serveWakes ends a transition: groups that became free show their first job, and what
// has become fetchable goes to those who wait, first come first served (INV-5). New jobs
// come only from outside: what is being done may have been checked against those there are.
func (m *Machine) serveWakes() {
	for {
		m.showFreed()
		switch {
		case len(m.ripe) > 0 && !m.inside:
			m.advance()
		case !m.rooms.empty() && !m.inside:
			if q := m.rooms.first(); !m.letIn(q) {
				m.rooms.take()
				q.rooming = false
			}
		case !m.wakes.empty():
			q := m.wakes.take()
			q.waking = false
			m.serve(q)
		default:
			return
		}
	}
}

// serve gives jobs of one queue to those who wait.
func (m *Machine) serve(q *queue) {
	for !q.waiters.empty() {
		e := m.head(q)
		if e == nil {
			return
		}
		w := q.waiters.first()
		if w == nil {
			return // ending an expired job on the way may have ended its wait
		}
		m.leave(e)
		m.deliver(w, e)
		m.showFreed()
	}
}

// deliver leases a job that is in no list to a waiting caller and answers it.
func (m *Machine) deliver(w *waiter, e *entry) {
	var res job.Result
	needs := m.lease(e, w.fetch, &res)
	m.complete(w, res, needs)
}

func (m *Machine) waitersInOrder() []*waiter {
	ws := make([]*waiter, 0, len(m.waiting))
	for _, w := range m.waiting {
		ws = append(ws, w)
	}
	sortWaiters(ws)
	return ws
}

// sortWaiters sorts callers in the order in which they came.
func sortWaiters(ws []*waiter) {
	slices.SortFunc(ws, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
}
