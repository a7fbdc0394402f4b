package machine

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"millrace/internal/job"
	"millrace/internal/record"
)

// push applies a Push: it refuses the job, has its caller wait for room, or makes it. The order of
// the checks is part of the semantics (section 2): a fingerprint comes before everything else, then
// names, then capacity. A queue that a flush is about to remove is removed before any of them is
// looked at.
func (m *Machine) push(token uint64, c *job.Push, res *job.Result) (answered bool) {
	m.flushFor(&c.Spec)
	if e := m.findAlike(c); e != nil {
		m.acceptAlike(e, res)
		return true
	}
	if err := checkPast(c); err != nil {
		res.Err = err
		return true
	}
	err := m.checkPush(&c.Spec)
	switch {
	// Also if there is room: those who have waited for it come first.
	case c.RoomWait > 0 && (err == job.ErrFull || err == nil && m.isAdmittingPushes(&c.Spec)):
		m.waitForRoom(token, c)
		return false
	case err != nil:
		res.Err = err
		return true
	}
	e := m.create(c, nil)
	m.accept(e, res)
	m.recycle(e)
	return true
}

// recycle keeps the entry of a job that was pushed, with its buffers, for the next push. Behind a
// backlog no new job stays in memory, and its entry would be garbage at once. An entry that is in
// memory for longer, or of which a group may still know, is left alone. If the job was delivered in
// the same step, lease has let go of the buffers, which are part of the answer now.
func (m *Machine) recycle(e *entry) {
	if m.jobs[e.ID] != nil || e.Group != "" {
		return
	}
	m.uncountBody(e)
	if cap(e.Body)+cap(e.Extra) > spareBytes {
		e.Body, e.Extra = nil, nil
	}
	m.spare = e
}

// spareBytes is how many bytes the buffers of the entry that recycle keeps may have, so that one
// large body does not stay in memory for ever.
const spareBytes = 64 << 10

// accept answers a push with what became of the job.
func (m *Machine) accept(e *entry, res *job.Result) {
	res.ID, res.State = e.ID, e.State
	res.Serial, res.HasSerial = e.Serial, e.Flags.Has(job.FlagSerial)
	if res.State == job.Leased {
		res.State = job.Ready // it became ready; that somebody was waiting is not the pusher's business
	}
}

// checkPush says why a push is refused; nil if it is not. It changes nothing, so that schedules and
// runs use it as well.
func (m *Machine) checkPush(s *job.Spec) *job.Error {
	if err := m.checkNames(s); err != nil {
		return err
	}
	q := m.findQueue(s.Namespace, s.Queue)
	if q != nil && q.Settings.Capacity > 0 && q.usedCapacity() >= q.Settings.Capacity {
		return job.ErrFull
	}
	return nil
}

// checkNames says whether the key or the lock that a push asks for is taken. A push that has waited
// for room is checked again when it is let in, because both may have been taken meanwhile.
func (m *Machine) checkNames(s *job.Spec) *job.Error {
	if s.Unique && s.Key != "" && m.keyInUse(s.Namespace, s.Key) {
		return job.ErrDuplicate
	}
	if s.Lock != "" && m.isLocked(s.Namespace, s.Lock) {
		return job.ErrLocked
	}
	return nil
}

// usedCapacity returns how much of its capacity a queue has used up. While pushes that have waited are
// still to be let in, they count as jobs: a later push would otherwise take the room that they were
// promised.
func (q *queue) usedCapacity() uint64 {
	if q.wakingRoom {
		return q.total() + q.waitingPushes
	}
	return q.total()
}

// isAdmittingPushes reports whether pushes that waited are still to be let into the queue of another push,
// which must not overtake them.
func (m *Machine) isAdmittingPushes(s *job.Spec) bool {
	q := m.spaces[s.Namespace][s.Queue]
	return q != nil && q.wakingRoom && q.waitingPushes > 0
}

