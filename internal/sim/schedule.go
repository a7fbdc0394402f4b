package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/job"
	"millrace/internal/schedule"
)

// ticking is a schedule with all that became of its ticks.
type ticking struct {
	def     job.Schedule
	when    schedule.Schedule
	id      job.BatchID
	created job.Time
	paused  bool
	next    job.Time // zero: never
	behind  uint32   // missed ticks that were made up for, since the last that was not missed

	lastTick, lastAt        job.Time
	pushed, missed, skipped uint64
	running                 job.ID
	runs                    []job.ScheduleRun
}

// after returns the first tick after a time, zero if there is none.
func (s *ticking) after(t job.Time) job.Time {
	next, ok := s.when.Next(t.Std())
	if !ok {
		return 0
	}
	return job.TimeOf(next)
}

func (m *Model) schedule(ns, name string) *ticking {
	for _, s := range m.schedules {
		if s.def.Namespace == ns && s.def.Name == name {
			return s
		}
	}
	return nil
}

func (m *Model) applySetSchedules(c *job.SetSchedules) {
	left := len(m.schedules)
	for _, s := range m.schedules {
		if c.Replace && s.def.Source == c.Source {
			left--
		}
	}
	for i := range c.Entries {
		d := &c.Entries[i]
		s := m.schedule(d.Namespace, d.Name)
		if s == nil || c.Replace && s.def.Source == c.Source {
			left++
		}
		twice := slices.ContainsFunc(c.Entries[:i],
			func(o job.Schedule) bool { return o.Namespace == d.Namespace && o.Name == d.Name })
		_, err := schedule.Parse(d.When, d.Zone)
		kind := job.Kind(0)
		switch {
		case d.Name == "" || len(d.Name) > 200 || err != nil || d.Job.Queue == "" || twice:
			kind = job.Invalid
		case d.Job.Batch != 0 || len(d.Job.BlockedBy) > 0 || d.Job.RunAt != 0:
			kind = job.Invalid
		case d.Past != nil && !d.Past.Possible():
			kind = job.Invalid
		case d.Missed == job.MissedAll && (d.MissedMax == 0 || d.MissedMax > 1000):
			kind = job.Invalid
		case s != nil && s.def.Source == job.SourceFile && c.Source == job.SourceAPI:
			kind = job.Exists
		case s != nil && d.Past != nil:
			kind = job.Exists
		case left > 2000:
			kind = job.TooLarge
		}
		if kind != 0 {
			m.refuse(&job.Error{Kind: kind, Index: i})
			return
		}
	}
	m.answerCount(m.setSchedules(c))
}

// setSchedules sets entries that nothing stands against, and returns how many it has changed.
func (m *Model) setSchedules(c *job.SetSchedules) (changed int) {
	m.schedules = slices.DeleteFunc(m.schedules, func(s *ticking) bool {
		drop := c.Replace && s.def.Source == c.Source && !slices.ContainsFunc(c.Entries, func(d job.Schedule) bool {
			return d.Namespace == s.def.Namespace && d.Name == s.def.Name
		})
		if drop {
			changed++
		}
		return drop
	})
	for i := range c.Entries {
		d := c.Entries[i]
		d.Source, d.Job.Namespace = c.Source, d.Namespace
		s := m.schedule(d.Namespace, d.Name)
		if s == nil {
			m.lastID++
			s = &ticking{id: job.BatchID(m.lastID), created: m.now, paused: d.Paused}
			s.goOn(d.Past, m.now)
			d.Past = nil
			s.def = d
			s.begin(m.now)
			m.schedules = append(m.schedules, s)
			changed++
			continue
		}
		if Text(s.def) == Text(d) {
			continue
		}
		changed++
		again := s.def.When != d.When || s.def.Zone != d.Zone
		if s.def.Paused != d.Paused && s.paused != d.Paused {
			s.paused, again = d.Paused, true
		}
		if s.def = d; again {
			s.begin(m.now)
		}
	}
	return changed
}

// goOn gives a new schedule its past.
func (s *ticking) goOn(p *job.SchedulePast, now job.Time) {
	if p == nil {
		return
	}
	if p.Created > 0 && p.Created < now {
		s.created = p.Created
	}
	s.paused, s.lastTick, s.lastAt, s.pushed, s.missed, s.skipped = true, p.LastTick, p.LastAt, p.Pushed,
		p.Missed, p.Skipped
	s.runs = slices.Clone(p.Runs)
	for i := range s.runs {
		s.runs[i].Job = 0
	}
}

// begin has a schedule wait for the first tick from now on.
func (s *ticking) begin(now job.Time) {
	s.behind, s.next = 0, 0
	s.when, _ = schedule.Parse(s.def.When, s.def.Zone) // it has been checked
	if !s.paused {
		s.next = s.after(max(now, s.lastTick))
	}
}

func (m *Model) applyDropSchedule(c *job.DropSchedule) {
	s := m.schedule(c.Namespace, c.Name)
	switch {
	case s == nil:
		m.refuse(job.ErrNoSchedule)
	case s.def.Source == job.SourceFile && c.Source == job.SourceAPI:
		m.refuse(job.ErrOfFile)
	default:
		m.schedules = slices.DeleteFunc(m.schedules, func(o *ticking) bool { return o == s })
		m.answer(job.Result{})
	}
}

