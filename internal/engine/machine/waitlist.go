package machine

import (
	"iter"
	"strings"
)

// waitNode is the place of a caller in one list. Nodes are part of the waiter, or of one slice for
// each step that had it join lists, so that joining a thousand lists is one allocation.
type waitNode struct {
	w          *waiter
	in         *waitList
	prev, next *waitNode // prev is the node itself once it is out of the list
	came       uint64    // in which order those of fetches came
}

// waitList is a list of callers in order of arrival. That of fetches belongs to a name: there need
// not be a queue. The lists are doubly linked, because a caller leaves all its lists when it is
// answered.
type waitList struct {
	head, tail      *waitNode
	q               *queue // nil if there is none
	namespace, name string // of fetches
	mark            uint64 // of the last fetch that came to it

	parked     *parkedWaits // callers of it who have been passed over; nil if there are none
	parkedFrom *waitList    // of such callers: the list that they were in
}

// empty reports whether nobody waits. A nil list is an empty one.
func (l *waitList) empty() bool { return l.first() == nil && (l == nil || l.parked.empty()) }

// hasNoNodes reports whether there is nobody in the list, not even callers that were answered and
// are still to leave it: only then may the list be forgotten.
func (l *waitList) hasNoNodes() bool {
	return l.head == nil && (l.parked == nil || len(l.parked.byWorker) == 0)
}

// first returns the caller that has waited longest, or nil. Those that were answered elsewhere are
// taken out on the way.
func (l *waitList) first() *waiter {
	if n := l.firstNode(); n != nil {
		return n.w
	}
	return nil
}

// firstNode drops callers that have been answered, so that each of them is passed over once.
func (l *waitList) firstNode() *waitNode {
	if l == nil {
		return nil
	}
	for l.head != nil {
		n := l.head
		if !n.w.isAnswered {
			return n
		}
		l.remove(n)
	}
	return nil
}

// push adds a node at the end.
func (l *waitList) push(n *waitNode) {
	n.in, n.prev, n.next = l, l.tail, nil
	if l.tail == nil {
		l.head = n
	} else {
		l.tail.next = n
	}
	l.tail = n
}

// remove takes a node out, unless it is out already: firstNode may have done it.
func (l *waitList) remove(n *waitNode) {
	if n.prev == n {
		return
	}
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
	n.prev, n.next = n, nil
}

// joinList gives a caller that waits in one list its place.
func (w *waiter) joinList(l *waitList) {
	w.one.w = w
	l.push(&w.one)
}

// fetchLists returns the lists that a fetch is in.
func (w *waiter) fetchLists() iter.Seq[*waitList] {
	return func(yield func(*waitList) bool) {
		if w.fetch == nil {
			return
		}
		if w.one.in != nil && !yield(w.one.in.queueList()) {
			return
		}
		for _, nodes := range w.more {
			for i := range nodes {
				if !yield(nodes[i].in.queueList()) {
					return
				}
			}
		}
	}
}

// queueList returns the list of those who wait for jobs of a queue. A parked caller is in a
// list of its worker, which belongs to that one.
func (l *waitList) queueList() *waitList {
	if l.parkedFrom != nil {
		return l.parkedFrom
	}
	return l
}

// freeNames is how many queues a fetch may name without being counted. Their memory is bounded by
// the number of callers; that of longer fetches is bounded by Options.WaitNames, over all of them.
const freeNames = 16

// joinFetchLists has a fetch wait for jobs of further queues. It reports false if too many names
// are waited on already. A name that comes twice counts once, unless others have come to its list
// in between: being in a list twice is harmless, and a map to prevent it would cost more.
func (m *Machine) joinFetchLists(w *waiter, names []string) bool {
	if len(w.fetch.Queues) > freeNames && m.waitNames+len(names) > m.opt.WaitNames {
		return false
	}
	// Every waiter has another one, so that a list that this fetch has joined is known without a
	// search.
	mark := w.arrival // nobody else has it
	m.arrivals++
	if len(w.fetch.Queues) == 1 {
		w.one.came = m.arrivals
		w.joinList(m.fetchers(w.fetch.Namespace, names[0]))
		return true
	}
	nodes := make([]waitNode, 0, len(names))
	for _, name := range names {
		l := m.fetchers(w.fetch.Namespace, name)
		if l.mark == mark {
			continue
		}
		l.mark = mark
		nodes = append(nodes, waitNode{w: w, came: m.arrivals})
		l.push(&nodes[len(nodes)-1])
	}
	if len(w.fetch.Queues) > freeNames {
		m.waitNames += len(nodes)
	}
	if len(nodes) > 0 {
		w.more = append(w.more, nodes)
	}
	return true
}

