package machine

import (
	"bytes"
	"fmt"
	"time"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
	"millrace/internal/schedule"
)

// A schedule pushes a job at each of its ticks. It is read, changed and written back each time; in memory is only the
// timer of the next tick. That tick, the job and what is known of the last one change in one transition, so that no
// crash repeats a tick or loses one (INV-17).

// ticker is a schedule as it was read: a copy, like batch.
type ticker struct {
	record.Schedule
	id job.BatchID
}

const (
	// lateAfter is how late a tick may be dealt with that came while the machine ran: later ones count as missed,
	// because the clock has been put forward or the process was stopped.
	lateAfter = time.Minute
	// missedCounted is up to how many missed ticks are counted one by one.
	missedCounted = 1000
)

// readTicker returns a schedule by its number, nil if there is none.
func (m *Machine) readTicker(id job.BatchID) *ticker {
	m.keyBuf = record.ScheduleKey(m.keyBuf[:0], id, record.BatchState)
	p, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = p[:0]
	if !ok {
		return nil
	}
	s, err := record.DecodeSchedule(p)
	corrupt("schedule", err)
	return &ticker{s, id}
}

// tickerNamed returns a schedule by its name, nil if there is none.
func (m *Machine) tickerNamed(namespace, name string) *ticker {
	m.keyBuf = record.ScheduleNameKey(m.keyBuf[:0], namespace, name)
	p, _, ok := m.store.Get(m.readBuf[:0], m.keyBuf)
	m.readBuf = p[:0]
	if !ok {
		return nil
	}
	id, err := record.DecodeUint(p)
	corrupt("name of a schedule", err)
	s := m.readTicker(job.BatchID(id))
	if s == nil {
		corrupt("name of a schedule", errDangling)
	}
	return s
}

// putTicker writes what changes of a schedule. What was set has a record of its own.
func (m *Machine) putTicker(s *ticker) {
	m.keyBuf = record.ScheduleKey(m.keyBuf[:0], s.id, record.BatchState)
	m.valueBuf = record.AppendSchedule(m.valueBuf[:0], &s.Schedule)
	m.set(m.keyBuf, m.valueBuf)
}

// tickerDef returns what is set of a schedule, and how that is stored: two entries are the same if
// they are stored alike.
func (m *Machine) tickerDef(id job.BatchID) (job.Schedule, []byte) {
	p, _, ok := m.store.Get(nil, record.ScheduleKey(nil, id, record.BatchFixed))
	if !ok {
		corrupt("schedule definition", errDangling)
	}
	def, err := record.DecodeScheduleDef(p)
	corrupt("schedule definition", err)
	return def, p
}

// timer is when the schedule is looked at: like that of a batch, with the queue number zero.
func (s *ticker) timer() timerItem { return timerItem{at: s.Next, id: job.ID(s.id)} }

// tickAt sets when the schedule ticks next; zero is never. The caller writes the schedule, in the
// same step as the timer (INV-17).
func (m *Machine) tickAt(s *ticker, next job.Time) {
	m.unsetTimerAt(s.timer())
	s.Next = next
	m.setTimerAt(s.timer())
}

// after returns the first tick after a time, zero if there is none.
func after(when schedule.Schedule, t job.Time) job.Time {
	next, ok := when.Next(t.Std())
	return nextTick(next, ok)
}

// nextTick returns a time as the package schedule has it as one of the machine.
func nextTick(t time.Time, ok bool) job.Time {
	if !ok {
		return 0
	}
	return job.TimeOf(t)
}

// parseWhen reads the schedule of an entry that has been checked. If the time zone database has
// lost a zone since, the entry never ticks: that is no reason to stop the server.
func parseWhen(def *job.Schedule) schedule.Schedule {
	when, err := schedule.Parse(def.When, def.Zone)
	if err != nil {
		return schedule.Schedule{}
	}
	return when
}

// setSchedules sets entries, all or none: checkSchedules looks at all of them before the first is
// changed.
func (m *Machine) setSchedules(c *job.SetSchedules, res *job.Result) {
	defs, err := m.checkSchedules(c)
	if err != nil {
		res.Err = err
		return
	}
	if c.Replace {
		res.Count = m.dropOthers(c)
	}
	for i := range c.Entries {
		if m.setSchedule(&c.Entries[i], c.Source, defs[i]) {
			res.Count++
		}
	}
}

