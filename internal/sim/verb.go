package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millrace/internal/job"
)

// find returns the job that a reference names, nil if there is none. Of several
// with one key it is the oldest that fits, else the oldest; among those that fit a
// verb about leases the one leased longest counts as the oldest.
func (m *Model) find(ref job.Ref, leases bool, fits func(*entry) bool) *entry {
	named := m.sorted(func(j *entry) bool { return matches(j, ref) })
	if leases { // only leased ones fit
		slices.SortStableFunc(named, func(a, b *entry) int { return cmp.Compare(a.Entered, b.Entered) })
	}
	for _, j := range named {
		if fits(j) {
			return j
		}
	}
	if len(named) > 0 {
		return slices.MinFunc(named, func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
	}
	return nil
}

// matches reports whether a reference names a job. Nobody sees a tombstone.
func matches(j *entry, ref job.Ref) bool {
	if j.Flags.Has(job.FlagTombstone) || j.Namespace != ref.Namespace || ref.Queue != "" && j.Queue != ref.Queue {
		return false
	}
	switch ref.Kind {
	case job.RefID:
		return j.ID == ref.ID
	case job.RefKey:
		return ref.Key != "" && j.Key == ref.Key
	case job.RefSerial:
		return j.Flags.Has(job.FlagSerial) && j.Serial == ref.Serial
	case job.RefNumber:
		return j.Flags.Has(job.FlagNumbered) && j.ID.Number() == ref.Number
	}
	return false
}

// settle finds the job of a settling verb and asks of it what the verb needs.
// With free, a verb that needs nothing is not bound by an exclusive lease.
func (m *Model) settle(ref job.Ref, by job.Holder, need job.Need, free bool) (*entry, *job.Error) {
	check := func(j *entry) *job.Error {
		leased := j.State == job.Leased
		switch {
		case (need == job.NeedHeld || need == job.NeedLeased) && !leased:
			return job.ErrNotLeased
		case need == job.NeedHeld && j.Lease.Holder != by:
			return job.ErrNotOwner
		case need == job.NeedUnfinished && j.State.Finished():
			return job.ErrFinished
		case leased && j.Lease.Exclusive && j.Lease.Holder != by && !(need == job.NeedAny && free):
			return job.ErrNotOwner
		}
		return nil
	}
	j := m.find(ref, need == job.NeedHeld || need == job.NeedLeased, func(j *entry) bool { return check(j) == nil })
	if j == nil {
		j = m.heldNumber(ref, by)
	}
	if j == nil {
		return nil, job.ErrNotFound
	}
	return j, check(j)
}

// heldNumber returns the job that a reference by number names although it was not
// pushed as one with a number: a holder may name so what it holds.
func (m *Model) heldNumber(ref job.Ref, by job.Holder) *entry {
	if ref.Kind != job.RefNumber || by == (job.Holder{}) {
		return nil
	}
	for _, j := range m.boundTo(by) {
		if j.ID.Number() == ref.Number && matches(j, job.ByID(ref.Namespace, ref.Queue, j.ID)) {
			return j
		}
	}
	return nil
}

func (m *Model) applyPush(c *job.Push) {
	r, full := m.push(&c.Spec, nil, nil)
	if full && c.RoomWait > 0 {
		m.wait(c, c.RoomWait, 0)
		return
	}
	m.answer(r)
}

// push adds a job. Full says that it was refused for want of room. Earlier are the
// pushes of the same Atomic; admitted is called with the job before it is handed
// out or expires.
func (m *Model) push(s *job.Spec, earlier []job.ID, admitted func(*entry)) (r job.Result, full bool) {
	if s.Unique && len(m.sorted(func(j *entry) bool {
		return matches(j, job.ByKey(s.Namespace, s.Key))
	})) > 0 {
		return job.Result{Err: job.ErrDuplicate}, false
	}
	name := queueName{s.Namespace, s.Queue}
	if m.full(name) {
		return job.Result{Err: job.ErrFull}, true
	}
	q := m.queue(name)
	q.hidden = false
	q.totals[job.CountPushed]++
	j := &entry{Job: job.Job{
		ID: m.nextID(s), Namespace: s.Namespace, Queue: s.Queue, Key: s.Key, Type: s.Type, Group: s.Group,
		Body: s.Body, BodyKind: s.BodyKind, Extra: s.Extra, Origin: s.Origin, Created: m.now, Policy: s.Policy,
	}}
	seq := m.nextSequence()
	j.Order = job.Order{Priority: s.Policy.Priority, Seq: seq, First: seq}
	if s.Numbered {
		j.Flags |= job.FlagNumbered
	}
	m.number(j, q)
	j.RunAt = s.RunAt
	if s.Delay > 0 {
		j.RunAt = m.now.Add(s.Delay)
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
	if admitted != nil {
		admitted(j)
	}
	switch {
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
	if r = (job.Result{ID: j.ID, Serial: j.Serial, State: j.State}); r.State == job.Leased {
		r.State = job.Ready // it was, before a waiting caller had it
	}
	if m.jobs[j.ID] == j && m.expired(j) && !m.trial {
		m.fireJob(j)
	}
	return r, false
}

// full reports whether a queue is at its capacity.
func (m *Model) full(name queueName) bool {
	q := m.queues[name]
	return q != nil && q.settings.Capacity > 0 && uint64(len(m.inQueue(name))) >= q.settings.Capacity
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

// blockers returns the ids of the jobs that a new one must wait for. Earlier are
// the pushes of the same Atomic.
func (m *Model) blockers(s *job.Spec, earlier []job.ID) []job.ID {
	set := map[job.ID]bool{}
	for _, b := range s.BlockedBy {
		ref := job.ByID(s.Namespace, "", b.ID)
		switch {
		case b.ID != 0:
		case b.Number != 0:
			ref = job.ByNumber(s.Namespace, b.Number)
		case b.Back > 0 && b.Back <= len(earlier):
			ref.ID = earlier[len(earlier)-b.Back]
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
	r, _ := m.push(&c.Spec, nil, func(j *entry) {
		j.Flags |= job.FlagEphemeral
		m.wait(c, c.Wait, j.ID)
	})
	if r.Err != nil {
		m.answer(r)
	}
}

// wait makes the caller of the command being applied wait.
func (m *Model) wait(cmd job.Command, limit time.Duration, id job.ID) {
	w := &wait{token: m.token, cmd: cmd, id: id, armed: m.arm()}
	if limit != job.WaitForever {
		w.deadline = m.now.Add(max(limit, 0))
	}
	m.waits = append(m.waits, w)
}

// applyAtomic applies the parts in order, once all of them have been tried.
func (m *Model) applyAtomic(c *job.Atomic) {
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
			r, _ := m.push(&op.Spec, ids, nil)
			ids = append(ids, r.ID)
		default: // refused above
		}
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
	for _, b := range c.Spec.BlockedBy {
		if b.Back < 0 || b.Back > len(*pushed) {
			return &job.Error{Kind: job.Invalid, Text: "no such push"}
		}
	}
	r, _ := m.push(&c.Spec, *pushed, nil)
	*pushed = append(*pushed, r.ID)
	return r.Err
}

func (m *Model) applyFetch(c *job.Fetch) {
	var got []job.Job
	for len(got) < max(c.Max, 1) {
		j := m.pick(c, m.token, len(got))
		if j == nil {
			break
		}
		got = append(got, j.Job)
	}
	switch {
	case len(got) > 0:
		m.answer(job.Result{Jobs: got})
	case c.Wait > 0:
		m.wait(c, c.Wait, 0)
	default:
		m.refuse(job.ErrTimeout)
	}
}

// candidates returns the first fetchable job of each queue that has one.
func (m *Model) candidates(c *job.Fetch) []*entry {
	var out []*entry
	for _, name := range c.Queues {
		if j := m.fetchable(queueName{c.Namespace, name}); j != nil {
			out = append(out, j)
		}
	}
	return out
}

// fetchable returns the first job of a queue that may be fetched. A job whose
// expiry is due is as good as gone.
func (m *Model) fetchable(name queueName) *entry {
	if q := m.queues[name]; q == nil || q.paused {
		return nil
	}
	busy := map[string]bool{}
	for _, j := range m.list(name, job.Leased) {
		busy[j.Group] = j.Group != ""
	}
	for _, j := range m.list(name, job.Ready) {
		if !busy[j.Group] && !m.expired(j) {
			return j
		}
	}
	return nil
}

// pick leases one job to a fetch, nil if there is none.
func (m *Model) pick(c *job.Fetch, token uint64, n int) *entry {
	from := m.candidates(c)
	if len(from) == 0 {
		return nil
	}
	j := from[0]
	switch c.Pick {
	case job.PickInOrder:
	case job.PickRandom:
		if id, ok := m.oracle.Picked(token, n); ok {
			i := slices.IndexFunc(from, func(j *entry) bool { return j.ID == id })
			if i < 0 {
				m.illegal("token %d: job %d is not the first of a queue that was asked for", token, id)
				break
			}
			j = from[i]
		}
	case job.PickBest:
		for _, o := range from {
			if p, q := o.Policy.Priority, j.Policy.Priority; p > q || p == q && o.ID < j.ID {
				j = o
			}
		}
	}
	m.lease(j, c)
	return j
}

func (m *Model) lease(j *entry, c *job.Fetch) {
	m.count(j, job.CountFetched)
	m.enter(j, job.Leased)
	j.Attempts++
	l := job.Lease{Holder: c.Holder, Length: j.Policy.Lease, Exclusive: c.Exclusive, OnEnd: c.OnEnd, Door: c.Door}
	if c.LeaseSet {
		l.Length = c.Lease
	}
	if c.LeaseSet || l.Length > 0 {
		l.Until = m.now.Add(l.Length)
	}
	j.Lease = l
}

// serve hands out what has become possible to those who wait.
func (m *Model) serve() {
	for _, w := range slices.Clone(m.waits) {
		if c, ok := w.cmd.(*job.Push); ok && !m.full(queueName{c.Spec.Namespace, c.Spec.Queue}) {
			r, _ := m.push(&c.Spec, nil, nil)
			m.complete(w, r)
		}
	}
	for progress := true; progress; {
		progress = false
		for _, w := range slices.Clone(m.waits) {
			if id, ok := m.oracle.Picked(w.token, 0); ok && m.jobs[id] != nil && m.serveTo(w, m.jobs[id]) {
				progress = true
			}
		}
	}
	// Whoever still waits for something that is there is served by the plain
	// rule; that the machine did not shows when the answers are compared.
	for _, w := range slices.Clone(m.waits) {
		if c, ok := w.cmd.(*job.Fetch); ok {
			if j := m.pick(c, w.token, 0); j != nil {
				m.complete(w, job.Result{Jobs: []job.Job{j.Job}})
			}
		}
	}
}

// offer gives a job that has just become ready to a waiting caller, if that is
// what the machine did. Several jobs that become ready in one step may be handed
// out one by one or at its end, and a caller that waits on several queues be
// served from any: the document leaves that open.
func (m *Model) offer(j *entry) {
	for _, w := range m.waits {
		if id, ok := m.oracle.Picked(w.token, 0); ok && id == j.ID && m.serveTo(w, j) {
			return
		}
	}
}

// serveTo gives a job to a waiting caller, provided that the job is the first that
// can be fetched from its queue and the caller the first that waits on it.
func (m *Model) serveTo(w *wait, j *entry) bool {
	waitsOn := func(w *wait) bool {
		c, ok := w.cmd.(*job.Fetch)
		return ok && c.Namespace == j.Namespace && slices.Contains(c.Queues, j.Queue)
	}
	first := slices.IndexFunc(m.waits, waitsOn)
	c, ok := w.cmd.(*job.Fetch)
	if !ok || first < 0 || m.waits[first] != w || m.fetchable(queueName{j.Namespace, j.Queue}) != j {
		return false
	}
	m.lease(j, c)
	m.complete(w, job.Result{Jobs: []job.Job{j.Job}})
	return true
}

func (m *Model) ack(c *job.Ack) settled {
	j, err := m.settle(c.Ref, c.By, c.Need, false)
	if err != nil {
		return settled{err: err}
	}
	m.ackJob(j, c)
	return settled{job: j}
}

func (m *Model) ackJob(j *entry, c *job.Ack) {
	m.count(j, job.CountAcked)
	switch {
	case j.Policy.Keep || c.Keep || j.Flags.Has(job.FlagEphemeral):
		if c.Keep && c.NewBody && !j.Flags.Has(job.FlagEphemeral) {
			j.Body, j.BodyKind = c.Body, c.BodyKind
		}
		m.finish(j, job.Done, c.Result)
	default:
		m.drop(j)
	}
	m.strike(j.ID)
}

func (m *Model) applyFail(c *job.Fail) {
	j, err := m.settle(c.Ref, c.By, c.Need, false)
	if err == nil {
		m.fail(j, c.Failure, c.Result)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyRelease(c *job.Release) {
	j, err := m.settle(c.Ref, c.By, c.Need, false)
	if err == nil && j.State != job.Leased {
		err = job.ErrNotLeased
	}
	if err == nil {
		m.count(j, job.CountReleased)
		if c.SetPriority {
			j.Policy.Priority = c.Priority
		}
		if c.TTL > 0 {
			j.Policy.ExpireAt = m.now.Add(c.TTL + c.Delay)
		} else if c.StretchTTL && j.expires() {
			j.Policy.ExpireAt = j.Policy.ExpireAt.Add(c.Delay)
		}
		if c.Delay > 0 {
			j.RunAt = m.now.Add(c.Delay)
			m.toScheduled(j)
			j.toOld = true
		} else {
			m.toReady(j, c.Place)
		}
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (j *entry) expires() bool { return j.Policy.ExpireAt != 0 && j.Policy.ExpireAt != job.Never }

func (m *Model) applyReturn(c *job.Return) {
	for _, id := range c.IDs {
		j := m.find(job.ByID(c.Namespace, "", id), false, func(*entry) bool { return true })
		if j == nil || j.State != job.Leased || j.Lease.Holder != c.By {
			continue
		}
		m.count(j, job.CountReturned)
		j.Attempts--
		m.toReady(j, job.PlaceOld)
	}
	m.answer(job.Result{})
}

func (m *Model) applyBury(c *job.Bury) {
	j, err := m.settle(c.Ref, c.By, c.Need, true)
	switch {
	case err != nil:
	case j.State.Finished() || j.State == job.Dead:
		err = job.ErrBadState
	case j.State == job.Buried:
	default:
		m.count(j, job.CountBuried)
		j.Buries++
		left := j.State == job.Leased
		m.enter(j, job.Buried)
		m.unleased(j, left)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyKick(c *job.Kick) {
	if !c.One {
		buried := m.list(queueName{c.Namespace, c.Queue}, job.Buried)
		n := min(max(c.Count, 0), len(buried))
		for _, j := range buried[:n] {
			m.count(j, job.CountKicked)
			m.toReady(j, job.PlaceOld)
		}
		m.answerCount(n)
		return
	}
	j := m.find(c.Ref, false, func(j *entry) bool { return j.State == job.Buried })
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case j.State != job.Buried:
		m.refuse(job.ErrBadState)
	default:
		m.count(j, job.CountKicked)
		m.toReady(j, job.PlaceOld)
		r := job.Result{Count: 1}
		if c.Want {
			r.Jobs = []job.Job{j.Job}
		}
		m.answer(r)
	}
}

func (m *Model) delete(c *job.Delete) settled {
	j, err := m.settle(c.Ref, c.By, c.Need, true)
	if err != nil {
		return settled{err: err}
	}
	m.deleteJob(j)
	return settled{job: j}
}

func (m *Model) deleteJob(j *entry) {
	m.count(j, job.CountDeleted)
	if j.State == job.Dead && j.Policy.DeadSlots {
		j.Flags |= job.FlagTombstone
		m.unwait(j.ID)
	} else {
		m.drop(j)
	}
	m.strike(j.ID)
}

func (m *Model) applyTouch(c *job.Touch) {
	j, err := m.settle(c.Ref, c.By, c.Need, false)
	if err == nil && j.State != job.Leased {
		err = job.ErrNotLeased
	}
	if err == nil {
		m.count(j, job.CountTouched)
		l := &j.Lease
		until := l.Until
		switch {
		case c.Until != 0:
			until = c.Until
		case c.Restart && l.Length > 0:
			until = m.now.Add(l.Length)
		case c.Restart:
			until = 0
		case c.Add != 0:
			if l.Until != 0 {
				until = l.Until.Add(c.Add)
			}
			l.Length += c.Add
			j.Policy.Lease += c.Add
			if j.expires() {
				j.Policy.ExpireAt = j.Policy.ExpireAt.Add(c.Add)
			}
		}
		later := l.Until != 0 && (until == 0 || until > l.Until)
		if !c.NoEarlier || later {
			l.Until = until
		}
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyPromote(c *job.Promote) {
	promotable := func(j *entry) bool {
		switch j.State {
		case job.Scheduled, job.Retrying, job.Buried, job.Failed, job.Dead:
			return true
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
	j := m.find(c.Ref, false, func(j *entry) bool { return !j.State.Finished() && j.State != job.Dead })
	var err *job.Error
	switch {
	case j == nil:
		err = job.ErrNotFound
	case j.State.Finished():
		err = job.ErrFinished
	case j.State == job.Dead:
		err = job.ErrBadState
	case j.Flags.Has(job.FlagEphemeral):
		m.count(j, job.CountDied)
		m.drop(j)
		m.fall(j.ID)
	default:
		m.count(j, job.CountDied)
		if c.For > 0 {
			j.Policy.DeadFor = c.For
		}
		m.toDead(j)
		m.fall(j.ID)
	}
	m.answerJob(settled{j, err}, c.Want)
}

func (m *Model) applyRespawn(c *job.Respawn) {
	dead := m.list(queueName{c.Namespace, c.Queue}, job.Dead)
	n := min(max(c.Limit, 0), len(dead))
	for _, j := range dead[:n] {
		if j.Flags.Has(job.FlagTombstone) {
			m.drop(j)
			continue
		}
		j.Attempts, j.Fails, j.Policy.MaxAttempts, j.Policy.ExpireAt = 0, 0, c.Attempts, 0
		if c.TTL > 0 {
			j.Policy.ExpireAt = m.now.Add(c.TTL)
		}
		m.toReady(j, job.PlaceTail)
	}
	m.answerCount(n)
}

func (m *Model) applyMove(c *job.Move) {
	j := m.find(c.Ref, false, func(j *entry) bool { return j.State != job.Leased })
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case j.State == job.Leased:
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
	if j.State == job.Ready {
		m.toReady(j, job.PlaceOld)
		return
	}
	m.entered++
	j.Entered = m.entered
}

func (m *Model) applyAwait(c *job.Await) {
	j := m.find(c.Ref, false, func(*entry) bool { return true })
	switch {
	case j == nil:
		m.refuse(job.ErrNotFound)
	case j.State.Finished():
		m.answer(job.Result{Jobs: []job.Job{j.Job}})
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
	m.complete(w, job.Result{Err: err})
	if _, ok := w.cmd.(*job.Run); ok && m.jobs[w.id].State != job.Leased {
		m.withdraw(m.jobs[w.id])
	}
}

func (m *Model) applyEndHolder(c *job.EndHolder) {
	for _, w := range slices.Clone(m.waits) {
		if f, ok := w.cmd.(*job.Fetch); ok && f.Holder == c.Holder {
			m.giveUp(w, job.ErrCanceled)
		}
	}
	holds := len(m.boundTo(c.Holder)) > 0
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
		return j.State == job.Leased && j.Lease.Holder == h && j.Lease.OnEnd != job.EndKeep
	})
}

// endHolder ends the leases of a holder.
func (m *Model) endHolder(h job.Holder) {
	m.resume(h)
	for _, j := range m.boundTo(h) {
		m.count(j, job.CountEnded)
		if j.Lease.OnEnd == job.EndFail {
			m.fail(j, job.Failure{Kind: job.FailedByEnd}, nil)
		} else {
			m.toReady(j, job.PlaceOld)
		}
	}
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

func (m *Model) applyReleaseAll(c *job.ReleaseAll) {
	leased := m.list(queueName{c.Namespace, c.Queue}, job.Leased)
	for _, j := range leased {
		m.count(j, job.CountReleased)
		m.toReady(j, job.PlaceOld)
	}
	m.answerCount(len(leased))
}

func (m *Model) applyConfigure(c *job.Configure) {
	name := queueName{c.Namespace, c.Queue}
	if q := m.queues[name]; q != nil && q.configured && !c.Replace {
		m.refuse(job.ErrExists)
		return
	}
	q := m.queue(name)
	q.configured, q.hidden, q.settings = true, false, c.Settings
	m.answer(job.Result{})
}

func (m *Model) applyPause(c *job.Pause) {
	if q := m.queues[queueName{c.Namespace, c.Queue}]; q != nil {
		q.paused, q.pausedUntil, q.pauseArmed = true, 0, m.arm()
		if c.For > 0 {
			q.pausedUntil = m.now.Add(c.For)
		}
	}
	m.answer(job.Result{})
}

func (m *Model) applyResume(c *job.Resume) {
	if q := m.queues[queueName{c.Namespace, c.Queue}]; q != nil {
		q.paused, q.pausedUntil = false, 0
	}
	m.answer(job.Result{})
}

func (m *Model) applyPurge(c *job.Purge) {
	jobs := m.list(queueName{c.Namespace, c.Queue}, c.State)
	if c.Limit > 0 && c.Limit < len(jobs) {
		jobs = jobs[:c.Limit]
	}
	m.deleteAll(jobs)
	m.answerCount(len(jobs))
}

// deleteAll removes jobs in one step: first all of them go, then those that
// waited for them are released, at once or by and by.
func (m *Model) deleteAll(jobs []*entry) {
	ids := make([]job.ID, 0, len(jobs))
	for _, j := range jobs {
		m.count(j, job.CountDeleted)
		m.drop(j)
		ids = append(ids, j.ID)
	}
	if m.oracle.Sweeping() {
		slices.Sort(ids)
		m.swept = append(m.swept, ids...)
		return
	}
	for _, id := range ids {
		m.strike(id)
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
			if f, ok := w.cmd.(*job.Fetch); ok && f.Namespace == c.Namespace && slices.Contains(f.Queues, c.Queue) {
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
		q.paused, q.pausedUntil, q.hidden = false, 0, true
		m.deleteAll(m.list(name, job.Ready))
	case c.KeepQueue:
		m.deleteAll(m.inQueue(name))
		m.lastQueue++
		q.num = m.lastQueue
	default:
		m.removeQueue(name)
	}
	m.answer(job.Result{})
}

// inQueue returns the jobs of a queue, by id.
func (m *Model) inQueue(name queueName) []*entry {
	return m.sorted(func(j *entry) bool { return j.Namespace == name.ns && j.Queue == name.name })
}

// removeQueue removes a queue with all its jobs.
func (m *Model) removeQueue(name queueName) {
	m.deleteAll(m.inQueue(name))
	delete(m.queues, name)
}

func (m *Model) applyFlush(c *job.Flush) {
	jobs := m.sorted(func(j *entry) bool { return j.Namespace == c.Namespace })
	m.deleteAll(jobs)
	for name := range m.queues {
		if name.ns == c.Namespace {
			delete(m.queues, name)
		}
	}
	m.answer(job.Result{})
}