// waitForRoom has a push wait until a job leaves its queue. The queue is there, because it is full,
// or was when those before it began to wait.
func (m *Machine) waitForRoom(token uint64, c *job.Push) {
	q := m.spaces[c.Spec.Namespace][c.Spec.Queue]
	w := &waiter{token: token, push: c}
	if q.pushWaiters == nil {
		q.pushWaiters = &waitList{q: q}
	}
	q.waitingPushes++
	w.joinList(q.pushWaiters)
	m.enqueue(w, m.deadline(c.RoomWait))
}

// wakeRoom has waiting pushes let into a queue at the end of this transition. Whatever takes a job
// out of a queue, or raises its capacity, must call it, or the pushes wait until their time is up.
func (m *Machine) wakeRoom(q *queue) {
	if !q.wakingRoom && !q.pushWaiters.empty() {
		q.wakingRoom = true
		m.roomWakes.add(q)
	}
}

// canAdmitPush reports whether a push waits for room and there is room for it.
func (q *queue) canAdmitPush() bool {
	return !q.pushWaiters.empty() && (q.Settings.Capacity == 0 || q.total() < q.Settings.Capacity)
}

// admitPush lets the push that has waited longest into a queue that has room. It is checked like a push
// that comes now, except for the capacity, which canAdmitPush has looked at.
func (m *Machine) admitPush(q *queue) {
	w := q.pushWaiters.first()
	c := w.push
	var res job.Result
	if e := m.findAlike(c); e != nil {
		m.acceptAlike(e, &res)
		m.complete(w, res, m.step)
		return
	}
	if err := m.checkNames(&c.Spec); err != nil {
		m.refuse(w, err)
		return
	}
	// Before the job is made: what that sets off must not find the push among those who wait.
	m.dequeue(w)
	m.accept(m.create(c, nil), &res)
	m.completions = append(m.completions, Completion{Token: w.token, Result: res, Needs: m.step})
}

// nextID returns the number of the next job. Clients with 32-bit numbers see the low half only, so
// that a numbered job must not share it with another live one. As long as fewer than 2^32 jobs were
// pushed no half has come twice, and nothing has to be looked up.
func (m *Machine) nextID(numbered bool) job.ID {
	for {
		id := m.shard.NextID
		m.shard.NextID++
		m.markShardDirty()
		if !numbered {
			return id
		}
		if id.Number() == 0 {
			continue
		}
		if id < 1<<32 {
			return id // no number has been used twice yet
		}
		r, ok := m.getNumber(id.Number())
		if !ok {
			return id
		}
		// The sweep of the purged job leaves the number alone when it finds another job under it.
		if m.loadRef(r) == nil { // of a job that was purged and not swept yet
			m.keyBuf = record.NumberKey(m.keyBuf[:0], id.Number())
			m.del(m.keyBuf)
			return id
		}
	}
}

// create makes the job of a checked push. Earlier holds the jobs pushed before it in the same
// Atomic, which a blocker may name by how far back they are.
func (m *Machine) create(c *job.Push, earlier []*entry) *entry {
	s := &c.Spec
	e := m.prepare(s)
	if c.Past != nil {
		m.importJob(e, s, c.Past, earlier)
		return e
	}
	m.enlist(e, s)
	m.storeNewJob(e, s, earlier)
	return e
}

// enlist gives a new job the lock and the batch that its spec names. Both change the job, so that
// they come before its first record is written.
func (m *Machine) enlist(e *entry, s *job.Spec) {
	if s.Lock != "" {
		m.takeLock(e, s)
	}
	if s.Batch != 0 {
		m.join(e, s.Batch)
	}
}

