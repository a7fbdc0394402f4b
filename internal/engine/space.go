package engine

import (
	"log/slog"
	"time"

	"millrace/internal/job"
)

// needsSpace reports whether a command stores something new: jobs, a batch, a value, a schedule.
// All others are applied on a full disk as well, because they are how space comes back.
func needsSpace(cmd job.Command) bool {
	switch c := cmd.(type) {
	case *job.Push, *job.Run, *job.NewBatch, *job.SetValue, *job.RunSchedule:
		return true
	case *job.SetSchedules:
		return len(c.Entries) > 0
	case *job.Atomic:
		for _, op := range c.Ops {
			switch op.(type) {
			case *job.Push, *job.SetValue, *job.NewBatch, *job.SetSchedules:
				return true
			default: // as below
			}
		}
	default: // stores nothing new, or only counters
	}
	return false
}

const (
	spaceEvery   = time.Second // how often free space is looked at while there is traffic,
	spaceBytes   = 4 << 20     // or after this many bytes,
	reclaimEvery = 2 * time.Second
	spaceRetry   = 250 * time.Millisecond // and while pushes are being refused
)

// checkSpace looks at the free space, at most once in a while. It is called by whoever commits,
// without the lock, and by Open before that.
func (e *Engine) checkSpace() {
	// Once pushes are refused, hasSpaceAgain looks instead.
	if e.opt.FreeFloor == 0 || e.noSpace.Load() ||
		(time.Since(e.lastSpace) < spaceEvery && e.sinceSpace < spaceBytes) {
		return
	}
	e.lastSpace, e.sinceSpace = time.Now(), 0
	if free, err := e.opt.Store.FreeBytes(); err == nil && free < e.opt.FreeFloor {
		e.noSpace.Store(true)
		e.log.Warn("free disk space is under the floor, pushes are refused",
			slog.Uint64("free_bytes", free), slog.Uint64("floor_bytes", e.opt.FreeFloor))
	}
}

// hasSpaceAgain reports whether there is space again. It is called under the lock, while pushes are
// refused, and so looks only now and then. It also asks the store to give back the space of what
// was deleted.
func (e *Engine) hasSpaceAgain() bool {
	if time.Since(e.lastRetry) < spaceRetry {
		return false
	}
	e.lastRetry = time.Now()
	free, err := e.opt.Store.FreeBytes()
	if err != nil || free < e.opt.FreeFloor {
		if time.Since(e.lastReclaim) >= reclaimEvery {
			e.lastReclaim = time.Now()
			if err := e.opt.Store.Reclaim(); err != nil {
				e.log.Warn("cannot ask the store for space", slog.Any("err", err))
			}
		}
		return false
	}
	e.noSpace.Store(false)
	e.log.Info("there is free disk space again, pushes are taken", slog.Uint64("free_bytes", free))
	return true
}
