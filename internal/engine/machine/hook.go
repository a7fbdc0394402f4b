package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/internal/job"
	"millrace/internal/plant"
	"millrace/internal/record"
)

// Hooks (section 16 of the semantics). All of them are in memory, by the names of their queues: there are few.

// hookName is the queue that a hook belongs to. The queue need not exist.
type hookName struct{ namespace, queue string }

// loadHooks reads the hooks at the start.
func (m *Machine) loadHooks() {
	lo, hi := record.AllHooks()
	m.store.Scan(lo, hi, false, func(key, value []byte) bool {
		h, err := record.DecodeHook(key, bytes.Clone(value))
		corrupt("hook", err)
		m.keepHook(&h)
		m.format = max(m.format, record.FormatHooks) // it may have been set before formats were counted
		return true
	})
}

// keepHook keeps a hook in memory. Without any hook there is no map, and a death costs nothing
// more.
func (m *Machine) keepHook(h *job.Hook) {
	if m.hooks == nil {
		m.hooks = map[hookName]*job.Hook{}
	}
	m.hooks[hookName{h.Namespace, h.Queue}] = h
}

// setHooks sets and removes hooks, all or none: everything is checked first. Hooks are changed in
// the order of their names, so that nothing depends on the order of a map.
func (m *Machine) setHooks(c *job.SetHooks, res *job.Result) {
	named := make(map[hookName][]byte, len(c.Hooks)) // as they are stored; nil: to be removed
	for i := range c.Hooks {
		stored, err := m.checkHook(c, &c.Hooks[i], named)
		if err != nil {
			res.Err = &job.Error{Kind: err.Kind, Text: err.Text, Index: i}
			return
		}
		named[hookName{c.Hooks[i].Namespace, c.Hooks[i].Queue}] = stored
	}
	for name, h := range m.hooks {
		if _, stays := named[name]; c.Replace && h.Source == c.Source && !stays {
			named[name] = nil
		}
	}
	// The limit counts what there will be in the end.
	left := len(m.hooks)
	for name, stored := range named {
		switch there := m.hooks[name] != nil; {
		case there && stored == nil:
			left--
		case !there && stored != nil:
			left++
		}
	}
	if left > job.MaxHooks {
		res.Err = &job.Error{Kind: job.TooLarge, Text: fmt.Sprintf("there are at most %d hooks", job.MaxHooks)}
		return
	}
	sets := slices.ContainsFunc(slices.Collect(maps.Values(named)), func(stored []byte) bool { return stored != nil })
	if sets && !m.allows(record.FormatHooks, res) {
		return
	}
	names := slices.SortedFunc(maps.Keys(named), func(a, b hookName) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.queue, b.queue))
	})
	for _, name := range names {
		if m.setHook(name, named[name]) {
			res.Count++
		}
	}
}

var errHookJob = &job.Error{
	Kind: job.Invalid,
	Text: "the job of a hook has a namespace, no body, no key of its own, no time, no lock, no batch " +
		"and waits for nothing",
}

// checkHook returns a hook as it is stored, nil for one to be removed, or why it is refused. The
// job of a hook must not be refusable when it is pushed: nobody could be told. So it has no unique
// key and no lock.
func (m *Machine) checkHook(c *job.SetHooks, h *job.Hook, named map[hookName][]byte) ([]byte, *job.Error) {
	s, name := &h.Job, hookName{h.Namespace, h.Queue}
	_, twice := named[name]
	old := m.hooks[name]
	switch {
	case h.Namespace == "" || h.Queue == "" || twice:
		return nil, &job.Error{Kind: job.Invalid, Text: "a hook names a queue, which no other hook names"}
	case old != nil && old.Source == job.SourceFile && c.Source != job.SourceFile:
		return nil, job.ErrHookOfFile
	case s.Queue == "":
		return nil, nil
	case s.Namespace == "" || s.Unique || s.RunAt != 0 || s.Lock != "" || s.Batch != 0 || len(s.BlockedBy) > 0 ||
		s.BodyKind != job.BodyNone:
		return nil, errHookJob
	}
	of := *h
	of.Source = c.Source
	stored := record.AppendHook(nil, &of)
	if len(stored) > job.MaxHookBytes {
		return nil, &job.Error{Kind: job.TooLarge, Text: fmt.Sprintf("a hook has at most %d bytes", job.MaxHookBytes)}
	}
	return stored, nil
}

// setHook sets or removes a hook, in memory and in the store (INV-19), and reports whether that
// changes anything.
func (m *Machine) setHook(name hookName, stored []byte) (changed bool) {
	m.keyBuf = record.HookKey(m.keyBuf[:0], name.namespace, name.queue)
	if stored == nil {
		if m.hooks[name] == nil {
			return false
		}
		delete(m.hooks, name)
		m.del(m.keyBuf)
		return true
	}
	if old := m.hooks[name]; old != nil && bytes.Equal(record.AppendHook(nil, old), stored) {
		return false
	}
	h, err := record.DecodeHook(m.keyBuf, stored)
	corrupt("hook", err)
	m.keepHook(&h)
	m.set(m.keyBuf, stored)
	return true
}

// noteDeath counts the death of a job that is still in its state, and has the hook of its queue
// push a job when the command or the timer has done everything else (serveWakes). The notice is
// made now, because the job may be gone by then. What a hook has pushed fires none, so that nothing
// pushes in a loop.
func (m *Machine) noteDeath(e *entry, how job.Death) {
	m.count(e.q, job.CountDied)
	if len(m.hooks) == 0 || e.Flags.Has(job.FlagHook) && !plant.HookFiresHook.On() || e.Flags.Has(job.FlagEphemeral) {
		return
	}
	h := m.hooks[hookName{e.q.namespace, e.q.name}]
	if h == nil {
		return
	}
	m.loadBody(e)
	m.loadFailures(e)
	s := h.Job
	s.Body, s.BodyKind = job.Notice(&e.Job, how, m.now), job.BodyJSON
	m.notices = append(m.notices, s)
}

// pushNotice pushes the first job that hooks are to push. It is in the step of the death, and so in
// the same batch: there is exactly one for each death, across any number of crashes (INV-19).
// Capacity does not count for it.
func (m *Machine) pushNotice() {
	s := &m.notices[0]
	if m.notices = m.notices[1:]; len(m.notices) == 0 {
		m.notices = nil
	}
	e := m.prepare(s)
	e.Flags |= job.FlagHook
	m.storeNewJob(e, s, nil)
}