// prepare makes the entry of a new job: its number, its order, its times. Nothing is stored yet;
// storeNewJob or importJob does that. The caller's buffers are copied, because the job outlives the
// request.
func (m *Machine) prepare(s *job.Spec) *entry {
	q := m.makeQueue(s.Namespace, s.Queue)
	q.setHidden(false)
	e := m.spare
	if m.spare = nil; e == nil {
		e = &entry{}
	}
	body, extra := copyInto(e.Body, s.Body), copyInto(e.Extra, s.Extra)
	// The entry may be that of an earlier job: nothing of it may be left.
	*e = entry{} // and then field by field, which spares a copy
	e.q, e.pushStep, e.loaded = q, m.step, true
	e.ID, e.Namespace, e.Queue, e.QueueNum = m.nextID(s.Numbered), q.namespace, q.name, uint32(q.ID)
	e.Key, e.Type, e.Group, e.Origin, e.Fingerprint = s.Key, s.Type, s.Group, s.Origin, s.Fingerprint
	e.Body, e.BodyKind, e.Extra = body, s.BodyKind, extra
	if s.Trace != "" && m.allows(record.FormatTraces, &job.Result{}) { // a job without its trace is better than none
		e.Trace = s.Trace
		e.Flags |= job.FlagTraced
	}
	e.Created, e.Policy = m.now, s.Policy
	if s.Numbered {
		e.Flags |= job.FlagNumbered
	}
	if q.Settings.Serials {
		e.Flags |= job.FlagSerial
		e.Serial = q.NextSerial
		q.NextSerial++
	}
	e.Order.First = m.nextSeq()
	e.Order.Seq = e.Order.First
	e.Order.Priority = max(e.Policy.Priority, -math.MaxInt64)
	m.setTimes(e, s)
	if s.Tracked {
		e.Flags |= job.FlagTracked
	}
	q.Doors = q.Doors.With(s.Origin)
	m.countPushed(q, s.Origin)
	return e
}

// copyInto returns a copy of b, in the free buffer if that is large enough. An empty b is copied as
// it is, nil or not.
func copyInto(free, b []byte) []byte {
	if len(b) == 0 {
		return bytes.Clone(b)
	}
	return append(free[:0], b...)
}

// setTimes sets when the job is due and when it expires. Durations become times here, once: a
// restart or a change of leader must not start them again.
func (m *Machine) setTimes(e *entry, s *job.Spec) {
	e.RunAt = s.RunAt
	if s.Delay > 0 {
		e.RunAt, e.Delay = m.now.Add(s.Delay), s.Delay
	}
	if s.TTL > 0 {
		from := m.now
		if s.TTLFromRun {
			from = max(from, e.RunAt)
		}
		e.Policy.ExpireAt = from.Add(s.TTL)
	}
}

// storeNewJob writes a new job and lets it enter its first state. Batch callbacks, hooks and schedules
// come here as well, with entries from prepare.
func (m *Machine) storeNewJob(e *entry, s *job.Spec, earlier []*entry) {
	// Before the first record, which has the flag that says where the body is.
	m.storeBody(e)
	blockers := m.blockers(s, earlier)
	switch {
	case len(blockers) > 0:
		// Blockers go into the record, so that they are known before it is saved.
		m.enter(e, job.Blocked)
		m.block(e, blockers)
		m.link(e)
		m.save(e)
	case e.RunAt > m.now:
		m.enter(e, job.Scheduled)
		m.link(e)
		m.save(e)
	default:
		m.link(e)
		p := s.At
		switch {
		case e.RunAt != 0:
			p = e.Policy.Due // its time has come already
		case p == job.PlaceTail:
			p = job.PlaceOld // its first arrival is the tail
		}
		m.makeReady(e, p)
	}
	m.expireIfPast(e)
}

// expireIfPast ends a new job whose expiry has come already. The push is answered as if it had
// worked, with the state that the job had for a moment. One that is leased by now is left to its
// timer.
func (m *Machine) expireIfPast(e *entry) {
	if e.State != job.Leased && isExpired(e, m.now) {
		state := e.State
		m.expire(e)
		e.State = state // what the push answers
	}
}

