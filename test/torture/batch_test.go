package torture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"millrace/internal/wire"
	"millrace/test/suite"
)

// batch is a batch of Faktory on its way.
type batch struct {
	name    string
	bid     string
	parent  *batch
	members []string // that were tried to push
	want    int      // how many there shall be
	// complete and success are the tokens of the callbacks.
	complete, success string
	committed         bool // and that was answered
}

// batcher makes one batch after the other. A crash interrupts it at any step, and it
// goes on with the same batch where it was.
type batcher struct {
	*bonds
	number int
	rnd    *rand.Rand
	count  int
	now    *batch // in the making
	parent *batch // of the one in the making, not committed yet
}

const uncommitted = "its batch has not been committed"

func (m *batcher) run(l *suite.Life, conn *client) error {
	c := conn.Client.(*wire.Faktory)
	for {
		if m.now == nil {
			if l.Last && m.parent == nil {
				return suite.ErrNoMore
			}
			if err := m.next(l, c); err != nil {
				return err
			}
		}
		for len(m.now.members) < m.now.want {
			if err := m.member(l, c); err != nil {
				return err
			}
		}
		if err := m.commit(l, c); err != nil {
			return err
		}
	}
}

// next makes a batch; every fourth with a child, which is made, filled and committed
// before its parent is.
func (m *batcher) next(l *suite.Life, c *wire.Faktory) error {
	if m.parent != nil {
		m.now, m.parent = m.parent, nil // the child is committed
		return nil
	}
	b, err := m.begin(l, c, nil)
	if err != nil {
		return err
	}
	m.now = b
	if m.rnd.IntN(4) > 0 || l.Last {
		return nil
	}
	child, err := m.begin(l, c, b)
	if err != nil {
		// It may be there, and then its parent waits for it for ever: both are given up.
		m.orphan()
		m.now = nil
		return err
	}
	m.now, m.parent = child, b
	return nil
}

// begin makes a batch. If the answer is cut off nobody will ever commit it, and its
// callbacks may not come.
func (m *batcher) begin(l *suite.Life, c *wire.Faktory, parent *batch) (*batch, error) {
	m.count++
	b := &batch{name: fmt.Sprintf("b%d.%d.%d", m.number, l.Number, m.count), want: 1 + m.rnd.IntN(6), parent: parent}
	b.complete, b.success = tokenOf(faktory, b.name+".complete"), tokenOf(faktory, b.name+".success")
	m.tie(b.complete, &bond{barred: uncommitted})
	m.tie(b.success, &bond{barred: uncommitted, after: []string{b.complete}})
	m.book.pushing(b.complete, b.success)
	under := ""
	if parent != nil {
		under = fmt.Sprintf(`"parent_bid":%q,`, parent.bid)
	}
	var err error
	b.bid, err = c.Call(fmt.Sprintf(`BATCH NEW {%s"complete":%s,"success":%s}`, under,
		faktoryJob(callbackQueue, b.complete, ""), faktoryJob(callbackQueue, b.success, "")))
	if err != nil {
		m.orphan()
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, b)
	if parent != nil {
		m.children++
		m.jobs[parent.complete].after = append(m.jobs[parent.complete].after, b.complete)
		m.jobs[parent.success].after = append(m.jobs[parent.success].after, b.success)
	}
	return b, nil
}

func (m *batcher) orphan() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orphans++
}

// member pushes the next job of the batch. If the answer is cut off it may be in the
// batch or not, and counts as one of those that were wanted.
func (m *batcher) member(l *suite.Life, c *wire.Faktory) error {
	b := m.now
	select {
	case m.room <- struct{}{}:
	case <-l.Ending:
		return suite.ErrLifeOver
	}
	token := tokenOf(faktory, fmt.Sprintf("%s.m%d", b.name, len(b.members)))
	m.tie(token, &bond{})
	m.mu.Lock()
	m.jobs[b.complete].tried = append(m.jobs[b.complete].tried, token)
	m.mu.Unlock()
	b.members = append(b.members, token)
	m.book.pushing(token)
	began := time.Now()
	if err := c.OK("PUSH " + faktoryJob(memberQueue, token, fmt.Sprintf(`,"custom":{"bid":%q}`, b.bid))); err != nil {
		m.leave()
		return err
	}
	m.book.pushed(l.Number, began, token)
	return nil
}

// commit commits the batch, again if the answer was cut off.
func (m *batcher) commit(l *suite.Life, c *wire.Faktory) error {
	b := m.now
	m.mu.Lock()
	m.jobs[b.complete].barred, m.jobs[b.success].barred = "", ""
	m.mu.Unlock()
	began := time.Now()
	if err := c.OK("BATCH COMMIT " + b.bid); err != nil {
		return err
	}
	b.committed = true
	m.book.pushed(l.Number, began, b.complete, b.success) // they must come some time
	m.mu.Lock()
	m.committed++
	m.mu.Unlock()
	m.now = nil
	return nil
}

// judge asks for the state of every batch once everything has been acked.
func (b *bonds) judge(c *wire.Faktory) {
	for _, x := range b.batches {
		status, err := c.Call("BATCH STATUS " + x.bid)
		if err != nil {
			b.book.complain(fmt.Sprintf("batch %s: %v", x.name, err))
			continue
		}
		done := strings.Contains(status, `"pending":0,"failed":0,"complete_st":"2","success_st":"2"`)
		if done != x.committed {
			b.book.complain(fmt.Sprintf("batch %s, committed %v, ends as %s", x.name, x.committed, status))
		}
	}
}
