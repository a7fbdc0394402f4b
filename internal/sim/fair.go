package sim

import (
	"maps"
	"math/big"

	"millrace/internal/job"
	"millrace/internal/record"
)

// turn is the place of a group that has ready jobs. Zero: the queue was not fair when it came to its jobs, or when it
// last was given one.
type turn struct {
	number uint64
	credit uint32
}

// used is what a group had left of its rate at a time.
type used struct {
	tokens *big.Rat
	at     job.Time
}

func (m *Model) applySetFair(c *job.SetFair) {
	fair, err := c.Fairness.Tidy()
	name := queueName{c.Namespace, c.Queue}
	switch q := m.queues[name]; {
	case err != nil:
		m.refuse(err)
		return
	case fair.On && m.Gated && m.format < record.FormatFair:
		m.refuse(job.ErrFormat)
		return
	case fair.On || q != nil && q.fair.On:
		q = m.queue(name)
		q.hidden = false
		q.fair = fair
	}
	m.answer(job.Result{})
}

// retake gives a turn to the groups of a queue that have come to ready jobs, and takes it from those that have none.
func (m *Model) retake(name queueName) {
	q := m.queues[name]
	if q == nil {
		return
	}
	ready := map[string]bool{}
	for _, j := range m.list(name, job.Ready) {
		if m.oracle == nil || !m.expired(j) || !m.oracle.Ended(&j.Job) {
			ready[j.Group] = true
		}
	}
	q.turns = maps.Clone(q.turns)
	maps.DeleteFunc(q.turns, func(group string, _ turn) bool { return !ready[group] })
	for group := range ready {
		if _, ok := q.turns[group]; !ok {
			m.setTurn(q, group)
		}
	}
}

func (m *Model) setTurn(q *queue, group string) {
	var t turn
	if q.fair.On {
		m.turns++
		t = turn{number: m.turns, credit: q.fair.Weight(group)}
	}
	q.turns = maps.Clone(q.turns)
	if q.turns == nil {
		q.turns = map[string]turn{}
	}
	q.turns[group] = t
}

// tookTurn is told that a job of a group is given out.
func (m *Model) tookTurn(q *queue, group string) {
	t, ok := q.turns[group]
	switch {
	case !ok: // it has no other ready job
	case q.fair.On && t.credit > 1:
		q.turns = maps.Clone(q.turns)
		q.turns[group] = turn{t.number, t.credit - 1}
	default:
		m.setTurn(q, group)
	}
}

// foremost returns the job of a queue whose turn it is, apart from some.
func (m *Model) foremost(q *queue, skip map[job.ID]bool) *entry {
	var plain, next *entry // of those without a turn, and of those with one
	seen := map[string]bool{}
	for _, j := range m.list(q.queueName, job.Ready) {
		if skip[j.ID] || seen[j.Group] || m.holds(q, j.Group) {
			continue
		}
		seen[j.Group] = true
		t := q.turns[j.Group].number
		switch {
		case t == 0 && plain == nil:
			plain = j
		case t != 0 && (next == nil || j.Policy.Priority > next.Policy.Priority ||
			j.Policy.Priority == next.Policy.Priority && t < q.turns[next.Group].number):
			next = j
		}
	}
	switch {
	case plain == nil:
		return next
	case next == nil:
		return plain
	case q.fair.On && plain.Policy.Priority >= next.Policy.Priority,
		!q.fair.On && plain.Policy.Priority > next.Policy.Priority:
		return plain
	default:
		return next
	}
}

// holds reports whether the limits of groups keep one from being given a job.
func (m *Model) holds(q *queue, group string) bool {
	return group != "" && (m.groupFull(q, group) || m.groupToken(q, group) > m.now)
}

// groupFull reports whether as many jobs of a group are leased as may be.
func (m *Model) groupFull(q *queue, group string) bool {
	n := 0
	for _, j := range m.list(q.queueName, job.Leased) {
		if j.Group == group {
			n++
		}
	}
	atOnce := 1
	switch {
	case q.limits.GroupConcurrency > 0:
		atOnce = int(q.limits.GroupConcurrency)
	case q.fair.On && !q.settings.OnePerGroup:
		return false
	}
	return n >= atOnce
}

// groupToken returns when the rate of a group lets a job out; zero if it does already.
func (m *Model) groupToken(q *queue, group string) job.Time {
	l := q.limits.OfGroup()
	u, ok := q.used[group]
	if !ok || l.Rate == 0 {
		return 0
	}
	return m.nextToken(&queue{limits: l, tokens: u.tokens, tokensAt: u.at})
}

// spendGroupToken is told that a job of a group is given out.
func (m *Model) spendGroupToken(q *queue, group string) {
	l := q.limits.OfGroup()
	if l.Rate == 0 || group == "" {
		return
	}
	have := big.NewRat(int64(l.Burst), 1)
	if u, ok := q.used[group]; ok {
		have = m.tokens(&queue{limits: l, tokens: u.tokens, tokensAt: u.at})
	}
	q.used = maps.Clone(q.used)
	if q.used == nil {
		q.used = map[string]used{}
	}
	q.used[group] = used{new(big.Rat).Sub(have, big.NewRat(1, 1)), m.now}
}

// groupRouse returns when time alone lets a job of some group out; zero if it does not.
func (m *Model) groupRouse(q *queue) (at job.Time) {
	for group := range q.turns {
		if group != "" && !m.groupFull(q, group) {
			at = job.Earlier(at, m.groupToken(q, group))
		}
	}
	return at
}