// atomic checks every operation as if those before it had happened, and then applies all, or none.
// What the check has allowed must not fail any more, because nothing can be undone: so everything
// that could refuse an operation is looked at by the rehearsal, and a flush that concerns one of
// the queues comes before it.
func (m *Machine) atomic(c *job.Atomic, res *job.Result) {
	// A flush removes what it means before any operation is checked, or the check would count jobs
	// that go.
	for _, op := range c.Ops {
		if p, ok := op.(*job.Push); ok {
			m.flushFor(&p.Spec)
		}
	}
	refs, err := m.checkAtomic(c)
	if err != nil {
		res.Err = err
		return
	}
	var pushed []*entry
	made := make(map[int]record.JobRef)
	for i, op := range c.Ops {
		var r job.Result
		switch o := op.(type) {
		case *job.Ack:
			// A key may name another job by now, because an operation before has pushed or ended
			// one.
			ack := *o
			ack.Ref = refs[i] // what a key named when it was checked
			m.ack(&ack, &r)
		case *job.Delete:
			m.delete(&job.Delete{Ref: refs[i], Need: job.NeedAny}, &r)
		case *job.Push:
			e := m.create(o, pushed)
			pushed = append(pushed, e)
			made[i] = record.JobRef{Queue: e.q.ID, ID: e.ID}
			res.IDs = append(res.IDs, e.ID)
		case *job.SetValue:
			m.setValue(valueOf(o, i, made), &r)
		case *job.NewBatch:
			m.newBatch(o, &r)
			made[i] = record.JobRef{ID: job.ID(r.Batch)}
		case *job.CommitBatch:
			m.commitBatch(o, &r)
		case *job.SetSchedules:
			m.setSchedules(o, &r)
		case *job.PauseSchedule:
			m.pauseSchedule(o, &r)
		default: // refused by the rehearsal
		}
		// What this operation set free is given out before the next one, as between two commands.
		// Callbacks and waiting pushes come at the end of the whole (Machine.inTransition).
		m.serveWakes()
	}
}

// valueOf returns a SetValue of an Atomic with the value filled in that names what an earlier
// operation has made: the job or batch had no number when the caller wrote the command.
func valueOf(c *job.SetValue, i int, made map[int]record.JobRef) *job.SetValue {
	if c.Of == 0 {
		return c
	}
	ref := made[i-c.Of]
	return &job.SetValue{Space: c.Space, Name: c.Name, Value: job.AppendMade(nil, uint32(ref.Queue), ref.ID)}
}

// rehearsal is what an Atomic would have done so far, if nobody waited. It only reads the machine.
// What the operations before would have changed is kept here, by what later ones could ask about.
type rehearsal struct {
	m      *Machine
	ended  map[job.ID]bool // acked or deleted; true: kept as done
	left   map[*queue]uint64
	into   map[[2]string]uint64
	keys   map[[2]string]struct{}
	locks  map[[2]string]bool // those it has taken (true) or ended
	pushes int

	blockers int // that the pushes name
}

// atomicBlockers is how many blockers the pushes of an Atomic may name in all: it is one
// step, and each of them is read and written.
const atomicBlockers = 16 << 10

// checkAtomic returns which jobs the acks and deletes are about, or the first refusal with its
// index. Operations whose outcome depends on more than the rehearsal knows are not allowed at all.
func (m *Machine) checkAtomic(c *job.Atomic) ([]job.Ref, *job.Error) {
	r := rehearsal{
		m: m, ended: map[job.ID]bool{}, left: map[*queue]uint64{}, into: map[[2]string]uint64{},
		keys: map[[2]string]struct{}{}, locks: map[[2]string]bool{},
	}
	refs := make([]job.Ref, len(c.Ops))
	for i, op := range c.Ops {
		var err *job.Error
		var e *entry
		switch o := op.(type) {
		case *job.Ack:
			e, err = r.ack(o)
		case *job.Delete:
			e, err = r.delete(o)
			if o.AckHeld {
				err = notInAtomic("a delete that may be an ack is ")
			}
		case *job.Push:
			err = r.push(o)
			if o.Unless != 0 {
				err = notInAtomic("a push that depends on others is ")
			}
		case *job.SetValue:
			if o.IfAbsent || o.Of != 0 && !canBeNamed(c.Ops, i-o.Of) {
				err = notInAtomic("a value that depends on others is ")
			}
		case *job.NewBatch:
			err = m.checkNewBatch(o)
		case *job.CommitBatch:
			if m.batchIn(o.Namespace, o.Batch) == nil {
				err = job.ErrNoBatch
			}
		case *job.SetSchedules:
			_, err = m.checkSchedules(o)
		case *job.PauseSchedule:
			if m.tickerNamed(o.Namespace, o.Name) == nil {
				err = job.ErrNoSchedule
			}
		default:
			err = notInAtomic("")
		}
		if err != nil {
			return nil, &job.Error{Kind: err.Kind, Text: err.Text, Index: i}
		}
		if e != nil {
			refs[i] = job.ByID(e.q.namespace, e.q.name, e.ID)
		}
	}
	return refs, nil
}

