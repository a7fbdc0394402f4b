package tarantool

import (
	"crypto/sha256"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// putUnique puts a task unless one with the same first field of data is
// there that has the status which the new one would have.
func (a *legacyAPI) putUnique(c *call) {
	cmd := c.newPush()
	if !a.spec(c, &cmd.Spec) {
		return
	}
	if cmd.Spec.BodyKind == job.BodyNone {
		c.raise(legacyTextNoData)
		return
	}
	cmd.Unless = job.StatesOf(job.Ready)
	if cmd.Spec.Delay > 0 {
		cmd.Unless = job.StatesOf(job.Scheduled)
	}
	c.submit(cmd, a.onPutUnique)
}

// uniqueDone answers the task that is there, or the new one.
func (a *legacyAPI) uniqueDone(c *call, res *job.Result) {
	if res.Err == nil && len(res.Jobs) > 0 {
		legacyTask(c, &res.Jobs[0], legacyStatus(res.State))
		return
	}
	a.putDone(c, res)
}

// legacyLike stands for a first field of data. Two are the same if they are strings of
// the same content, however they were sent, or else were sent as the same bytes.
func legacyLike(first iproto.Value) job.Digest {
	content, text := first.Bytes()
	if !text {
		content = first
	}
	sum := sha256.Sum256(content)
	like := job.Digest(sum[:])
	like[0] &^= 1
	if text {
		like[0] |= 1 // a string differs from what is sent as the same bytes
	}
	return like
}
