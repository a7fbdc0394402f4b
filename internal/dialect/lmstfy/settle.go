package lmstfy

import (
	"context"
	"math"
	"net/http"
	"time"

	"millrace/internal/job"
)

// delete ends a job in any state. There is no such thing as an id that is wrong.
func (x *exchange) delete() {
	if len(x.id) > idMax {
		x.reply(http.StatusNoContent, nil)
		return
	}
	x.ack.Ref, x.ack.Need = refTo(x.home, x.queue, x.id), job.NeedLeased
	err := x.do(&x.ack).Err
	if err != nil && err.Kind == job.NotLeased {
		err = x.deleteWaiting()
	}
	if err != nil {
		x.settled(err)
		return
	}
	x.pool.deleted.Add(1)
	if ms, ok := publishedAt(x.id); ok && x.space != nil {
		if q := x.space.queue(x.queue); q != nil {
			age := x.d.opts.Engine.Now().Sub(job.Time(ms * 1000)) //nolint:gosec // 48 bits
			q.acked.observe(jobBounds, age.Truncate(time.Millisecond))
		}
	}
	x.reply(http.StatusNoContent, nil)
}

// deleteWaiting ends a job that nobody works on. Of a dead one the slot is left, so that it is
// deleted and not acked: the two exclude each other, and nothing comes between them.
func (x *exchange) deleteWaiting() *job.Error {
	dead := &job.Delete{Ref: x.ack.Ref, In: job.StatesOf(job.Dead), Need: job.NeedUnfinished}
	x.ack.Need = job.NeedUnfinished
	res := x.caller.Do(context.Background(), dead, &x.ack)
	if res[0].Err == nil {
		return nil
	}
	return res[1].Err
}

// settled answers a call that has nothing to tell about what it has found. Only what
// is the server's own trouble is worth an answer.
func (x *exchange) settled(err *job.Error) {
	if status, text := refusal(err.Kind); kindOfTrouble(err.Kind) {
		x.fail(status, text)
		return
	}
	x.reply(http.StatusNoContent, nil)
}

func kindOfTrouble(kind job.Kind) bool {
	return kind == job.Internal || kind == job.Draining || kind == job.NoSpace
}

// destroy drops the ready jobs of a queue, and the queue from the list of queues.
func (x *exchange) destroy() {
	if err := x.do(&job.Remove{Namespace: x.home, Queue: x.queue, ReadyOnly: true}).Err; err != nil {
		x.settled(err)
		return
	}
	x.reply(http.StatusNoContent, nil)
}

// deadAtOnce is how many dead jobs one command moves: a larger number is done in
// several, between which others get their turn.
const deadAtOnce = 1000

// inPieces moves up to limit dead jobs with commands of a bounded size. It returns
// how many there were.
func (x *exchange) inPieces(limit uint64, do func(n int) *job.Result) (total int, err error) {
	if limit > deadAtOnce {
		// Those that die meanwhile are left alone, or it might never end.
		info, _, err := x.d.opts.Engine.Queue(x.home, x.queue)
		if err != nil {
			return 0, err
		}
		limit = min(limit, info.Counts[job.Dead])
	}
	for limit > 0 {
		n := int(min(limit, deadAtOnce))
		res := do(n)
		if res.Err != nil {
			return total, res.Err
		}
		total += res.Count
		if res.Count < n {
			break
		}
		limit -= uint64(n)
	}
	return total, nil
}

// limit reads how many dead jobs a call is about. It has answered if it is not ok.
func (x *exchange) limit() (n uint64, ok bool) {
	n, ok = x.query.uint(paramLimit, 1, limitMax)
	if !ok || n == 0 {
		x.fail(http.StatusBadRequest, textLimit)
		return 0, false
	}
	return n, true
}

// respawnTTL is the time to live of respawned jobs, in seconds.
const respawnTTL = 86400

// respawn makes dead jobs ready again, with one try and a new time to live.
func (x *exchange) respawn() {
	limit, ok := x.limit()
	if !ok {
		return
	}
	ttl, ok := x.query.uint(paramTTL, respawnTTL, math.MaxInt64)
	if !ok {
		x.fail(http.StatusBadRequest, textTTL)
		return
	}
	cmd := &job.Respawn{
		Namespace: x.home, Queue: x.queue, Attempts: 1,
		TTL: seconds(min(ttl, uint64(math.MaxInt64/time.Second))),
	}
	total, err := x.inPieces(limit, func(n int) *job.Result {
		cmd.Limit = n
		return x.do(cmd)
	})
	x.pool.respawned.Add(uint64(total)) //nolint:gosec // a count
	if err != nil {
		x.failed(err)
		return
	}
	b := getBuffer()
	defer putBuffer(b)
	b.out = appendRespawned(b.out, total)
	x.reply(http.StatusOK, b.out)
}

// dropDead deletes dead jobs for good.
func (x *exchange) dropDead() {
	limit, ok := x.limit()
	if !ok {
		return
	}
	cmd := &job.Purge{Namespace: x.home, Queue: x.queue, State: job.Dead}
	_, err := x.inPieces(limit, func(n int) *job.Result {
		cmd.Limit = n
		return x.do(cmd)
	})
	if err != nil {
		x.failed(err)
		return
	}
	x.reply(http.StatusNoContent, nil)
}
