package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millrace/internal/job"
	"millrace/internal/record"
)

// wait makes the caller of the command being applied wait.
func (m *Model) wait(cmd job.Command, limit time.Duration, id job.ID) {
	w := &wait{token: m.token, cmd: cmd, id: id, armed: m.arm()}
	if limit != job.WaitForever {
		w.deadline = m.now.Add(max(limit, 0))
	}
	if f, ok := cmd.(*job.Fetch); ok {
		w.wake = m.wakeAt(f)
		w = m.stand(w, f.Queues)
	}
	m.waits = append(m.waits, w)
}

func (m *Model) applyAwait(c *job.Await) {
	j := m.find(c.Ref, false, func(*entry) bool { return true })
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case j.State.Finished():
		m.answer(job.Result{Jobs: []job.Job{j.Job}})
	case c.Wait <= 0:
		m.refuse(job.ErrTimeout)
	default:
		m.wait(c, c.Wait, j.ID)
	}
}

func (m *Model) applyCancel(c *job.Cancel) {
	for _, w := range m.waits {
		if w.token == c.Token {
			m.giveUp(w, job.ErrCanceled)
			m.answerCount(1)
			return
		}
	}
	m.answerCount(0)
}

// giveUp ends a wait. A job that nobody else wants and nobody works on goes with it.
func (m *Model) giveUp(w *wait, err *job.Error) {
	if w.told != nil {
		m.complete(w, *w.told)
		return
	}
	m.complete(w, job.Result{Err: err})
	if _, ok := w.cmd.(*job.Run); ok && m.jobs[w.id] != nil && !m.isLeased(w.id) {
		m.withdraw(m.jobs[w.id])
	}
}

// isLeased reports whether a job is there and in somebody's hands.
func (m *Model) isLeased(id job.ID) bool { return m.jobs[id] != nil && m.jobs[id].State == job.Leased }

func (m *Model) applyEndHolder(c *job.EndHolder) {
	for _, w := range slices.Clone(m.waits) {
		switch f, ok := w.cmd.(*job.Fetch); {
		case !ok || f.Holder != c.Holder || slices.Contains(m.canceled, w.token):
		case w.walk != nil:
			m.giveUp(w, job.ErrCanceled)
		default:
			m.change(w, func(w *wait) { w.stood = nil }) // it is given nothing any more
			m.canceled = append(m.canceled, w.token)
		}
	}
	m.endCanceled()
	holds := len(m.boundTo(c.Holder)) > 0 || m.keeps(c.Holder)
	inGrace := m.resume(c.Holder)
	switch {
	case c.Grace <= 0:
		m.endHolder(c.Holder)
	case holds || inGrace: // who holds nothing has nothing to end
		m.endings = append(m.endings, ending{holder: c.Holder, at: m.now.Add(c.Grace), armed: m.arm()})
	}
	m.answer(job.Result{})
}

// boundTo returns the jobs whose leases end with a holder, by id.
func (m *Model) boundTo(h job.Holder) []*entry {
	return m.sorted(func(j *entry) bool {
		return j.State == job.Leased && j.Lease.Holder == h && j.Lease.OnEnd != job.EndKeep && !m.orphaned(j)
	})
}

// endHolder ends the leases of a holder.
func (m *Model) endHolder(h job.Holder) {
	m.resume(h)
	maps.DeleteFunc(m.kept, func(_ string, k job.KeptHolder) bool { return k.Holder == h })
	bound := m.boundTo(h)
	slices.SortFunc(bound, func(a, b *entry) int { return cmp.Compare(a.got, b.got) })
	for _, j := range bound {
		m.orphans = append(m.orphans, orphan{j.ID, j.Entered})
	}
	m.endOrphans()
}

// resume calls off the end of a holder and reports whether it was in its grace.
func (m *Model) resume(h job.Holder) bool {
	n := len(m.endings)
	m.endings = slices.DeleteFunc(slices.Clone(m.endings), func(e ending) bool { return e.holder == h })
	return len(m.endings) < n
}

func (m *Model) applyResumeHolder(c *job.ResumeHolder) {
	if m.resume(c.Holder) {
		m.answerCount(1)
	} else {
		m.answerCount(0)
	}
}

// keeps reports whether a holder outlives restarts.
func (m *Model) keeps(h job.Holder) bool {
	for _, k := range m.kept {
		if k.Holder == h {
			return true
		}
	}
	return false
}

func (m *Model) applyKeepHolder(c *job.KeepHolder) {
	old, there := m.kept[c.Name]
	switch {
	case c.Holder == (job.Holder{}) || c.Name == "" || len(c.Name) > 64:
		m.refuse(job.ErrHolderName)
	case there && old.Holder != c.Holder || !there && m.keeps(c.Holder):
		m.refuse(job.ErrKept)
	case c.Grace <= 0:
		delete(m.kept, c.Name)
		m.answer(job.Result{})
	case !there && len(m.kept) >= m.KeptHolders:
		m.refuse(job.ErrManyKept)
	case m.Gated && m.format < record.FormatKept && old != c.KeptHolder:
		m.refuse(job.ErrFormat)
	default:
		m.kept[c.Name] = c.KeptHolder
		m.answer(job.Result{})
	}
}
