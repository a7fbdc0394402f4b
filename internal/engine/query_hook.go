package engine

import (
	"bytes"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// Hook returns the hook of a queue, if it has one.
func (q Query) Hook(namespace, queue string) (h job.Hook, ok bool, err error) {
	key := record.HookKey(nil, namespace, queue)
	value, ok, err := q.r.Get(nil, key)
	if err != nil || !ok {
		return h, false, err
	}
	h, err = record.DecodeHook(key, value)
	return h, err == nil, err
}

// Hooks returns the hooks of a namespace in order of their queues, or of all namespaces if it is empty. There are at
// most job.MaxHooks.
func (q Query) Hooks(namespace string) (hooks []job.Hook, err error) {
	lo, hi := record.AllHooks()
	serr := q.r.Scan(store.Range{Lo: lo, Hi: hi}, func(key, value []byte) bool {
		var h job.Hook
		if h, err = record.DecodeHook(key, bytes.Clone(value)); namespace == "" || h.Namespace == namespace {
			hooks = append(hooks, h)
		}
		return err == nil
	})
	if serr != nil {
		return nil, serr
	}
	return hooks, err
}

// Hooks returns hooks in order of their queues; see Query.Hooks.
func (e *Engine) Hooks(namespace string) (hooks []job.Hook, err error) {
	err = e.Read(func(q *View) error {
		hooks, err = q.Hooks(namespace)
		return err
	})
	return hooks, err
}
