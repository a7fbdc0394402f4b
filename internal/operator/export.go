package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	exportChunk = 500
	// exportFor bounds how long one answer goes on: so long it keeps the space of what is deleted meanwhile.
	exportFor = 2 * time.Minute
)

// Export writes what fits a filter as JSON lines, as it all was at one moment, until ctx ends or the server stops. An
// answer that would take too long ends with a cursor instead: what follows is as of a later moment.
//
// Without a filter, or with that of a namespace, it is everything that an import needs to make the same again: settings
// and hooks of queues, batches and cron entries come before the jobs, and jobs that wait for others come last, in order
// of their ids, so that each comes behind those that it waits for. With the filter of a queue it is the settings and
// the jobs of the queue, with any other only jobs.
func (s *Service) Export(ctx context.Context, f api.Filter, cursor string, write func(lines []byte) error) error {
	m, err := newMatcher(f)
	if err != nil {
		return err
	}
	if m.Ref != "" {
		return api.Invalid("ref: an export has no such filter")
	}
	at, err := parseCursor(cursor, "export", fingerprint(f))
	if err != nil {
		return err
	}
	if cursor == "" {
		at.Phase = phaseQueues
	}
	began := time.Now()
	return s.view(func(v *engine.View) error {
		e := export{s: s, match: m, at: at, view: v, write: write}
		e.enc = json.NewEncoder(&e.lines)
		e.enc.SetEscapeHTML(false)
		for {
			done, err := e.chunk()
			if err != nil || done {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-s.drained:
				return nil
			default:
			}
			if time.Since(began) > exportFor {
				return nil
			}
		}
	})
}

// export is an export in progress.
type export struct {
	s     *Service
	view  *engine.View
	match *matcher
	at    position
	write func(lines []byte) error
	jobs  uint64
	lines bytes.Buffer
	enc   *json.Encoder
	room  int // lines that the chunk may still have

	blocked []blockedJob // those that come next
	crons   []job.ScheduleInfo
	names   map[job.BatchID]string // of schedules
}

// phase is a part of an export.
type phase uint8

// The parts. That of jobs is zero, because it was all that there was in a cursor of an older release.
const (
	phaseJobs phase = iota
	phaseQueues
	phaseBatches
	phaseCron
	phaseBlocked
	phaseBatchEnds
	phaseCronEnds
	phaseOver
	phaseHooks
)

// follows is the order of the parts.
var follows = [...]phase{
	phaseQueues: phaseHooks, phaseHooks: phaseBatches, phaseBatches: phaseCron, phaseCron: phaseJobs,
	phaseJobs: phaseBlocked, phaseBlocked: phaseBatchEnds,
	phaseBatchEnds: phaseCronEnds, phaseCronEnds: phaseOver, phaseOver: phaseOver,
}

// chunk writes the next lines and a mark. It reports whether that was the last.
func (e *export) chunk() (done bool, err error) {
	e.lines.Reset()
	e.room = exportChunk
	if e.at.Total == 0 {
		sc := &scan{view: e.view, match: e.match, at: e.at, sums: e.s.engine.Sums}
		if err := sc.count(); err != nil {
			return false, err
		}
		e.at.Total = sc.at.Total
	}
	for complete := true; complete && e.room > 0 && e.at.Phase != phaseOver; {
		if complete, err = e.part(); err != nil {
			return false, err
		}
		if complete {
			e.at = position{
				List: e.at.List, Filter: e.at.Filter, Phase: follows[e.at.Phase], Examined: e.at.Examined,
				Total: e.at.Total,
				Lines: e.at.Lines, Sum: e.at.Sum,
			}
		}
	}
	e.at.Sum = api.Checksum(e.at.Sum, e.lines.Bytes())
	done = e.at.Phase == phaseOver
	mark := api.ExportMark{
		Mark: api.MarkEnd, Examined: e.at.Examined, Total: e.at.Total, Jobs: e.jobs, Lines: e.at.Lines,
		Checksum: api.ShowChecksum(e.at.Sum),
	}
	if !done {
		mark.Mark, mark.Cursor = api.MarkCursor, e.at.cursor()
	}
	if err := e.enc.Encode(mark); err != nil {
		return false, fmt.Errorf("write a mark: %w", err)
	}
	return done, e.write(e.lines.Bytes())
}

// part writes lines of the part that the position is in. It reports whether these were its last.
func (e *export) part() (complete bool, err error) {
	f := &e.match.Filter
	jobsOnly := len(f.States) > 0 || e.match.whole() || e.match.narrow()
	everything := !jobsOnly && f.Queue == ""
	switch e.at.Phase {
	case phaseJobs:
		return e.someJobs()
	case phaseBlocked:
		return e.someBlocked()
	case phaseQueues:
		if !jobsOnly {
			return e.someQueues()
		}
	case phaseHooks:
		if !jobsOnly {
			return e.someHooks()
		}
	case phaseBatches, phaseBatchEnds:
		if everything {
			return e.someBatches()
		}
	case phaseCron, phaseCronEnds:
		if everything {
			return e.someCrons()
		}
	case phaseOver:
	}
	return true, nil
}

// line writes one line.
func (e *export) line(value any) error {
	e.room--
	e.at.Lines++
	if err := e.enc.Encode(value); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

// job writes the line of a job.
func (e *export) job(j *job.Job) error {
	r := e.s.record(j)
	until, err := e.view.LockedUntil(j)
	if err != nil {
		return err
	}
	if until != 0 {
		r.Lock, r.LockedUntil, r.LockEnds = j.Lock, api.Instant(until), api.NameOf(lockEnds, j.LockUntil)
	}
	if j.Flags.Has(job.FlagTick) {
		if r.Schedule, err = e.scheduleName(j.Batch); err != nil {
			return err
		}
	}
	e.jobs++
	return e.line(r)
}

// someJobs writes jobs that do not wait for others.
func (e *export) someJobs() (complete bool, err error) {
	m := *e.match
	if m.states == 0 {
		m.states = allStates
	}
	if m.states &^= job.StatesOf(job.Blocked); m.states == 0 {
		return true, nil
	}
	sc := &scan{
		view: e.view, match: &m, at: e.at, limits: scanLimits{e.room, examineMax, loadMax}, bodies: true,
		sums: e.s.engine.Sums,
	}
	sc.found = func(j *job.Job) { sc.failed = e.job(j) }
	if err := sc.run(); err != nil {
		return false, err
	}
	lines := e.at.Lines
	e.at = sc.at
	e.at.Lines = lines
	return sc.complete, nil
}

// allStates is every state.
var allStates = job.StatesOf(
	job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried, job.Done, job.Failed, job.Dead,
)
