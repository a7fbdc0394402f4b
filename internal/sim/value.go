package sim

import (
	"slices"

	"millrace/internal/job"
)

type valueName struct{ space, name string }

func (m *Model) applySetValue(c *job.SetValue) {
	name := valueName{c.Space, c.Name}
	if _, there := m.values[name]; there && c.IfAbsent {
		m.refuse(job.ErrHasValue)
		return
	}
	m.values[name] = slices.Clone(c.Value)
	m.answer(job.Result{})
}

func (m *Model) applyDropValue(c *job.DropValue) {
	name := valueName{c.Space, c.Name}
	_, there := m.values[name]
	delete(m.values, name)
	if there {
		m.answerCount(1)
	} else {
		m.answerCount(0)
	}
}
