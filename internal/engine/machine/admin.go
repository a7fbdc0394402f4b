package machine

import (
	"bytes"

	"millrace/internal/job"
	"millrace/internal/record"
)

// configure sets the settings of a queue. The caller's attributes are copied. A larger capacity
// lets in pushes that wait for room. A queue that promises one job of a group at a time is better
// without that promise, which matters only if it is fair, than not there at all.
func (m *Machine) configure(c *job.Configure, res *job.Result) {
	q := m.makeQueue(c.Namespace, c.Queue)
	if q.Configured && !c.Replace {
		res.Err = job.ErrExists
		return
	}
	q.Configured = true
	q.setHidden(false)
	before := q.groupMax()
	q.Settings = c.Settings
	q.Settings.Attrs = bytes.Clone(c.Settings.Attrs)
	q.Settings.OnePerGroup = c.Settings.OnePerGroup && m.allows(record.FormatOnePerGroup, &job.Result{})
	m.markDirty(q)
	if q.groupMax() != before {
		m.regroup(q, record.RegroupShow)
	}
	m.wakeRoom(q)
}

// pause stops deliveries from a queue. Nothing is woken: those who wait are passed over until
// unpause. A second pause replaces the end of the first.
func (m *Machine) pause(c *job.Pause) {
	q := m.findQueue(c.Namespace, c.Queue)
	if q == nil || q.Hidden { // which for callers is not there
		if !c.Make {
			return
		}
		q = m.makeQueue(c.Namespace, c.Queue)
		q.setHidden(false)
	}
	m.count(q, job.CountPaused)
	q.Paused, q.PausedAt, q.PausedTill = true, m.now, 0
	if c.For > 0 {
		q.PausedTill = m.now.Add(c.For)
	}
	m.armPause(q)
	m.markDirty(q)
}

// armPause sets the alarm for the end of a pause, or none. The end itself is stored with the queue,
// and loadQueue arms the alarm again after a restart.
func (m *Machine) armPause(q *queue) {
	m.clearAlarm(q.alarm)
	q.alarm = nil
	if q.PausedTill != 0 && q.PausedTill != job.Never {
		q.alarm = &alarm{queue: q}
		m.setAlarm(q.alarm, q.PausedTill)
	}
}

// resume ends a pause before its time.
func (m *Machine) resume(c *job.Resume) {
	if q := m.findQueue(c.Namespace, c.Queue); q != nil {
		m.unpause(q)
	}
}

// unpause lets a queue give out jobs again. It must wake the queue: what became ready meanwhile has
// woken nobody (INV-5).
func (m *Machine) unpause(q *queue) {
	if !q.Paused {
		return
	}
	q.Paused, q.PausedAt, q.PausedTill = false, 0, 0
	m.armPause(q)
	m.markDirty(q)
	m.wake(q)
}

// releaseAll releases the leases of a queue in the order of their list, one piece per step
// (limitToStep). Leases that are taken between two steps may be released as well; the count that is
// left bounds it.
func (m *Machine) releaseAll(c *job.ReleaseAll, res *job.Result) {
	q := m.findQueue(c.Namespace, c.Queue)
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