// notInAtomic refuses an operation of an Atomic.
func notInAtomic(what string) *job.Error {
	return &job.Error{Kind: job.Invalid, Text: what + "not allowed in an atomic command"}
}

// canBeNamed reports whether an operation of an Atomic makes a job or a batch that a value can name.
func canBeNamed(ops []job.Command, i int) bool {
	if i < 0 || i >= len(ops) {
		return false
	}
	_, push := ops[i].(*job.Push)
	_, batch := ops[i].(*job.NewBatch)
	return push || batch
}

// ack rehearses an ack. A job that an operation before has ended counts as it would be then: kept
// as done, or gone.
func (r *rehearsal) ack(o *job.Ack) (*entry, *job.Error) {
	e, err := r.m.lookupBy(&o.Ref, o.By, o.Need, func(e *entry) *job.Error {
		kept, ended := r.ended[e.ID]
		switch {
		case ended && kept && o.Need == job.NeedUnfinished:
			return job.ErrFinished
		case ended && !kept && o.Ref.Kind == job.RefKey:
			return job.ErrNotFound
		case ended:
			return job.ErrNotLeased
		}
		return checkSettle(e, o.Need, o.By)
	})
	if err != nil {
		return nil, err
	}
	kept := (o.Keep || e.Policy.Keep) && !e.Flags.Has(job.FlagEphemeral)
	r.ended[e.ID] = kept
	// Its room in the queue is free for a push that follows. A tombstone keeps it.
	if !kept && !leavesSlot(e) {
		r.left[e.q]++
	}
	k := [2]string{e.Namespace, e.Lock}
	if _, known := r.locks[k]; !known && e.Lock != "" && e.LockUntil == job.LockUntilAck {
		// Unless a push before has taken it: then it had lapsed.
		if l, ok := r.m.getLock(e.Namespace, e.Lock); ok && l.Taker == e.ID {
			r.locks[k] = false
		}
	}
	return e, nil
}

// state returns the state that a job would be in by now. An ended blocker sets a blocked job free.
func (r *rehearsal) state(e *entry) job.State {
	if r.ended[e.ID] {
		return job.Done
	}
	if e.State != job.Blocked {
		return e.State
	}
	for _, id := range e.Blockers {
		if _, ended := r.ended[id]; !ended {
			return job.Blocked
		}
	}
	if e.RunAt > r.m.now {
		return job.Scheduled
	}
	return job.Ready
}

// delete rehearses a delete, like ack.
func (r *rehearsal) delete(o *job.Delete) (*entry, *job.Error) {
	e, err := r.m.lookupBy(&o.Ref, o.By, o.Need, func(e *entry) *job.Error {
		kept, ended := r.ended[e.ID]
		switch {
		case ended && (!kept || isByHolder(&o.Ref, e)):
			return job.ErrNotFound
		case !o.In.Allow(r.state(e)):
			return job.ErrBadState
		case ended && o.Need == job.NeedUnfinished:
			return job.ErrFinished
		case ended && (o.Need == job.NeedAny || o.Need == job.NeedFree): // nobody holds it
			return nil
		case ended:
			return job.ErrNotLeased
		}
		return checkNeed(e, o.Need, o.By)
	})
	if err != nil {
		return nil, err
	}
	r.ended[e.ID] = false
	if !leavesSlot(e) {
		r.left[e.q]++
	}
	return e, nil
}

