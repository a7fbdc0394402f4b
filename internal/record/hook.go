package record

import "millrace/internal/job"

// HookKey appends the key of the hook of a queue.
func HookKey(dst []byte, namespace, queue string) []byte {
	return append(appendText(append(dst, spaceHook), namespace), queue...)
}

// AllHooks returns the range of all hooks, in order of their queues.
func AllHooks() (lo, hi []byte) { return []byte{spaceHook}, []byte{spaceHook + 1} }

// AppendHook appends a hook. Of its job the lock, the batch and the blockers by place are not kept.
func AppendHook(dst []byte, h *job.Hook) []byte {
	return appendSpec(append(dst, hookVersion, byte(h.Source)), &h.Job)
}

// DecodeHook is the inverse of HookKey and AppendHook. The extra of its job shares memory with value.
func DecodeHook(key, value []byte) (h job.Hook, err error) {
	var ok bool
	if h.Namespace, h.Queue, ok = parseNamed(key, spaceHook); !ok {
		return h, ErrFormat
	}
	d := decoder{b: value}
	if err := d.version("hook", hookVersion); err != nil {
		return h, err
	}
	h.Source = job.Source(d.byte())
	h.Job = *d.spec()
	return h, d.end("hook")
}
