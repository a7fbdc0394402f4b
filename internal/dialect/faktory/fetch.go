package faktory

import (
	"bytes"
	"io"
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
func (c *conn) prepareFetch(u *unit, arg []byte) after {
	if arg == nil { // an argument of blanks names queues that are empty
		u.refuse(textNoQueues)
		return nil
	}
	if !c.parseQueues(arg) {
		u.refuse(textManyQueues)
		return nil
	}
	queues := c.queues
	if c.worker != nil && c.worker.load() != Running {
		queues = nil // a worker that is to stop waits in vain
	}
	c.fetch = job.Fetch{
		Namespace: c.d.opts.Namespace, Queues: queues, Pick: job.PickInOrder, Max: 1, Wait: fetchWait,
		Holder: c.holder, OnEnd: job.EndKeep, Door: dialect.DoorFaktory, DefaultLease: defaultReserve, Firm: true,
	}
	return (*conn).runFetch
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

// runFetch runs the fetch that has been prepared. The replies before it leave first,
// because it may wait.
func (c *conn) runFetch() error {
	if err := c.Flush(); err != nil {
		return err
	}
	c.fetchCmd[0] = &c.fetch
	c.fetchReq.Commands = c.fetchCmd[:]
	gone := c.Await(c.d.opts.Engine, &c.fetchReq)
	res := &c.fetchReq.Results[0]
	defer c.forgetFetch(res)
	if gone {
		c.giveBack(res)
		return io.EOF
	}
	switch {
	case res.Err == nil && len(res.Jobs) > 0:
		j := &res.Jobs[0]
		c.jids.add(j.Key)
		c.SetOut(appendFetched(c.Out(), j))
	case res.Err == nil, res.Err.Kind == job.Timeout, res.Err.Kind == job.Canceled, res.Err.Kind == job.Draining:
		c.SetOut(append(c.Out(), replyNull...))
	default:
		c.refuse(refusal(res.Err.Kind))
	}
	if err := c.Flush(); err != nil {
		c.giveBack(res)
		return err
	}
	return nil
}

// forgetFetch lets go of what an idle connection must not keep: the body, and a long list of queues.
func (c *conn) forgetFetch(res *job.Result) {
	res.Reset()
	if len(c.fetchList) == 0 {
		c.queues, c.fetch = nil, job.Fetch{}
	}
}

// giveBack returns a delivery that did not reach the client.
func (c *conn) giveBack(res *job.Result) {
	if res.Err != nil || len(res.Jobs) == 0 {
		return
	}
	ret := &job.Return{By: c.holder}
	for i := range res.Jobs {
		ret.Refs = append(ret.Refs, res.Jobs[i].Ref())
	}
	c.do(ret)
}