// fetchers returns the list of those who wait for jobs of a queue, which need not exist. Waiting
// for a queue must not make it, so that such lists are kept apart (Machine.stubs) until somebody
// pushes.
func (m *Machine) fetchers(namespace, name string) *waitList {
	if q := m.spaces[namespace][name]; q != nil {
		if q.waiters == nil {
			q.waiters = &waitList{q: q, namespace: q.namespace, name: q.name}
		}
		return q.waiters
	}
	space := m.stubs[namespace]
	if space == nil {
		space = map[string]*waitList{}
		m.stubs[namespace] = space
	}
	l := space[name]
	if l == nil {
		// The name may be a part of a long line that a client has sent, which would stay in memory
		// with it.
		l = &waitList{namespace: namespace, name: strings.Clone(name)} // not a part of a long line
		space[l.name] = l
	}
	return l
}

// adoptWaiters gives a new queue the list of those who wait for its jobs already. Nothing has to be
// woken, because a new queue has no jobs.
func (m *Machine) adoptWaiters(q *queue) {
	if l := m.stubs[q.namespace][q.name]; l != nil {
		l.q, q.waiters = q, l
		m.dropStub(l)
	}
}

// keepWaiters keeps the list of those who wait for jobs of a queue that is forgotten, until there
// is a queue of that name again. That one may have no limits, so that the parked callers are
// looked at again.
func (m *Machine) keepWaiters(q *queue) {
	l := q.waiters
	q.waiters = nil
	if l == nil {
		return
	}
	l.q = nil
	l.recheckParked()
	if l.hasNoNodes() {
		return
	}
	if m.stubs[l.namespace] == nil {
		m.stubs[l.namespace] = map[string]*waitList{}
	}
	m.stubs[l.namespace][l.name] = l
}

// dropStub forgets the list of a name that nobody waits on, or that a queue has taken over.
func (m *Machine) dropStub(l *waitList) {
	space := m.stubs[l.namespace]
	if space[l.name] == l {
		delete(space, l.name)
	}
	if len(space) == 0 {
		delete(m.stubs, l.namespace)
	}
}

// leaveLists takes a caller out of the lists that it is in. One that joined lists in several steps
// leaves them later, in as many pieces: until then they pass over it (waiter.isAnswered).
func (m *Machine) leaveLists(w *waiter) {
	switch {
	case w.isAnswered: // it is about to
	case w.jobWait != nil:
		m.leaveJobWait(w)
	case w.one.in != nil:
		if w.push != nil {
			// Room that was kept for the push is free for others.
			w.one.in.q.waitingPushes--
		}
		m.leaveNode(&w.one)
	case len(w.more) > 1:
		w.isAnswered = true
		m.leaving.add(w)
	case len(w.more) == 1:
		m.leavePart(w)
	}
}

// leaveNode takes one node out of its list, and forgets the list, the queue or the parked callers of
// a worker that only existed for those who wait.
func (m *Machine) leaveNode(n *waitNode) {
	l := n.in
	n.in = nil
	l.remove(n)
	if l.parkedFrom != nil {
		l = l.dropWorkerWaits(n.w.holder)
	}
	switch {
	case l.q != nil:
		m.forgetQueue(l.q)
	case l.hasNoNodes():
		m.dropStub(l)
	}
}

// leavePart takes a caller out of as many lists as one step had it join.
func (m *Machine) leavePart(w *waiter) {
	last := len(w.more) - 1
	nodes := w.more[last]
	w.more[last] = nil
	w.more = w.more[:last]
	if len(w.fetch.Queues) > freeNames {
		m.waitNames -= len(nodes)
	}
	for i := range nodes {
		m.leaveNode(&nodes[i])
	}
}

// placesPerUnit is how many places in lists a caller leaves for one unit of work.
const placesPerUnit = 16

// leaveSome goes on with callers that are still to leave their lists. A part is at most
// NamesPerStep places, so that a step goes over its bound by no more than that.
func (m *Machine) leaveSome() {
	for !m.leaving.empty() && m.spendWork() {
		w := m.leaving.first()
		m.workBudget -= len(w.more[len(w.more)-1]) / placesPerUnit
		if m.leavePart(w); len(w.more) == 0 {
			m.leaving.take()
		}
	}
}