// checkSchedules returns how the entries are stored, or the first refusal with its index. An Atomic
// calls it as well.
func (m *Machine) checkSchedules(c *job.SetSchedules) ([][]byte, *job.Error) {
	total := m.countSchedules(c)
	defs := make([][]byte, len(c.Entries))
	names := make(map[[2]string]bool, len(c.Entries))
	for i := range c.Entries {
		def := c.Entries[i]
		def.Source, def.Job.Namespace = c.Source, def.Namespace
		defs[i] = record.AppendScheduleDef(nil, &def)
		name := [2]string{def.Namespace, def.Name}
		s := m.tickerNamed(def.Namespace, def.Name)
		err := checkSchedule(&def, len(defs[i]))
		switch {
		case err != nil:
		case names[name]:
			err = &job.Error{Kind: job.Invalid, Text: fmt.Sprintf("schedule %q is given twice", def.Name)}
		case s != nil && s.Source == job.SourceFile && c.Source != job.SourceFile:
			err = job.ErrOfFile
		case s != nil && def.Past != nil:
			err = &job.Error{Kind: job.Exists, Text: fmt.Sprintf("there is a schedule %q already", def.Name)}
		// The limit counts what there will be in the end.
		case s == nil || c.Replace && s.Source == c.Source:
			total++ // countSchedules has left it out
		}
		if err == nil && total > job.MaxSchedules {
			err = &job.Error{Kind: job.TooLarge, Text: fmt.Sprintf("there are at most %d schedules", job.MaxSchedules)}
		}
		if err != nil {
			return nil, &job.Error{Kind: err.Kind, Text: err.Text, Index: i}
		}
		names[name] = true
	}
	return defs, nil
}

// checkSchedule says why an entry is refused; nil if it is not.
func checkSchedule(def *job.Schedule, size int) *job.Error {
	var text string
	_, err := schedule.Parse(def.When, def.Zone)
	switch {
	case def.Name == "" || len(def.Name) > job.MaxScheduleName:
		text = fmt.Sprintf("the name of a schedule has 1 to %d bytes", job.MaxScheduleName)
	case err != nil:
		text = err.Error()
	case def.Job.Queue == "":
		text = "a schedule needs a queue"
	case def.Job.Batch != 0 || len(def.Job.BlockedBy) > 0 || def.Job.RunAt != 0:
		text = "the job of a schedule has no batch, no blockers and no time of its own"
	case def.Missed == job.MissedAll && (def.MissedMax == 0 || def.MissedMax > job.MaxMissed):
		text = fmt.Sprintf("the limit of missed runs is 1 to %d", job.MaxMissed)
	case def.Past != nil && !def.Past.Possible():
		text = "no schedule can have such a past"
	case size > job.MaxScheduleBytes:
		text = fmt.Sprintf("a schedule with its job has at most %d bytes", job.MaxScheduleBytes)
		return &job.Error{Kind: job.TooLarge, Text: text}
	default:
		return nil
	}
	return &job.Error{Kind: job.Invalid, Text: text}
}

// countSchedules returns how many entries there are that a command leaves alone. With Replace those
// of its source go, or are counted one by one as they are set again.
func (m *Machine) countSchedules(c *job.SetSchedules) (n int) {
	for _, s := range m.tickers() {
		if !c.Replace || s.Source != c.Source {
			n++
		}
	}
	return n
}

// tickers returns all schedules. There are at most job.MaxSchedules, which bounds the step.
func (m *Machine) tickers() []*ticker {
	var all []*ticker
	lo, hi := record.AllSchedules()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		id, part, ok := record.ParseScheduleKey(key)
		if !ok {
			corrupt("key of a schedule", record.ErrFormat)
		}
		if part == record.BatchState {
			s, err := record.DecodeSchedule(value)
			corrupt("schedule", err)
			all = append(all, &ticker{s, id})
		}
		return true
	})
	return all
}

// dropOthers removes the entries of a source that a command does not name.
func (m *Machine) dropOthers(c *job.SetSchedules) (dropped int) {
	named := make(map[[2]string]bool, len(c.Entries))
	for i := range c.Entries {
		named[[2]string{c.Entries[i].Namespace, c.Entries[i].Name}] = true
	}
	for _, s := range m.tickers() {
		if s.Source == c.Source && !named[[2]string{s.Namespace, s.Name}] {
			m.removeTicker(s)
			dropped++
		}
	}
	return dropped
}

// setSchedule sets an entry and reports whether that changes anything. One whose text and zone are
// as before goes on with its next tick, also if that has been missed: a file that is read again at
// every start must not lose the ticks of the time in which the server was down.
func (m *Machine) setSchedule(def *job.Schedule, source job.Source, stored []byte) (changed bool) {
	s := m.tickerNamed(def.Namespace, def.Name)
	again := s == nil
	if s == nil {
		s = &ticker{id: job.BatchID(m.nextID(false))}
		s.Namespace, s.Name, s.Created, s.Paused = def.Namespace, def.Name, m.now, def.Paused
		m.setPast(s, def.Past)
		m.valueBuf = record.AppendUint(m.valueBuf[:0], uint64(s.id))
		m.set(record.ScheduleNameKey(nil, s.Namespace, s.Name), m.valueBuf)
	} else {
		old, was := m.tickerDef(s.id)
		if bytes.Equal(was, stored) {
			return false
		}
		// Paused is how an entry begins. An operator may have changed it since, and a file that
		// still says the same does not undo that.
		if old.Paused != def.Paused {
			again, s.Paused = again || s.Paused != def.Paused, def.Paused
		}
		again = again || old.When != def.When || old.Zone != def.Zone
	}
	s.Source = source
	m.set(record.ScheduleKey(nil, s.id, record.BatchFixed), stored)
	if again {
		m.scheduleNext(s, def)
	}
	m.putTicker(s)
	return true
}

