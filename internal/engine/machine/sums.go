package machine

import "millrace/internal/job"

// sums are the figures of the queues of a namespace together. They are kept with every change, so
// that nobody has to visit all queues to know them: with many queues that would be the slowest
// thing the server does. They are in memory only, and are added up at the start.
type sums struct {
	job.Sums
	all *job.Sums // those of all namespaces
}

// sumsOf returns the sums of a namespace, for a queue that comes into being.
func (m *Machine) sumsOf(namespace string) *sums {
	s := m.sums[namespace]
	if s == nil {
		s = &sums{all: &m.all}
		m.sums[namespace] = s
	}
	return s
}

// Sums returns the figures of the queues of a namespace together; with an empty name, of all.
func (m *Machine) Sums(namespace string) job.Sums {
	if namespace == "" {
		return m.all
	}
	if s := m.sums[namespace]; s != nil {
		return s.Sums
	}
	return job.Sums{}
}

// addCount counts a job that has come into a state. It, subtractCount and clearCount are the only ones that change
// Counts while a queue is stored (INV-3).
func (q *queue) addCount(s job.State) {
	q.Counts[s]++
	q.sums.Counts[s]++
	q.sums.all.Counts[s]++
}

// subtractCount counts a job that has left a state.
func (q *queue) subtractCount(s job.State) {
	q.Counts[s]--
	q.sums.Counts[s]--
	q.sums.all.Counts[s]--
}

// clearCount counts that all jobs have left a state.
// It is for a purge, which takes a whole list at once.
func (q *queue) clearCount(s job.State) {
	n := q.Counts[s]
	q.Counts[s] = 0
	q.sums.Counts[s] -= n
	q.sums.all.Counts[s] -= n
}

// setHidden hides the queue from lists, or shows it. The caller has the queue written.
func (q *queue) setHidden(hidden bool) {
	if q.Hidden == hidden {
		return
	}
	q.Hidden = hidden
	for _, s := range []*job.Sums{&q.sums.Sums, q.sums.all} {
		if hidden {
			s.Hidden++
		} else {
			s.Hidden--
		}
	}
}

// addToSums adds the figures of a queue that is stored from now on.
func (q *queue) addToSums() {
	info := job.QueueInfo{Counts: q.Counts, Totals: q.Totals, Hidden: q.Hidden}
	q.sums.Add(&info)
	q.sums.all.Add(&info)
}

// removeFromSums takes the figures of a queue away that is not stored any more.
func (q *queue) removeFromSums() {
	info := job.QueueInfo{Counts: q.Counts, Totals: q.Totals, Hidden: q.Hidden}
	q.sums.Sub(&info)
	q.sums.all.Sub(&info)
}

// addTotal adds to a lifetime counter of a queue.
func (m *Machine) addTotal(q *queue, c job.Counter, n uint64) {
	q.Totals[c] += n
	q.sums.Totals[c] += n
	q.sums.all.Totals[c] += n
	m.markDirty(q)
	m.noteActive(q, c, n)
}

// checkSums compares the sums with the queues (INV-3).
func (c *checker) checkSums() error {
	var all job.Sums
	spaces := map[string]*job.Sums{}
	for _, q := range c.byID {
		info := job.QueueInfo{Counts: q.Counts, Totals: q.Totals, Hidden: q.Hidden}
		if spaces[q.namespace] == nil {
			spaces[q.namespace] = new(job.Sums)
		}
		spaces[q.namespace].Add(&info)
		all.Add(&info)
	}
	if all != c.all {
		return broken(3, "the sums of all queues are %v, and the queues make %v", c.all, all)
	}
	for namespace, s := range c.sums {
		want := job.Sums{}
		if spaces[namespace] != nil {
			want = *spaces[namespace]
		}
		if s.Sums != want {
			return broken(3, "the sums of %q are %v, and its queues make %v", namespace, s.Sums, want)
		}
		delete(spaces, namespace)
	}
	if len(spaces) > 0 {
		return broken(3, "%d namespaces with queues have no sums", len(spaces))
	}
	return nil
}
