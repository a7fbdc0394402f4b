package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/internal/job"
)

// batch is a batch with all that ever joined it.
type batch struct {
	id      job.BatchID
	ns      string
	parent  job.BatchID
	text    string
	created job.Time
	members map[job.ID]member

	open      bool
	committed job.Time // the last time; zero: never
	complete  stage
	success   stage

	openFor, keepFor, keepDone time.Duration

	owed job.Flags // callbacks that were pushed before the batch was brought here
}

// member is how a job that joined a batch stands in it.
type member struct{ acked, failed bool }

// stage is one of the two stages of a batch.
type stage struct {
	callback *job.Spec // nil: none
	state    job.Callback
	at       job.Time // when it was reached
	pushes   int      // how often the callback was pushed
}

func (b *batch) total() uint64 { return uint64(len(b.members)) }

func (b *batch) count(counts func(member) bool) (n uint64) {
	for _, who := range b.members {
		if counts(who) {
			n++
		}
	}
	return n
}

func (b *batch) pending() uint64 { return b.count(func(w member) bool { return !w.acked }) }

func (b *batch) failed() uint64 { return b.count(func(w member) bool { return !w.acked && w.failed }) }

// forgetAt returns when a batch is forgotten.
func (b *batch) forgetAt() job.Time {
	if b.committed == 0 {
		return b.created.Add(b.openFor)
	}
	at := b.committed.Add(b.keepFor)
	if b.success.state != job.CallbackWaiting {
		at = min(at, b.success.at.Add(b.keepDone))
	}
	return at
}

// goOn gives a new batch its past.
func (b *batch) goOn(p *job.BatchPast, now job.Time) {
	if p.Created > 0 && p.Created < now {
		b.created = p.Created
	}
	b.committed, b.complete.state, b.success.state, b.success.at = p.Committed, p.Complete, p.Success, p.Succeeded
	for range p.Acked {
		b.stranger(member{acked: true})
	}
	for _, each := range []struct {
		flag job.Flags
		*stage
	}{{job.FlagOnComplete, &b.complete}, {job.FlagOnSuccess, &b.success}} {
		if each.callback != nil && each.state != job.CallbackWaiting {
			each.pushes = 1
		}
		if each.state == job.CallbackPushed {
			b.owed |= each.flag
		}
	}
}

// stranger adds a member of which nothing is known but how it stands.
func (b *batch) stranger(who member) { b.members[job.ID(1<<60+len(b.members))] = who }

// possiblePast reports whether a batch can have a past.
func possiblePast(c *job.NewBatch, now job.Time) bool {
	p := c.Past
	waits, succeeded := p.Complete == job.CallbackWaiting, p.Success != job.CallbackWaiting
	switch {
	case p.Committed > now || p.Succeeded > now || p.Complete > job.CallbackAcked || p.Success > job.CallbackAcked:
		return false
	case p.Complete == job.CallbackPushed && c.Complete == nil || p.Success == job.CallbackPushed && c.Success == nil:
		return false
	case !waits && p.Committed == 0 || succeeded && p.Complete != job.CallbackAcked:
		return false
	}
	return succeeded == (p.Succeeded != 0)
}

func (m *Model) applyNewBatch(c *job.NewBatch) {
	if c.Past != nil && !possiblePast(c, m.now) {
		m.refuse(&job.Error{Kind: job.Invalid})
		return
	}
	m.lastID++
	b := &batch{
		id: job.BatchID(m.lastID), ns: c.Namespace, text: c.Text, created: m.now, members: map[job.ID]member{},
		open:     true,
		complete: stage{callback: c.Complete}, success: stage{callback: c.Success},
		openFor: c.OpenFor, keepFor: c.KeepFor, keepDone: c.KeepDone,
	}
	if m.batch(c.Namespace, c.Parent) != nil {
		b.parent = c.Parent
	}
	if c.Past != nil {
		b.goOn(c.Past, m.now)
	}
	m.batches[b.id] = b
	m.answer(job.Result{Batch: b.id})
}

// batch returns a batch of a namespace, nil if there is none.
func (m *Model) batch(ns string, id job.BatchID) *batch {
	if b := m.batches[id]; b != nil && b.ns == ns {
		return b
	}
	return nil
}

func (m *Model) applyOpenBatch(c *job.OpenBatch) {
	b := m.batch(c.Namespace, c.Batch)
	if b == nil {
		m.refuse(job.ErrNoBatch)
		return
	}
	b.open = true
	m.answer(job.Result{})
}

func (m *Model) applyCommitBatch(c *job.CommitBatch) {
	b := m.batch(c.Namespace, c.Batch)
	if b == nil {
		m.refuse(job.ErrNoBatch)
		return
	}
	if r := c.Rest; r == nil {
		b.open, b.committed = false, m.now
	} else {
		for b.total() < r.Total {
			b.stranger(member{failed: true})
		}
		if b.open = r.Open; !r.Open && b.committed == 0 {
			b.committed = m.now
		}
	}
	m.answer(job.Result{})
}

// join makes a new job one of a batch.
func (m *Model) join(j *entry, id job.BatchID) {
	if b := m.batch(j.Namespace, id); b != nil {
		j.Batch = id
		b.members[j.ID] = member{}
	}
}

// tried counts a job as failed in its batch, if it is one of a batch.
func (m *Model) tried(id job.ID) {
	for _, b := range m.batches {
		if who, there := b.members[id]; there {
			who.failed = true
			b.members[id] = who
		}
	}
	if j := m.jobs[id]; j != nil && j.counts() {
		j.Flags |= job.FlagTried
	}
}

