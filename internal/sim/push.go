package sim

import (
	"maps"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

func (m *Model) applyPush(c *job.Push) {
	m.flushBefore(queueName{c.Spec.Namespace, c.Spec.Queue})
	m.entrants = m.countEntrants() // there may be room now
	if j := m.alike(c); j != nil {
		m.answer(instead(j))
		return
	}
	r, full := job.Result{}, false
	if c.RoomWait > 0 && m.letsIn(&c.Spec) {
		// It does not overtake those that waited, if nothing else stands against it.
		full = m.refusal(c) == nil
	}
	if !full {
		r, full = m.push(c, nil, nil)
	}
	if full && c.RoomWait > 0 {
		m.wait(c, c.RoomWait, 0)
		return
	}
	m.answer(r)
}

// alike returns the oldest job that a push gives way to.
func (m *Model) alike(c *job.Push) *entry {
	if c.Unless == 0 || c.Spec.Fingerprint == (job.Digest{}) {
		return nil
	}
	for _, j := range m.inQueue(queueName{c.Spec.Namespace, c.Spec.Queue}) {
		if j.Fingerprint == c.Spec.Fingerprint && c.Unless.Allow(j.State) &&
			!j.Flags.Has(job.FlagTombstone) && !m.expired(j) {
			return j
		}
	}
	return nil
}

// instead answers a push with the job that it gave way to.
func instead(j *entry) job.Result {
	return job.Result{
		ID: j.ID, Serial: j.Serial, HasSerial: j.Flags.Has(job.FlagSerial), State: j.State, Jobs: []job.Job{j.Job},
	}
}

// push adds a job. Full says that it was refused for want of room. Earlier are the
// pushes of the same Atomic; admitted is called with the job before it is handed
// out or expires.
func (m *Model) push(c *job.Push, earlier []job.ID, admitted func(*entry)) (r job.Result, full bool) {
	s := &c.Spec
	if err := m.refusal(c); err != nil {
		return job.Result{Err: err}, false
	}
	if m.full(queueName{s.Namespace, s.Queue}) {
		return job.Result{Err: job.ErrFull}, true
	}
	return m.admit(s, c.Past, earlier, admitted), false
}

// refusal says why a push is refused whatever room there is.
func (m *Model) refusal(c *job.Push) *job.Error {
	s := &c.Spec
	if c.Past != nil && !possible(c) {
		return &job.Error{Kind: job.Invalid, Text: "no such past"}
	}
	if s.Unique && len(m.sorted(func(j *entry) bool {
		return matches(j, job.ByKey(s.Namespace, s.Key))
	})) > 0 {
		return job.ErrDuplicate
	}
	if m.locked(s) {
		return job.ErrLocked
	}
	return nil
}

// possible reports whether a job can begin as a push says.
func possible(c *job.Push) bool {
	switch c.Past.State {
	case job.Scheduled, job.Blocked, job.Ready, job.Retrying, job.Buried, job.Dead:
		if len(c.Past.Result) > 0 {
			return false
		}
	case job.Done, job.Failed:
	case job.Leased:
		return false
	default:
		return false
	}
	if c.Past.BuriedLast && c.Past.State != job.Buried {
		return false
	}
	if c.Past.OldPlace && c.Past.State != job.Scheduled || max(c.Past.Rank, -c.Past.Rank) > job.PastRankMax {
		return false
	}
	switch c.Past.Role { //nolint:exhaustive // no other flag is a role
	case 0:
		if c.Past.State == job.Done && c.Spec.Batch != 0 {
			return false
		}
	case job.FlagOnComplete, job.FlagOnSuccess, job.FlagTick:
		if c.Spec.Batch == 0 || c.Past.Tried {
			return false
		}
	default:
		return false
	}
	return (len(c.Spec.BlockedBy) > 0) == (c.Past.State == job.Blocked)
}

// admit adds a job that nothing stands against; past may be nil.
func (m *Model) admit(s *job.Spec, past *job.Past, earlier []job.ID, admitted func(*entry)) job.Result {
	q := m.queue(queueName{s.Namespace, s.Queue})
	q.hidden = false
	q.totals[job.CountPushed]++
	q.doors = q.doors.With(s.Origin)
	j := &entry{Job: job.Job{
		ID: m.nextID(s), Namespace: s.Namespace, Queue: s.Queue, QueueNum: q.num, Key: s.Key, Type: s.Type,
		Group: s.Group,
		Body:  s.Body, BodyKind: s.BodyKind, Extra: s.Extra, Trace: m.traceOf(s), Origin: s.Origin,
		Fingerprint: s.Fingerprint,
		Created:     m.now, Policy: s.Policy,
	}}
	seq := m.nextSequence()
	j.Order = job.Order{Priority: s.Policy.Priority, Seq: seq, First: seq}
	if s.Numbered {
		j.Flags |= job.FlagNumbered
	}
	if s.Tracked {
		j.Flags |= job.FlagTracked
	}
	m.keys[keyName{s.Namespace, s.Key}] = true
	m.number(j, q)
	j.RunAt = s.RunAt
	if s.Delay > 0 {
		j.RunAt, j.Delay = m.now.Add(s.Delay), s.Delay
	}
	if s.TTL > 0 {
		from := m.now
		if s.TTLFromRun {
			from = max(from, j.RunAt)
		}
		j.Policy.ExpireAt = from.Add(s.TTL)
	}
	blockers := m.blockers(s, earlier)
	m.born++
	m.jobs[j.ID] = j
	if past != nil {
		m.rejoin(j, s, past)
	} else {
		m.lock(j, s)
		m.join(j, s.Batch)
	}
	if admitted != nil {
		admitted(j)
	}
	switch {
	case past != nil:
		m.goOn(j, past, blockers)
	case len(blockers) > 0:
		m.enter(j, job.Blocked)
		j.Blockers = blockers
	case j.RunAt > m.now:
		m.toScheduled(j)
	case j.RunAt != 0:
		m.toReady(j, j.Policy.Due)
	case s.At == job.PlaceHead:
		m.toReady(j, job.PlaceHead)
	default:
		m.toReady(j, job.PlaceOld) // the sequence it has just been given
	}
	r := job.Result{ID: j.ID, Serial: j.Serial, HasSerial: j.Flags.Has(job.FlagSerial), State: j.State}
	if r.State == job.Leased {
		r.State = job.Ready // it was, before a waiting caller had it
	}
	if m.jobs[j.ID] == j && m.expired(j) && !m.trial {
		m.fireJob(j)
	}
	return r
}

// goOn lets a new job begin where its past has left it.
func (m *Model) goOn(j *entry, past *job.Past, blockers []job.ID) {
	ago := func(t job.Time) job.Time {
		if t > 0 && t < m.now {
			return t
		}
		return m.now
	}
	j.Order.Rank, j.Order.At = past.Rank, past.At
	j.Created, j.Attempts, j.Fails, j.Buries, j.Result = ago(past.Created), past.Attempts, past.Fails,
		past.Buries, past.Result
	j.Lapses, j.Releases, j.Kicks, j.Delay = past.Lapses, past.Releases, past.Kicks, past.Delay
	for _, f := range past.Failures {
		j.remember(f)
	}
	since := ago(past.Since)
	switch past.State {
	case job.Scheduled, job.Retrying:
		switch {
		case j.RunAt > m.now:
			m.enter(j, past.State)
			j.toOld = past.OldPlace
		case past.OldPlace:
			m.toReady(j, job.PlaceOld)
		default:
			m.toReady(j, j.Policy.Due)
		}
	case job.Ready:
		m.toReadySince(j, job.PlaceOld, since)
	case job.Dead:
		m.enter(j, job.Dead)
		j.Policy.ExpireAt = 0
		if j.Policy.DeadFor > 0 {
			j.Timer = since.Add(j.Policy.DeadFor)
		}
	case job.Buried, job.Done, job.Failed:
		m.enter(j, past.State)
		j.last = past.BuriedLast
	case job.Blocked:
		switch {
		case len(blockers) > 0:
			m.enter(j, job.Blocked)
			j.Blockers = blockers
		case j.RunAt > m.now:
			m.toScheduled(j)
		default:
			m.toReady(j, job.PlaceTail)
		}
	case job.Leased: // which is not possible
	}
	if j.State == past.State {
		j.Since = since
	}
}

// rejoin gives a job with a past its lock, and its place in a batch or a schedule.
func (m *Model) rejoin(j *entry, s *job.Spec, past *job.Past) {
	if s.Lock != "" && past.LockedUntil > m.now {
		j.Lock, j.LockUntil = s.Lock, s.LockUntil
		m.locks[lockName{s.Namespace, s.Lock}] = lock{taker: j.ID, until: past.LockedUntil}
	}
	switch past.Role { //nolint:exhaustive // no other flag is a role
	case job.FlagTick:
		m.rejoinSchedule(j, s.Batch, past)
	case 0:
		m.join(j, s.Batch)
		if past.Tried || past.Fails > 0 || past.State == job.Dead || past.State == job.Failed {
			m.tried(j.ID)
		}
	default:
		if b := m.batch(j.Namespace, s.Batch); b != nil {
			j.Batch = s.Batch
			j.Flags |= past.Role
			b.owed &^= past.Role
		}
	}
}

// rejoinSchedule makes a job that of the run of a schedule that began when the job was made.
func (m *Model) rejoinSchedule(j *entry, id job.BatchID, past *job.Past) {
	i := slices.IndexFunc(m.schedules, func(s *ticking) bool { return s.id == id && s.def.Namespace == j.Namespace })
	if i < 0 {
		return
	}
	s := m.schedules[i]
	j.Batch = id
	j.Flags |= job.FlagTick
	for k := range s.runs {
		r := &s.runs[k]
		if r.Kind <= job.RunByHand && r.Job == 0 && r.At == past.Created {
			ended := past.State.Finished() || past.State == job.Dead
			if r.Job = j.ID; r.Outcome == job.Alive && r.At == s.lastAt && !ended {
				s.running = j.ID
			}
			return
		}
	}
}

// full reports whether a queue is at its capacity.
func (m *Model) full(name queueName) bool {
	q := m.queues[name]
	return q != nil && q.settings.Capacity > 0 && uint64(len(m.inQueue(name)))+m.entrants[name] >= q.settings.Capacity
}

func (m *Model) nextID(s *job.Spec) job.ID {
	for {
		m.lastID++
		if !s.Numbered {
			return m.lastID
		}
		taken := m.sorted(func(j *entry) bool { return matches(j, job.ByNumber(j.Namespace, m.lastID.Number())) })
		if m.lastID.Number() != 0 && len(taken) == 0 {
			return m.lastID
		}
	}
}

// peekID returns the id that a push would be given.
func (m *Model) peekID(s *job.Spec) job.ID {
	peek := *m // of which only the last id changes
	return peek.nextID(s)
}

// blockers returns the ids of the jobs that a new one must wait for. Earlier are
// the pushes of the same Atomic.
func (m *Model) blockers(s *job.Spec, earlier []job.ID) []job.ID {
	set := map[job.ID]bool{}
	for _, b := range s.BlockedBy {
		ref := job.ByPlace(s.Namespace, b.QueueNum, b.ID)
		switch {
		case b.Number != 0:
			ref = job.ByNumber(s.Namespace, b.Number)
		case b.Back > 0 && b.Back <= len(earlier):
			ref = job.ByID(s.Namespace, "", earlier[len(earlier)-b.Back])
		}
		for _, j := range m.jobs {
			if matches(j, ref) && !j.State.Finished() {
				set[j.ID] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (m *Model) applyRun(c *job.Run) {
	m.flushBefore(queueName{c.Spec.Namespace, c.Spec.Queue})
	m.entrants = m.countEntrants()
	r, _ := m.push(&job.Push{Spec: c.Spec}, nil, func(j *entry) {
		j.Flags |= job.FlagEphemeral
		m.wait(c, c.Wait, j.ID)
	})
	if r.Err != nil {
		m.answer(r)
	}
}

// applyAtomic applies the parts in order, once all of them have been tried.
func (m *Model) applyAtomic(c *job.Atomic) {
	for _, op := range c.Ops {
		if p, ok := op.(*job.Push); ok {
			m.flushBefore(queueName{p.Spec.Namespace, p.Spec.Queue})
		}
	}
	m.entrants = m.countEntrants()
	if err := m.tryAtomic(c); err != nil {
		m.refuse(err)
		return
	}
	var ids []job.ID
	for _, op := range c.Ops {
		switch op := op.(type) {
		case *job.Ack:
			m.ack(op)
		case *job.Delete:
			m.delete(op)
		case *job.Push:
			r, _ := m.push(op, ids, nil)
			ids = append(ids, r.ID)
		default: // refused above
		}
		m.follow()
	}
	m.answer(job.Result{IDs: ids})
}

// tryAtomic returns why an Atomic is refused: its parts are done one after the
// other on a copy. Its acks and deletes do not see what it pushes.
func (m *Model) tryAtomic(c *job.Atomic) *job.Error {
	trial := m.Clone()
	trial.waits, trial.trial = nil, true
	var pushed []job.ID
	var acked []*entry
	for i, op := range c.Ops {
		var err *job.Error
		switch op := op.(type) {
		case *job.Push:
			err = trial.tryPush(op, &pushed)
		case *job.Ack:
			s := trial.without(pushed, func() settled { return trial.ack(op) })
			again := slices.ContainsFunc(acked, func(j *entry) bool {
				return j == s.job || s.err == job.ErrNotFound && matches(j, op.Ref)
			})
			if err = s.err; again {
				err = job.ErrNotLeased
			}
			acked = append(acked, s.job)
		case *job.Delete:
			err = trial.without(pushed, func() settled { return trial.delete(op) }).err
			if op.AckHeld {
				err = &job.Error{Kind: job.Invalid}
			}
		default:
			err = &job.Error{Kind: job.Invalid}
		}
		if err != nil {
			return &job.Error{Kind: err.Kind, Text: err.Text, Index: i}
		}
	}
	return nil
}

// without does something while some jobs are out of sight.
func (m *Model) without(ids []job.ID, do func() settled) settled {
	hidden := map[job.ID]*entry{}
	for _, id := range ids {
		if m.jobs[id] != nil {
			hidden[id] = m.jobs[id]
			delete(m.jobs, id)
		}
	}
	s := do()
	maps.Copy(m.jobs, hidden)
	for _, id := range ids { // what they waited for may have gone
		for _, b := range slices.Clone(hidden[id].blockersLeft()) {
			if m.jobs[b] == nil || m.jobs[b].State.Finished() {
				m.strike(b)
			}
		}
	}
	return s
}

// blockersLeft returns what a job waits for; a nil job waits for nothing.
func (j *entry) blockersLeft() []job.ID {
	if j == nil {
		return nil
	}
	return j.Blockers
}

func (m *Model) tryPush(c *job.Push, pushed *[]job.ID) *job.Error {
	if c.Unless != 0 {
		return &job.Error{Kind: job.Invalid, Text: "not in an atomic"}
	}
	for _, b := range c.Spec.BlockedBy {
		if b.Back < 0 || b.Back > len(*pushed) {
			return &job.Error{Kind: job.Invalid, Text: "no such push"}
		}
	}
	r, _ := m.push(c, *pushed, nil)
	*pushed = append(*pushed, r.ID)
	return r.Err
}

// traceOf returns the trace that a new job has: none as long as the format does not allow it.
func (m *Model) traceOf(s *job.Spec) string {
	if m.Gated && m.format < record.FormatTraces {
		return ""
	}
	return s.Trace
}
