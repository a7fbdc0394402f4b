package sim

import (
	"cmp"
	"maps"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

func (m *Model) applyPromote(c *job.Promote) {
	promotable := func(j *entry) bool {
		switch j.State {
		case job.Scheduled, job.Retrying, job.Buried, job.Failed, job.Dead:
			return c.In.Allow(j.State)
		case job.Blocked, job.Ready, job.Leased, job.Done:
		}
		return false
	}
	j := m.find(c.Ref, false, promotable)
	var err *job.Error
	switch {
	case j == nil:
		err = job.ErrNotFound
	case !promotable(j):
		err = job.ErrBadState
	default:
		j.Result = nil
		m.toReady(j, c.Place)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyKill(c *job.Kill) {
	j := m.find(c.Ref, false, func(j *entry) bool {
		return c.In.Allow(j.State) && !j.State.Finished() && j.State != job.Dead
	})
	var err *job.Error
	switch {
	case j == nil:
		err = job.ErrNotFound
	case !c.In.Allow(j.State):
		err = job.ErrBadState
	case j.State.Finished():
		err = job.ErrFinished
	case j.State == job.Dead:
		err = job.ErrBadState
	case j.Flags.Has(job.FlagEphemeral):
		m.died(j, job.Killed)
		m.drop(j)
		m.fall(j.ID)
	default:
		m.died(j, job.Killed)
		if c.For > 0 {
			j.Policy.DeadFor = c.For
		}
		m.toDead(j)
		m.fall(j.ID)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyRespawn(c *job.Respawn) {
	if c.One {
		m.applyRespawnOne(c)
		return
	}
	dead := m.list(queueName{c.Namespace, c.Queue}, job.Dead)
	n := min(max(c.Limit, 0), len(dead), m.StepWork)
	for _, j := range dead[:n] {
		if j.Flags.Has(job.FlagTombstone) {
			m.drop(j)
			continue
		}
		m.renew(j, c)
	}
	m.answerCount(n)
}

func (m *Model) applyRespawnOne(c *job.Respawn) {
	fits := func(j *entry) bool { return c.In.Allow(j.State) && (j.State == job.Dead || j.State == job.Failed) }
	j := m.find(c.Ref, false, fits)
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case !fits(j):
		m.refuse(job.ErrBadState)
	default:
		m.renew(j, c)
		r := job.Result{Count: 1}
		if c.Want {
			r.Jobs = []job.Job{j.Job}
		}
		m.answer(r)
	}
}

// renew makes a job ready as if it were new.
func (m *Model) renew(j *entry, c *job.Respawn) {
	j.Attempts, j.Fails, j.Result = 0, 0, nil
	if !c.OwnAttempts {
		j.Policy.MaxAttempts = c.Attempts
	}
	switch {
	case c.OwnExpiry:
	case c.TTL > 0:
		j.Policy.ExpireAt = m.now.Add(c.TTL)
	default:
		j.Policy.ExpireAt = 0
	}
	m.toReady(j, job.PlaceTail)
}

func (m *Model) applyMove(c *job.Move) {
	movable := func(j *entry) bool { return c.In.Allow(j.State) && j.State != job.Leased }
	j := m.find(c.Ref, false, movable)
	if j != nil && movable(j) {
		m.settleBlockers(j)
		j = m.find(c.Ref, false, movable)
	}
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case j.State == job.Leased || !c.In.Allow(j.State):
		m.refuse(job.ErrBadState)
	default:
		if j.Queue != c.Queue {
			m.move(j, c.Queue)
		}
		m.answer(job.Result{})
	}
}

// move puts a job into another queue in the state it has. Where a list is in the
// order of entering it comes last.
func (m *Model) move(j *entry, to string) {
	m.changeQueue(j, to)
	if j.Flags.Has(job.FlagEphemeral) && m.runOf(j) == nil { // its caller was there before the restart
		m.withdraw(j)
		return
	}
	if j.State == job.Ready {
		m.toReady(j, job.PlaceOld)
		return
	}
	m.entered++
	j.Entered = m.entered
}

func (m *Model) applyReleaseAll(c *job.ReleaseAll) {
	leased := m.part(m.list(queueName{c.Namespace, c.Queue}, job.Leased), c.Limit)
	for _, j := range leased {
		m.count(j, job.CountReleased)
		j.Releases++
		j.Delay = 0
		m.toReady(j, job.PlaceOld)
	}
	m.answerCount(len(leased))
}

func (m *Model) applyConfigure(c *job.Configure) {
	name := queueName{c.Namespace, c.Queue}
	q := m.queue(name)
	if q.configured && !c.Replace {
		m.refuse(job.ErrExists)
		return
	}
	q.configured, q.hidden, q.settings = true, false, c.Settings
	if m.Gated && m.format < record.FormatOnePerGroup {
		q.settings.OnePerGroup = false
	}
	m.answer(job.Result{})
}

func (m *Model) applyPause(c *job.Pause) {
	name := queueName{c.Namespace, c.Queue}
	if q := m.queues[name]; c.Make && (q == nil || q.hidden) {
		m.queue(name).hidden = false
	}
	if q := m.queues[name]; q != nil && !q.hidden {
		q.totals[job.CountPaused]++
		q.paused, q.pausedAt, q.pausedUntil, q.pauseArmed = true, m.now, 0, m.arm()
		if c.For > 0 {
			q.pausedUntil = m.now.Add(c.For)
		}
	}
	m.answer(job.Result{})
}

func (q *queue) resume() { q.paused, q.pausedAt, q.pausedUntil = false, 0, 0 }

func (m *Model) applyResume(c *job.Resume) {
	if q := m.queues[queueName{c.Namespace, c.Queue}]; q != nil {
		q.resume()
	}
	m.answer(job.Result{})
}

func (m *Model) applyPurge(c *job.Purge) {
	jobs := m.list(queueName{c.Namespace, c.Queue}, c.State)
	if c.Limit > 0 || c.State == job.Leased {
		jobs = m.part(jobs, c.Limit)
	}
	m.deleteAll(jobs)
	m.answerCount(len(jobs))
}

// deleteAll removes jobs in one step: first all of them go, then those that
// waited for them are told, at once or in later steps.
func (m *Model) deleteAll(jobs []*entry) {
	var ids []job.ID
	for _, j := range jobs {
		m.countDeleted(j)
		delete(m.jobs, j.ID)
		m.retake(queueName{j.Namespace, j.Queue})
		m.gone++
		ids = append(ids, j.ID)
	}
	later := m.inPiece || m.oracle.Sweeping()
	if later {
		slices.Sort(ids) // the order in which a clean-up comes by
	}
	m.swept = append(m.swept, ids...)
	if !later {
		for len(m.swept) > 0 {
			m.sweepOne(func() {}) // batches go on when the command is over
		}
	}
}

// part returns the first jobs of a list that one step deals with; no limit is zero.
func (m *Model) part(jobs []*entry, limit int) []*entry {
	if limit > 0 && limit < len(jobs) {
		jobs = jobs[:limit]
	}
	return jobs[:min(m.StepWork, len(jobs))]
}

// sweepOne tells those who waited for the first of the purged jobs.
func (m *Model) sweepOne(then func()) {
	id := m.swept[0]
	m.swept = m.swept[1:]
	m.unwait(id)
	m.follow()
	m.tried(id)
	m.tickEnds(id, job.Removed)
	m.strike(id)
	then()
}

// dropQueue removes the jobs of a queue. Who waits for one of them knows at once.
func (m *Model) dropQueue(name queueName) {
	jobs := m.inQueue(name)
	m.deleteAll(jobs)
	for _, j := range jobs {
		m.unwait(j.ID)
	}
}

func (m *Model) applyRemove(c *job.Remove) {
	name := queueName{c.Namespace, c.Queue}
	q := m.queues[name]
	if q == nil {
		m.refuse(job.ErrNoQueue)
		return
	}
	if c.IfIdle {
		for _, w := range m.waits {
			if f, ok := w.cmd.(*job.Fetch); ok && f.Namespace == c.Namespace && w.stood[c.Queue] != 0 {
				m.refuse(job.ErrWaiting)
				return
			}
		}
		if len(m.list(name, job.Leased)) > 0 {
			m.refuse(job.ErrBusy)
			return
		}
	}
	switch {
	case c.ReadyOnly:
		q.resume()
		q.hidden = true
		m.deleteAll(m.list(name, job.Ready))
	case c.KeepQueue:
		m.dropQueue(name)
		m.lastQueue++
		q.num = m.lastQueue
	default:
		m.dropQueue(name)
		delete(m.queues, name)
	}
	m.answer(job.Result{})
}

// inQueue returns the jobs of a queue, by id.
func (m *Model) inQueue(name queueName) []*entry {
	return m.sorted(func(j *entry) bool { return j.Namespace == name.ns && j.Queue == name.name })
}

func (m *Model) applyFlush(c *job.Flush) {
	if m.flush == nil {
		m.beginFlush(m.token, c)
		if m.flushSome() {
			m.flush = nil
			m.answer(job.Result{})
			return
		}
	}
	m.wait(c, job.WaitForever, 0)
}

// inOrder returns the queues in the order of their creation.
func (m *Model) inOrder() []*queue {
	return slices.SortedFunc(maps.Values(m.queues), func(a, b *queue) int { return cmp.Compare(a.num, b.num) })
}

// applyEach does to every job with a key what a command does to one. The model knows no limit.
func (m *Model) applyEach(c *job.Each) {
	named := m.sorted(func(j *entry) bool { return j.ID > c.After && matches(j, job.ByKey(c.Namespace, c.Key)) })
	type place struct {
		queue string
		id    job.ID
	}
	var at []place // before anything is done: what is done to one may move the next
	for _, j := range named {
		at = append(at, place{j.Queue, j.ID})
	}
	done := 0
	for _, p := range at {
		before := len(m.out)
		switch do := c.Do.(type) {
		case *job.Delete:
			one := *do
			one.Ref = job.ByID(c.Namespace, p.queue, p.id)
			m.answerJob(m.delete(&one), false)
		case *job.Promote:
			one := *do
			one.Ref = job.ByID(c.Namespace, p.queue, p.id)
			one.Want = false
			m.applyPromote(&one)
		case *job.Kill:
			one := *do
			one.Ref = job.ByID(c.Namespace, p.queue, p.id)
			one.Want = false
			m.applyKill(&one)
		default: // nothing else is done to each
		}
		// The answers of others, who waited, stay; its own is counted.
		for i := before; i < len(m.out); i++ {
			if m.out[i].Token == m.token {
				if m.out[i].Result.Err == nil {
					done++
				}
				m.out = slices.Delete(m.out, i, i+1)
				break
			}
		}
	}
	m.answerCount(done)
}