// counts reports whether a job counts in a batch.
func (j *entry) counts() bool {
	return j.Batch != 0 && j.Flags&(job.FlagOnComplete|job.FlagOnSuccess|job.FlagTick) == 0
}

// succeeded tells the batch of a job that the job was acked: one that counts leaves
// it, the ack of a callback is the end of a stage.
func (m *Model) succeeded(j *entry) {
	m.tickEnds(j.ID, job.Succeeded)
	b := m.batches[j.Batch]
	switch {
	case j.counts():
		j.Batch = 0
		j.Flags &^= job.FlagTried
		if b != nil {
			b.members[j.ID] = member{acked: true}
		}
	case b == nil:
	case j.Flags.Has(job.FlagOnComplete):
		b.complete.state = job.CallbackAcked
	case j.Flags.Has(job.FlagOnSuccess):
		b.success.state = job.CallbackAcked
	}
}

// children returns the children of a batch that are not forgotten.
func (m *Model) children(b *batch) []*batch {
	var out []*batch
	for _, c := range m.batches {
		if c.parent == b.id {
			out = append(out, c)
		}
	}
	return out
}

// step is a stage that a batch has not reached and could.
type step struct {
	of    *batch
	stage *stage
	flag  job.Flags // of its callback
}

// reachable returns the stage that a batch can reach, if there is one.
func (m *Model) reachable(b *batch) (step, bool) {
	held := func(by func(*batch) *stage) bool {
		return slices.ContainsFunc(m.children(b), func(c *batch) bool { return by(c).state != job.CallbackAcked })
	}
	switch {
	case b.open:
	case b.complete.state == job.CallbackWaiting:
		return step{b, &b.complete, job.FlagOnComplete},
			b.failed() == b.pending() && !held(func(c *batch) *stage { return &c.complete })
	case b.complete.state == job.CallbackAcked && b.success.state == job.CallbackWaiting:
		return step{b, &b.success, job.FlagOnSuccess},
			b.pending() == 0 && !held(func(c *batch) *stage { return &c.success })
	}
	return step{}, false
}

// advance pushes what hooks have to and lets batches reach what they can: that ends what a command or a timer does.
func (m *Model) advance() {
	m.pushNotices()
	for !m.trial {
		var steps []step
		for _, id := range slices.Sorted(maps.Keys(m.batches)) {
			if s, ok := m.reachable(m.batches[id]); ok {
				steps = append(steps, s)
			}
		}
		if len(steps) == 0 {
			return
		}
		m.reach(m.choose(steps))
	}
}

// choose returns the step to take first. Stages without a callback come first: that
// cannot be observed. In which order callbacks are pushed is left open.
func (m *Model) choose(steps []step) step {
	for _, s := range steps {
		if s.stage.callback == nil {
			return s
		}
	}
	for _, s := range steps {
		if m.oracle.Callback(m.peekID(s.stage.callback), s.of.id, s.flag) {
			return s
		}
	}
	for _, s := range steps { // the one that was pushed is gone, so it was one that expires at once
		if at := s.stage.callback.Policy.ExpireAt; at != 0 && at <= m.now {
			return s
		}
	}
	return steps[0]
}

// reach makes a batch reach a stage and pushes its callback.
func (m *Model) reach(s step) {
	s.stage.state, s.stage.at = job.CallbackAcked, m.now
	if s.stage.callback == nil {
		return
	}
	s.stage.state = job.CallbackPushed
	s.stage.pushes++
	spec := *s.stage.callback
	spec.Lock, spec.Batch, spec.Trace = "", 0, ""
	m.admit(&spec, nil, nil, func(j *entry) {
		j.Batch = s.of.id
		j.Flags |= s.flag
	})
}

// BatchInfos returns the batches, by id.
func (m *Model) BatchInfos() []job.BatchInfo {
	var out []job.BatchInfo
	for _, id := range slices.Sorted(maps.Keys(m.batches)) {
		b := m.batches[id]
		info := job.BatchInfo{
			ID: id, Namespace: b.ns, Parent: b.parent, Text: b.text, Created: b.created, Open: b.open,
			Total: b.total(), Pending: b.pending(), Failed: b.failed(),
			Complete: b.complete.state, Success: b.success.state, ForgetAt: b.forgetAt(),
		}
		for _, c := range m.children(b) {
			if c.success.state == job.CallbackWaiting {
				info.Children++
			}
		}
		out = append(out, info)
	}
	return out
}

// checkBatches asserts INV-14.
func (m *Model) checkBatches() error {
	callbacks := map[job.BatchID]job.Flags{}
	for id, j := range m.jobs {
		b := m.batches[j.Batch]
		if b == nil {
			continue
		}
		if flags := j.Flags & (job.FlagOnComplete | job.FlagOnSuccess); flags != 0 {
			if callbacks[b.id].Has(flags) {
				return fmt.Errorf("INV-14: job %d is the second callback of batch %d", id, b.id)
			}
			callbacks[b.id] |= flags
			continue
		}
		who, there := b.members[id]
		if !there || who.acked || who.failed != j.Flags.Has(job.FlagTried) || (j.Fails > 0 || j.State == job.Dead) &&
			!who.failed {
			return fmt.Errorf("INV-14: job %d of batch %d is %+v", id, b.id, who)
		}
	}
	for id, b := range m.batches {
		if _, ok := m.reachable(b); ok {
			return fmt.Errorf("INV-14: batch %d could go on", id)
		}
		for _, s := range []stage{b.complete, b.success} {
			due := 0
			if s.callback != nil && s.state != job.CallbackWaiting {
				due = 1
			}
			if s.pushes != due {
				return fmt.Errorf("INV-14: a callback of batch %d was pushed %d times", id, s.pushes)
			}
		}
	}
	return nil
}
