package sim

import (
	"fmt"
	"slices"
	"strings"

	"millrace/internal/job"
	"millrace/internal/record"
)

func (m *Model) applySetHooks(c *job.SetHooks) {
	to := map[queueName]job.Hook{} // what hooks there are afterwards
	for name, h := range m.hooks {
		if !c.Replace || h.Source != c.Source {
			to[name] = h
		}
	}
	for i := range c.Hooks {
		h := c.Hooks[i]
		name, s := queueName{h.Namespace, h.Queue}, &h.Job
		twice := slices.ContainsFunc(c.Hooks[:i],
			func(o job.Hook) bool { return queueName{o.Namespace, o.Queue} == name })
		bound := s.Unique || s.RunAt != 0 || s.Lock != "" || s.Batch != 0 || len(s.BlockedBy) > 0 ||
			s.BodyKind != job.BodyNone
		kind := job.Kind(0)
		switch {
		case h.Namespace == "" || h.Queue == "" || twice:
			kind = job.Invalid
		case m.hooks[name].Source == job.SourceFile && m.hooks[name].Queue != "" && c.Source == job.SourceAPI:
			kind = job.Exists
		case s.Queue != "" && (s.Namespace == "" || bound):
			kind = job.Invalid
		}
		if kind != 0 {
			m.refuse(&job.Error{Kind: kind, Index: i})
			return
		}
		if delete(to, name); s.Queue != "" {
			h.Source, h.Job.Trace = c.Source, ""
			to[name] = h
		}
	}
	if m.Gated && m.format < record.FormatHooks &&
		slices.ContainsFunc(c.Hooks, func(h job.Hook) bool { return h.Job.Queue != "" }) {
		m.refuse(job.ErrFormat)
		return
	}
	changed := 0
	for name, h := range to {
		if Text(h) != Text(m.hooks[name]) {
			changed++
		}
	}
	for name := range m.hooks {
		if _, stays := to[name]; !stays {
			changed++
		}
	}
	m.hooks = to
	m.answerCount(changed)
}

// died counts a death. The hook of the queue tells of it, unless the job came of a hook, or its caller waits for it.
func (m *Model) died(j *entry, how job.Death) {
	m.count(j, job.CountDied)
	h, hooked := m.hooks[queueName{j.Namespace, j.Queue}]
	if !hooked || j.Flags.Has(job.FlagHook) || j.Flags.Has(job.FlagEphemeral) {
		return
	}
	spec := h.Job
	spec.Body, spec.BodyKind = job.Notice(&j.Job, how, m.now), job.BodyJSON
	m.notices = append(m.notices, spec)
}

// pushNotices pushes the jobs of hooks, whatever room there is.
func (m *Model) pushNotices() {
	for len(m.notices) > 0 {
		spec := m.notices[0]
		m.notices = m.notices[1:]
		m.admit(&spec, nil, nil, func(j *entry) { j.Flags |= job.FlagHook })
	}
}

// HookList returns the hooks, in no order.
func (m *Model) HookList() []job.Hook {
	var out []job.Hook
	for _, h := range m.hooks {
		out = append(out, h)
	}
	return out
}

// dumpHooks appends a line for each hook.
func (v View) dumpHooks(lines []string) []string {
	for i := range v.Hooks {
		lines = append(lines, fmt.Sprintf("hook %s", strings.ReplaceAll(Text(v.Hooks[i]), "\n", " ")))
	}
	return lines
}
