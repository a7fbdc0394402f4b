package machine

import (
	"millrace/internal/job"
	"millrace/internal/record"
)

// checkTickers asserts that schedules are found by their names, wait for a tick that they have not dealt with, and know
// of their jobs (INV-17).
func (c *checker) checkTickers() error {
	running := map[job.ID]job.BatchID{}
	all := c.tickers()
	for _, s := range all {
		if err := c.checkTicker(s); err != nil {
			return err
		}
		if s.Running != 0 {
			running[s.Running] = s.id
		}
	}
	lo, hi := record.ScheduleNames("")
	names := 0
	c.store.Scan(lo, hi, false, func(_, _ []byte) bool {
		names++
		return true
	})
	if names != len(all) {
		return broken(17, "%d schedules have %d names", len(all), names)
	}
	// Only now are all jobs read, and only if a schedule waits for one.
	if len(running) == 0 {
		return nil
	}
	err := c.walkAll(func(s *storedJob) error {
		if s.Flags.Has(job.FlagTick) && running[s.ID] == s.Batch {
			delete(running, s.ID)
		}
		return nil
	})
	for id, of := range running {
		return broken(17, "schedule %d waits for job %d, which is gone or not its own", of, id)
	}
	return err
}

// checkTicker asserts what holds of one schedule: a tick has at most one job, and the next one,
// which has a timer, is later than all that were dealt with.
func (c *checker) checkTicker(s *ticker) error {
	if named := c.tickerNamed(s.Namespace, s.Name); named == nil || named.id != s.id {
		return broken(17, "schedule %d is not found by its name %q", s.id, s.Name)
	}
	def, _ := c.tickerDef(s.id)
	last := job.Time(0)
	// Runs by hand and runs without a job have no order of their own.
	for _, r := range s.Runs {
		if r.Kind == job.RunPushed && r.Tick <= last {
			return broken(17, "schedule %d has pushed a job for %d after one for %d", s.id, r.Tick, last)
		}
		if r.Kind == job.RunPushed {
			last = r.Tick
		}
	}
	switch {
	case def.Namespace != s.Namespace || def.Name != s.Name || def.Source != s.Source:
		return broken(17, "schedule %d is set as that of another", s.id)
	case last > s.LastTick || s.Next != 0 && s.Next <= s.LastTick:
		return broken(17, "schedule %d waits for %d and has dealt with %d and %d", s.id, s.Next, s.LastTick, last)
	case s.Paused && s.Next != 0:
		return broken(17, "schedule %d is paused and waits for %d", s.id, s.Next)
	case s.Next == 0:
		return nil
	}
	c.timed++
	if _, _, ok := c.store.Get(nil, record.TimerKey(nil, s.Next, 0, job.ID(s.id))); !ok {
		return broken(17, "schedule %d has no timer at %d", s.id, s.Next)
	}
	return c.checkTimerLoaded(s.timer())
}