// setPast gives a new schedule the past that it has elsewhere. It is paused until its jobs are
// here, because its rules ask for the last one (Overlap). The numbers of the jobs were those of
// another server.
func (m *Machine) setPast(s *ticker, p *job.SchedulePast) {
	if p == nil {
		return
	}
	s.Paused, s.Created, s.LastTick, s.LastAt = true, m.clampPast(p.Created), p.LastTick, p.LastAt
	s.Pushed, s.Missed, s.Skipped = p.Pushed, p.Missed, p.Skipped
	for _, r := range p.Runs {
		r.Job = 0
		s.Runs = append(s.Runs, r)
	}
}

// endImport ends the runs of a schedule with a past whose jobs have not come with it, and has it
// tick again, from the tick that the other server would have had next if that is still ahead of
// what was dealt with.
func (m *Machine) endImport(s *ticker, c *job.PauseSchedule) {
	for i := range s.Runs {
		r := &s.Runs[i]
		pushed := r.Kind == job.RunPushed || r.Kind == job.RunByHand
		if pushed && r.Job == 0 && r.Outcome == job.Alive {
			r.Outcome, r.Ended = job.Removed, m.now
		}
	}
	if !s.Paused || c.Paused {
		return
	}
	if s.Paused = false; c.Next > s.LastTick {
		m.tickAt(s, c.Next)
		return
	}
	def, _ := m.tickerDef(s.id)
	m.scheduleNext(s, &def)
}

// scheduleNext sets the next tick from now on, or none while it is paused. It is later than the
// last tick that had a job, wherever the clock has been put meanwhile (INV-17).
func (m *Machine) scheduleNext(s *ticker, def *job.Schedule) {
	s.Behind = 0
	if s.Paused {
		m.tickAt(s, 0)
		return
	}
	m.tickAt(s, after(parseWhen(def), max(m.now, s.LastTick)))
}

// dropSchedule removes a schedule. One that a file has set is the file's to remove.
func (m *Machine) dropSchedule(c *job.DropSchedule, res *job.Result) {
	s := m.tickerNamed(c.Namespace, c.Name)
	switch {
	case s == nil:
		res.Err = job.ErrNoSchedule
	case s.Source == job.SourceFile && c.Source != job.SourceFile:
		res.Err = job.ErrOfFile
	default:
		m.removeTicker(s)
	}
}

// removeTicker removes the records of a schedule. Its jobs go on naming its number, which means
// nothing.
func (m *Machine) removeTicker(s *ticker) {
	m.tickAt(s, 0)
	m.del(record.ScheduleKey(nil, s.id, record.BatchState))
	m.del(record.ScheduleKey(nil, s.id, record.BatchFixed))
	m.del(record.ScheduleNameKey(nil, s.Namespace, s.Name))
}

// pauseSchedule stops the ticks, or lets them go on from now. With Rest it ends an import instead.
func (m *Machine) pauseSchedule(c *job.PauseSchedule, res *job.Result) {
	s := m.tickerNamed(c.Namespace, c.Name)
	switch {
	case s == nil:
		res.Err = job.ErrNoSchedule
	case c.Rest:
		m.endImport(s, c)
		m.putTicker(s)
	case s.Paused != c.Paused:
		s.Paused = c.Paused
		def, _ := m.tickerDef(s.id)
		m.scheduleNext(s, &def)
		m.putTicker(s)
		res.Count = 1
	}
}

// runSchedule pushes the job of a schedule now. The next tick stays as it is.
func (m *Machine) runSchedule(c *job.RunSchedule, res *job.Result) {
	s := m.tickerNamed(c.Namespace, c.Name)
	if s == nil {
		res.Err = job.ErrNoSchedule
		return
	}
	def, _ := m.tickerDef(s.id)
	m.flushFor(&def.Job)
	if err := m.checkPush(&def.Job); err != nil {
		res.Err = err
		return
	}
	m.accept(m.pushTick(s, &def, job.ScheduleRun{Kind: job.RunByHand, Tick: m.now, Count: 1}), res)
}

