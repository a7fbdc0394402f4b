package sim

import (
	"fmt"

	"millrace/internal/job"
)

type lockName struct{ ns, name string }

// lock is who took a lock, and until when: then it is as good as gone.
type lock struct {
	taker job.ID
	until job.Time
}

// locked reports whether the lock of a push is not free.
func (m *Model) locked(s *job.Spec) bool {
	l, there := m.locks[lockName{s.Namespace, s.Lock}]
	return s.Lock != "" && there && m.now < l.until
}

// lock gives a new job the lock that it asks for.
func (m *Model) lock(j *entry, s *job.Spec) {
	if s.Lock == "" {
		return
	}
	j.Lock, j.LockUntil = s.Lock, s.LockUntil
	m.locks[lockName{s.Namespace, s.Lock}] = lock{taker: j.ID, until: max(m.now, j.RunAt).Add(s.LockFor)}
}

// unlock ends the lock that a job took, unless it has lost it.
func (m *Model) unlock(j *entry) {
	name := lockName{j.Namespace, j.Lock}
	if l, there := m.locks[name]; j.Lock != "" && there && l.taker == j.ID {
		delete(m.locks, name)
	}
	j.Lock, j.LockUntil = "", 0
}

// checkLocks asserts INV-13.
func (m *Model) checkLocks() error {
	for name, l := range m.locks {
		if j := m.jobs[l.taker]; j != nil && (j.Lock != name.name || j.Namespace != name.ns) {
			return fmt.Errorf("INV-13: job %d has taken lock %q and does not know", l.taker, name)
		}
	}
	return nil
}
