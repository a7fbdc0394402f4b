package lmstfy

import (
	"context"
	"net/http"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// queuesMax is how many queues one call may consume from, and longList the length of a list that is long to read.
const (
	queuesMax = 1024
	longList  = 4 << 10
)

// consumption reads the query and the list of queues into x.fetch. It has answered if
// it is not ok.
func (x *exchange) consumption() (ok bool) {
	def := &x.d.opts.Defaults
	ttr, ok := x.query.uint(paramTTR, uint64(def.TTR), secondsMax)
	if !ok {
		x.fail(http.StatusBadRequest, textTTR)
		return false
	}
	timeout, ok := x.query.uint(paramTimeout, uint64(def.Timeout), secondsMax)
	if !ok {
		x.fail(http.StatusBadRequest, textTimeout)
		return false
	}
	count, ok := x.query.uint(paramCount, 1, countMax)
	if !ok || count == 0 {
		x.fail(http.StatusBadRequest, textCount)
		return false
	}
	if len(x.queue) > longList {
		defer x.d.opts.Shared.TakeTurn()()
	}
	x.queues = appendQueues(x.queues[:0], x.queue)
	if len(x.queues) == 0 || len(x.queues) > queuesMax {
		x.fail(http.StatusBadRequest, textQueues)
		return false
	}
	holder, ok := x.r.Context().Value(holderKey{}).(job.Holder)
	if !ok {
		holder = x.d.opts.Engine.NewHolder()
	}
	x.fetch = job.Fetch{
		Namespace: x.home, Queues: x.queues, Pick: job.PickInOrder, Max: int(count), Wait: seconds(timeout), //nolint:gosec // at most countMax
		Holder: holder, OnEnd: job.EndKeep, Door: dialect.DoorLmstfy,
		Lease: seconds(ttr), LeaseSet: true, Delivery: new(job.Delivery),
	}
	return true
}

// consume takes jobs, or waits for one.
func (x *exchange) consume() {
	if !x.consumption() {
		return
	}
	defer x.d.opts.Engine.Sent(x.fetch.Delivery) // when it has been written or given back
	// Whoever does not wait cannot be missed either.
	ctx := context.Background()
	if x.fetch.Wait > 0 {
		if !x.prepareWait() {
			return
		}
		ctx = x.r.Context()
	}
	res := &x.caller.Do(ctx, &x.fetch)[0]
	defer res.Reset() // a pooled exchange keeps no bodies
	switch {
	case len(res.Jobs) > 0 && ctx.Err() == nil:
		x.deliver(res.Jobs)
	case len(res.Jobs) > 0:
		x.giveBack(res.Jobs)
		x.reply(http.StatusNotFound, []byte(answerEmpty)) // to nobody
	case dialect.Served(res.Err):
		x.reply(http.StatusNotFound, []byte(answerEmpty))
	default:
		x.refuse(res.Err)
	}
}

// prepareWait makes the connection fit for a long silence: nothing is left to read, no
// deadline of the request ends it, and the engine may keep the names. It has
// answered if it is not ok.
func (x *exchange) prepareWait() (ok bool) {
	if !x.dropBody() {
		return false
	}
	// An error means that the connection is gone, which ends the wait.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	if len(x.queue) > longList {
		defer x.d.opts.Shared.TakeTurn()()
	}
	for i, name := range x.queues {
		x.queues[i] = x.queueName(name)
	}
	return true
}

// deliver answers with jobs. Those that cannot be written go back as if they had not
// been taken.
func (x *exchange) deliver(jobs []job.Job) {
	b := getBuffer()
	defer putBuffer(b)
	now := x.d.opts.Engine.Now()
	list := x.fetch.Max > 1
	for i := range jobs {
		switch {
		case list && i == 0:
			b.out = append(b.out, '[')
		case list:
			b.out = append(b.out, ',')
		}
		b.out = appendJob(b.out, x.namespace, &jobs[i], now, true)
	}
	if list {
		b.out = append(b.out, ']')
	}
	x.reply(http.StatusOK, b.out)
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		x.giveBack(jobs)
		x.ticket.giveBack()
		x.ticket = ticket{}
		return
	}
	x.countConsumed(jobs, now)
}

// giveBack returns jobs that did not reach the client.
func (x *exchange) giveBack(jobs []job.Job) {
	ret := &job.Return{By: x.fetch.Holder}
	for i := range jobs {
		ret.Refs = append(ret.Refs, jobs[i].Ref())
	}
	// A caller of its own: the jobs are in the results of the exchange's.
	x.d.opts.Engine.NewCallerAt(dialect.DoorLmstfy).Do(context.Background(), ret)
}

func (x *exchange) countConsumed(jobs []job.Job, now job.Time) {
	n := uint64(len(jobs))
	x.pool.consumed.Add(n)
	x.pool.read.Add(n)
	x.pool.timed.Add(n)
	if x.space == nil {
		return
	}
	for i := range jobs {
		if q := x.space.queue(jobs[i].Queue); q != nil {
			q.consumed.Add(1)
			q.waited.observe(jobBounds, elapsed(&jobs[i], now).Truncate(time.Millisecond))
		}
	}
}
