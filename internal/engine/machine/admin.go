package machine

import (
	"bytes"

	"millrace/internal/job"
)

func (m *Machine) configure(c *job.Configure, res *job.Result) {
	q := m.makeQueue(c.Namespace, c.Queue)
	if q.Configured && !c.Replace {
		res.Err = job.ErrExists
		return
	}
	q.Configured = true
	q.hide(false)
	q.Settings = c.Settings
	q.Settings.Attrs = bytes.Clone(c.Settings.Attrs)
	m.changed(q)
	m.wakeRoom(q)
}

func (m *Machine) pause(c *job.Pause) {
	q := m.find(c.Namespace, c.Queue)
	if q == nil || q.Hidden { // which for callers is not there
		if !c.Make {
			return
		}
		q = m.makeQueue(c.Namespace, c.Queue)
		q.hide(false)
	}
	m.count(q, job.CountPaused)
	q.Paused, q.PausedAt, q.PausedTill = true, m.now, 0
	if c.For > 0 {
		q.PausedTill = m.now.Add(c.For)
	}
	m.armPause(q)
	m.changed(q)
}

// armPause sets the alarm for the end of a pause, or none.
func (m *Machine) armPause(q *queue) {
	m.clearAlarm(q.alarm)
	q.alarm = nil
	if q.PausedTill != 0 && q.PausedTill != job.Never {
		q.alarm = &alarm{queue: q}
		m.setAlarm(q.alarm, q.PausedTill)
	}
}

func (m *Machine) resume(c *job.Resume) {
	if q := m.find(c.Namespace, c.Queue); q != nil {
		m.unpause(q)
	}
}

func (m *Machine) unpause(q *queue) {
	if !q.Paused {
		return
	}
	q.Paused, q.PausedAt, q.PausedTill = false, 0, 0
	m.armPause(q)
	m.changed(q)
	m.wake(q)
}

func (m *Machine) releaseAll(c *job.ReleaseAll, res *job.Result) {
	q := m.find(c.Namespace, c.Queue)
	if q == nil {
		return
	}
	for _, id := range m.stateIDs(q, job.Leased, m.limitToStep(q.Counts[job.Leased], c.Limit, res)) {
		e := m.mustLoad(q, id)
		m.count(q, job.CountReleased)
		e.Releases++
		e.Delay = 0
		m.leave(e)
		m.makeReady(e, job.PlaceOld)
		m.serveWakes()
		res.Count++
	}
}
