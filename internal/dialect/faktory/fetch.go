package faktory

import (
	"bytes"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

const (
	// fetchWait is how long a FETCH waits. It is a little less than the two seconds
	// after which some clients take it for lost (protocol section 14).
	fetchWait = 1940 * time.Millisecond
	// fetchQueues is how many queues a FETCH may name.
	fetchQueues = 4096
	// fetchListKept is how long a list of queues may be to be remembered.
	fetchListKept = 1024
)

// prepareFetch fills in c.fetch, which runs after the unit.
func (c *conn) prepareFetch(u *dialect.Unit, arg []byte) (later bool) {
	if arg == nil { // an argument of blanks names queues that are empty
		u.Refuse(textNoQueues)
		return false
	}
	if !c.parseQueues(arg) {
		u.Refuse(textManyQueues)
		return false
	}
	queues := c.queues
	if c.worker != nil && c.worker.load() != Running {
		queues = nil // a worker that is to stop waits in vain
	}
	c.fetch = job.Fetch{
		Namespace: c.d.opts.Namespace, Queues: queues, Pick: job.PickInOrder, Max: 1, Wait: fetchWait,
		Holder: c.holder, OnEnd: job.EndKeep, Door: dialect.DoorFaktory, DefaultLease: defaultReserve, Firm: true,
	}
	return true
}

// parseQueues makes names of the queues that a FETCH lists. A worker names the same
// ones again and again.
func (c *conn) parseQueues(arg []byte) bool {
	if len(arg) > 0 && bytes.Equal(arg, c.fetchList) {
		return true
	}
	c.fetchList, c.queues = c.fetchList[:0], c.queues[:0]
	for word, rest := nextWord(arg); len(word) > 0; word, rest = nextWord(rest) {
		if len(c.queues) == fetchQueues {
			return false
		}
		if len(word) <= queueNameMax { // no queue has a longer name
			c.queues = append(c.queues, c.names.String(word))
		}
	}
	if len(arg) <= fetchListKept {
		c.fetchList = append(c.fetchList, arg...)
	}
	return true
}

// runFetch runs the fetch that has been prepared.
func (c *conn) runFetch() error {
	err := c.Wait(&c.fetch, func(res *job.Result) {
		switch {
		case res.Err == nil && len(res.Jobs) > 0:
			j := &res.Jobs[0]
			c.jids.add(j.Key)
			c.SetOut(appendFetched(c.Out(), j))
		case dialect.Served(res.Err):
			c.SetOut(append(c.Out(), replyNull...))
		default:
			c.refuse(refusal(res.Err.Kind))
		}
	})
	c.forgetFetch()
	return err
}

// forgetFetch lets go of a long list of queues, which an idle connection must not keep.
func (c *conn) forgetFetch() {
	if len(c.fetchList) == 0 {
		c.queues, c.fetch = nil, job.Fetch{}
	}
}