// fireTicker deals with the tick of a schedule whose time has come (section 14). The next tick is
// set before anything is pushed, and written in the same step: no crash repeats a tick. A tick that
// was missed takes all others up to now with it, unless MissedAll wants a job for each.
func (m *Machine) fireTicker(t timerItem) {
	s := m.readTicker(job.BatchID(t.id))
	if s == nil || s.timer() != t {
		return // the timer was moved, or called off
	}
	def, _ := m.tickerDef(s.id)
	when, tick := parseWhen(&def), s.Next
	// One run, unless several missed ticks are taken together.
	run := job.ScheduleRun{Kind: job.RunPushed, Tick: tick, Count: 1}
	// Two reasons for having missed a tick: nobody was there, or the process was stopped or its
	// clock put forward.
	missed := tick < m.started || m.now.Sub(tick) > lateAfter
	if !missed || def.Missed == job.MissedAll && s.Behind < def.MissedMax {
		// Behind counts the missed ticks in a row that have had a job of their own.
		if s.Behind++; !missed {
			s.Behind = 0
		}
		m.tickAt(s, after(when, tick))
		m.tick(s, &def, run)
		return
	}
	// A schedule that ticks every second may have missed millions: counting stops at missedCounted.
	n, next, ok := when.Count(tick.Std(), m.now.Std(), missedCounted)
	m.tickAt(s, plant.Or(nextTick(next, ok), plant.TickTwice, m.now.Add(time.Second)))
	s.Behind = 0
	run.Count = max(n, 1)
	if def.Missed == job.MissedOnce {
		s.Missed += run.Count - 1
		m.tick(s, &def, run)
		return
	}
	s.Missed += run.Count
	run.Kind = job.RunMissed
	m.noteRun(s, run)
	m.putTicker(s)
}

// tick pushes the job of a schedule, unless the last one is still running, or a push would be
// refused. That is remembered as a run without a job, because there is nobody to tell.
func (m *Machine) tick(s *ticker, def *job.Schedule, run job.ScheduleRun) {
	// Checked first: that is the reason which is remembered, also if the push would be refused.
	if def.Overlap == job.OverlapSkip && s.Running != 0 {
		run.Kind = job.RunOverlapped
	} else {
		m.flushFor(&def.Job)
		if err := m.checkPush(&def.Job); err != nil {
			run.Kind, run.Refused = job.RunRefused, err.Kind
		}
	}
	if run.Kind != job.RunPushed {
		s.Skipped++
		m.noteRun(s, run)
		m.putTicker(s)
		return
	}
	// Only ticks with a job count: the next tick may not be at or before one of them (INV-17).
	s.LastTick = run.Tick
	m.pushTick(s, def, run)
}

// pushTick pushes the job of a schedule. The schedule is written first: the job may end at once,
// and noteTickEnd would read a schedule that does not know it yet.
func (m *Machine) pushTick(s *ticker, def *job.Schedule, run job.ScheduleRun) *entry {
	e := m.prepare(&def.Job)
	e.Batch = s.id
	e.Flags |= job.FlagTick
	s.Pushed++
	s.LastAt, s.Running, run.Job = m.now, e.ID, e.ID
	m.noteRun(s, run)
	m.putTicker(s)
	if def.Job.Lock != "" {
		m.takeLock(e, &def.Job)
	}
	m.storeNewJob(e, &def.Job, nil)
	return e
}

// noteRun remembers what became of a tick, for people. Ticks that had no job, one after the other
// for the same reason, are one run, so that a long outage does not push all others out of the list.
func (m *Machine) noteRun(s *ticker, run job.ScheduleRun) {
	run.At = m.now
	if n := len(s.Runs); n > 0 && run.Job == 0 {
		if last := &s.Runs[n-1]; last.Kind == run.Kind && last.Refused == run.Refused {
			last.At, last.Count = run.At, last.Count+run.Count
			return
		}
	}
	s.Runs = append(s.Runs, run)
	s.Runs = s.Runs[max(0, len(s.Runs)-job.ScheduleRuns):]
}

// noteTickEnd remembers how a job of a schedule has ended, and that it is not running any more. The
// first end counts, unless the job died and succeeds later.
func (m *Machine) noteTickEnd(e *entry, how job.Outcome) {
	if !e.Flags.Has(job.FlagTick) {
		return
	}
	s := m.readTicker(e.Batch)
	if s == nil {
		return // it was removed
	}
	changed := s.Running == e.ID
	if changed {
		s.Running = 0
	}
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Job == e.ID && (r.Outcome == job.Alive || r.Outcome == job.Died && how == job.Succeeded) {
			r.Outcome, r.Ended = how, m.now
			changed = true
		}
	}
	if changed {
		m.putTicker(s)
	}
}