func (m *Model) applyPauseSchedule(c *job.PauseSchedule) {
	s := m.schedule(c.Namespace, c.Name)
	switch {
	case s == nil:
		m.refuse(job.ErrNoSchedule)
	case c.Rest:
		for i := range s.runs {
			if r := &s.runs[i]; r.Kind <= job.RunByHand && r.Job == 0 && r.Outcome == job.Alive {
				r.Outcome, r.Ended = job.Removed, m.now
			}
		}
		if s.paused && !c.Paused {
			s.paused = false
			if s.begin(m.now); c.Next > s.lastTick {
				s.next = c.Next
			}
		}
		m.answerCount(0)
	case s.paused == c.Paused:
		m.answerCount(0)
	default:
		s.paused = c.Paused
		s.begin(m.now)
		m.answerCount(1)
	}
}

func (m *Model) applyRunSchedule(c *job.RunSchedule) {
	s := m.schedule(c.Namespace, c.Name)
	if s == nil {
		m.refuse(job.ErrNoSchedule)
		return
	}
	m.answer(m.pushTick(s, job.ScheduleRun{Kind: job.RunByHand, Tick: m.now, Count: 1}))
}

// fireSchedule deals with a tick.
func (m *Model) fireSchedule(s *ticking) {
	run := job.ScheduleRun{Kind: job.RunPushed, Tick: s.next, Count: 1}
	late := s.next < m.started || m.now.Sub(s.next) > time.Minute
	if !late {
		s.behind = 0
		s.next = s.after(s.next)
		m.tick(s, run)
		return
	}
	if s.def.Missed == job.MissedAll && s.behind < s.def.MissedMax {
		s.behind++
		s.next = s.after(s.next)
		m.tick(s, run)
		return
	}
	run.Count, s.behind = 0, 0
	for s.next != 0 && s.next <= m.now {
		if run.Count < 1000 {
			run.Count++
		}
		s.next = s.after(s.next)
	}
	if s.def.Missed == job.MissedOnce {
		s.missed += run.Count - 1
		m.tick(s, run)
		return
	}
	s.missed += run.Count
	run.Kind = job.RunMissed
	s.note(run, m.now)
}

// tick pushes the job of a tick unless something stands against it.
func (m *Model) tick(s *ticking, run job.ScheduleRun) {
	if s.def.Overlap == job.OverlapSkip && s.running != 0 {
		s.skipped++
		run.Kind = job.RunOverlapped
		s.note(run, m.now)
		return
	}
	if r := m.pushTick(s, run); r.Err != nil {
		s.skipped++
		run.Kind, run.Refused = job.RunRefused, r.Err.Kind
		s.note(run, m.now)
	}
}

func (m *Model) pushTick(s *ticking, run job.ScheduleRun) job.Result {
	m.flushBefore(queueName{s.def.Namespace, s.def.Job.Queue})
	m.entrants = m.countEntrants()
	spec := s.def.Job
	spec.Trace = ""
	r, _ := m.push(&job.Push{Spec: spec}, nil, func(j *entry) {
		j.Batch = s.id
		j.Flags |= job.FlagTick
		s.pushed++
		s.lastAt, s.running, run.Job = m.now, j.ID, j.ID
		if run.Kind == job.RunPushed {
			s.lastTick = run.Tick
		}
		s.note(run, m.now)
	})
	return r
}

// note remembers a run: what had no job joins the run before, if that is alike.
func (s *ticking) note(run job.ScheduleRun, now job.Time) {
	run.At = now
	if n := len(s.runs) - 1; n >= 0 && run.Job == 0 && s.runs[n].Kind == run.Kind && s.runs[n].Refused == run.Refused {
		s.runs[n].At, s.runs[n].Count = now, s.runs[n].Count+run.Count
		return
	}
	if s.runs = append(s.runs, run); len(s.runs) > 20 {
		s.runs = s.runs[1:]
	}
}

// tickEnds tells the schedule of a job how the job has ended.
func (m *Model) tickEnds(id job.ID, how job.Outcome) {
	for _, s := range m.schedules {
		if s.running == id {
			s.running = 0
		}
		for i := range s.runs {
			r := &s.runs[i]
			if r.Job == id && (r.Outcome == job.Alive || r.Outcome == job.Died && how == job.Succeeded) {
				r.Outcome, r.Ended = how, m.now
			}
		}
	}
}

// ScheduleInfos returns the schedules, by id, without their jobs.
func (m *Model) ScheduleInfos() []job.ScheduleInfo {
	var out []job.ScheduleInfo
	for _, s := range m.schedules {
		out = append(out, job.ScheduleInfo{
			Schedule: s.def, ID: s.id, Created: s.created, Stopped: s.paused, Next: s.next, LastTick: s.lastTick,
			LastAt: s.lastAt,
			Pushed: s.pushed, MissedAny: s.missed, Skipped: s.skipped, Running: s.running, Runs: slices.Clone(s.runs),
		})
	}
	slices.SortFunc(out, func(a, b job.ScheduleInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// dumpSchedules appends a line for each schedule. Its jobs are compared when they are there.
func (v View) dumpSchedules(lines []string) []string {
	for i := range v.Schedules {
		info := v.Schedules[i]
		info.Job = job.Spec{}
		lines = append(lines, fmt.Sprintf("schedule %d %s", info.ID, strings.ReplaceAll(Text(info), "\n", " ")))
	}
	return lines
}

// checkSchedules asserts INV-17: no tick has two jobs.
func (m *Model) checkSchedules() error {
	for _, s := range m.schedules {
		if s.next != 0 && s.next <= s.lastTick {
			return fmt.Errorf("INV-17: schedule %d waits for %d again", s.id, s.next)
		}
		if j := m.jobs[s.running]; s.running != 0 && (j == nil || j.Batch != s.id) &&
			!slices.Contains(m.swept, s.running) {
			return fmt.Errorf("INV-17: schedule %d waits for job %d, which is gone", s.id, s.running)
		}
	}
	return nil
}
