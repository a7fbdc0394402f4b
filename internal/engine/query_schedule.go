package engine

import (
	"fmt"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// Schedule returns what is known about a schedule of a namespace.
func (q Query) Schedule(namespace, name string) (info job.ScheduleInfo, ok bool, err error) {
	p, ok, err := q.r.Get(nil, record.ScheduleNameKey(nil, namespace, name))
	if err != nil || !ok {
		return info, false, err
	}
	info, err = q.scheduleAt(p)
	return info, err == nil, err
}

// ScheduleName returns by which name a schedule goes whose jobs name it by a number.
func (q Query) ScheduleName(id job.BatchID) (name string, ok bool, err error) {
	p, ok, err := q.r.Get(nil, record.ScheduleKey(nil, id, record.BatchState))
	if err != nil || !ok {
		return "", false, err
	}
	s, err := record.DecodeSchedule(p)
	return s.Name, err == nil, err
}

// scheduleAt reads the schedule that an entry in the list of names leads to.
func (q Query) scheduleAt(value []byte) (info job.ScheduleInfo, err error) {
	n, err := record.DecodeUint(value)
	if err != nil {
		return info, err
	}
	id := job.BatchID(n)
	state, ok, err := q.r.Get(nil, record.ScheduleKey(nil, id, record.BatchState))
	if err != nil || !ok {
		return info, noSchedule(id, err)
	}
	s, err := record.DecodeSchedule(state)
	if err != nil {
		return info, err
	}
	set, ok, err := q.r.Get(nil, record.ScheduleKey(nil, id, record.BatchFixed))
	if err != nil || !ok {
		return info, noSchedule(id, err)
	}
	def, err := record.DecodeScheduleDef(set)
	return job.ScheduleInfo{
		Schedule: def, ID: id, Created: s.Created, Stopped: s.Paused,
		Next: s.Next, LastTick: s.LastTick, LastAt: s.LastAt,
		Pushed: s.Pushed, MissedAny: s.Missed, Skipped: s.Skipped, Running: s.Running, Runs: s.Runs,
	}, err
}

// noSchedule returns why a schedule that its name leads to could not be read. Both records of a
// schedule are written in one step, so that a missing one is damage.
func noSchedule(id job.BatchID, err error) error {
	if err == nil {
		err = fmt.Errorf("a name leads to schedule %d, of which a part is missing: %w", id, store.ErrCorrupt)
	}
	return err
}

// Schedules returns the schedules of a namespace in order of their names, or of all namespaces if it is empty. There
// are at most job.MaxSchedules.
func (q Query) Schedules(namespace string) (infos []job.ScheduleInfo, err error) {
	lo, hi := record.ScheduleNames(namespace)
	var ids [][]byte
	err = q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(_, value []byte) bool {
		ids = append(ids, append([]byte(nil), value...))
		return true
	})
	for _, id := range ids {
		if err != nil {
			return nil, err
		}
		var info job.ScheduleInfo
		info, err = q.scheduleAt(id)
		infos = append(infos, info)
	}
	return infos, err
}

// Schedule returns what is known about a schedule; see Query.Schedule.
func (e *Engine) Schedule(namespace, name string) (info job.ScheduleInfo, ok bool, err error) {
	err = e.Read(func(q *View) error {
		info, ok, err = q.Schedule(namespace, name)
		return err
	})
	return info, ok, err
}

// Schedules returns schedules in order of their names; see Query.Schedules.
func (e *Engine) Schedules(namespace string) (infos []job.ScheduleInfo, err error) {
	err = e.Read(func(q *View) error {
		infos, err = q.Schedules(namespace)
		return err
	})
	return infos, err
}
