package machine

import (
	"bytes"

	"millrace/internal/record"
)

// checkHooks asserts that the hooks in memory are those that are stored, and that nothing is left to be pushed
// (INV-19). They need a format (INV-20).
func (c *checker) checkHooks() (err error) {
	if len(c.notices) > 0 {
		return broken(19, "%d jobs of hooks were not pushed", len(c.notices))
	}
	if len(c.hooks) > 0 && c.format < record.FormatHooks {
		return broken(20, "there are hooks, and the store has format %d", c.format)
	}
	n := 0
	lo, hi := record.AllHooks()
	c.store.Scan(lo, hi, false, func(key, value []byte) bool {
		h, derr := record.DecodeHook(key, value)
		corrupt("hook", derr)
		n++
		here := c.hooks[hookName{h.Namespace, h.Queue}]
		if here == nil || !bytes.Equal(record.AppendHook(nil, here), value) {
			err = broken(19, "the hook of queue %q is not the one in memory", h.Queue)
		}
		return err == nil
	})
	if err == nil && n != len(c.hooks) {
		err = broken(19, "%d hooks are in memory and %d in the store", len(c.hooks), n)
	}
	return err
}