// isByHolder reports whether a reference names a job only as long as the caller holds it: after an ack
// of the same job it would find nothing.
func isByHolder(ref *job.Ref, e *entry) bool {
	alone := ref.Kind == job.RefNumber || (ref.Kind == job.RefID && ref.Queue == "")
	return alone && !e.Flags.Has(job.FlagNumbered)
}

// push rehearses a push. Its checks are those of Machine.push in the same order, with what the
// operations before have taken and freed.
func (r *rehearsal) push(c *job.Push) *job.Error {
	if err := checkPast(c); err != nil {
		return err
	}
	s := &c.Spec
	for _, b := range s.BlockedBy {
		if b.Back > r.pushes || b.Back < 0 {
			return &job.Error{Kind: job.Invalid, Text: "blocked by a push that is not there"}
		}
	}
	if r.blockers += len(s.BlockedBy); r.blockers > atomicBlockers {
		return job.ErrManyBlockers
	}
	if s.Key != "" {
		k := [2]string{s.Namespace, s.Key}
		if _, twice := r.keys[k]; s.Unique && (twice || r.keyInUse(s)) {
			return job.ErrDuplicate
		}
		r.keys[k] = struct{}{}
	}
	if err := r.lock(c); err != nil {
		return err
	}
	name := [2]string{s.Namespace, s.Queue}
	if q := r.m.findQueue(s.Namespace, s.Queue); q != nil && q.Settings.Capacity > 0 &&
		q.usedCapacity()-r.left[q]+r.into[name] >= q.Settings.Capacity {
		return job.ErrFull
	}
	r.into[name]++
	r.pushes++
	return nil
}

// lock rehearses the taking of a lock, and notes whether it would be held for longer than this
// moment.
func (r *rehearsal) lock(c *job.Push) *job.Error {
	s := &c.Spec
	if s.Lock == "" {
		return nil
	}
	k := [2]string{s.Namespace, s.Lock}
	taken, known := r.locks[k]
	if taken || (!known && r.m.isLocked(s.Namespace, s.Lock)) {
		return job.ErrLocked
	}
	at := s.RunAt
	if s.Delay > 0 {
		at = r.m.now.Add(s.Delay)
	}
	// The same times as setTimes and takeLock will set, which have not run yet.
	until := max(r.m.now, at).Add(s.LockFor)
	if c.Past != nil {
		until = c.Past.LockedUntil
	}
	r.locks[k] = until > r.m.now
	return nil
}

// keyInUse reports whether a key is in use by a job that no operation before has removed.
func (r *rehearsal) keyInUse(s *job.Spec) (used bool) {
	r.m.eachWithKey(s.Namespace, s.Key, func(e *entry) bool {
		kept, ended := r.ended[e.ID]
		used = !ended || kept
		return !used
	})
	return used
}

// blockers returns the live jobs among those that a spec names, ascending and each once. A blocker
// that is gone or finished blocks nothing (section 6), so that it is left out here and never waited
// for.
func (m *Machine) blockers(s *job.Spec, earlier []*entry) []*entry {
	if len(s.BlockedBy) == 0 {
		return nil
	}
	var es []*entry
	for _, b := range s.BlockedBy {
		var e *entry
		switch {
		case b.Back > 0 && b.Back <= len(earlier):
			e = m.reload(earlier[len(earlier)-b.Back])
		case b.Back > 0:
			continue
		case b.Number != 0:
			e = m.byNumber(s.Namespace, b.Number, job.Holder{})
		default:
			e = m.loadRef(record.JobRef{Queue: record.QueueID(b.QueueNum), ID: b.ID})
		}
		if e != nil && e.q.namespace == s.Namespace && !e.State.Finished() && !e.Flags.Has(job.FlagTombstone) {
			es = append(es, e)
		}
	}
	slices.SortFunc(es, func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(es, func(a, b *entry) bool { return a.ID == b.ID })
}

// reload returns the job as it is now; nil if it is gone. A job pushed earlier in the same Atomic
// may have expired at once, been given to a caller, or been moved.
func (m *Machine) reload(e *entry) *entry {
	return m.loadRef(record.JobRef{Queue: e.q.ID, ID: e.ID})
}
