package tarantool

import "millrace/internal/job"

// The error texts that both sets of procedures share.
const (
	textFull      = "the tube is full"
	textDiskFull  = "no space left on the server"
	textStopping  = "the server is stopping"
	textInternal  = "internal error"
	textTooLarge  = "the task is too large"
	textInvalid   = "bad argument"
	textNotFound  = "Task not found"
	textNotTaken  = "Task was not taken"
	textExists    = "already exists"
	textFinished  = "Task is finished"
	textConsumers = "There are consumers connected the tube"
	textTaken     = "There are taken tasks in the tube"
	textManyTubes = "too many tubes"
	textWaiting   = "too many calls are waiting"
)

// refusal is the text for a refusal of the engine that a procedure has no text of
// its own for.
func refusal(kind job.Kind) string {
	switch kind {
	case job.NotFound:
		return textNotFound
	case job.NotLeased, job.NotOwner:
		return textNotTaken
	case job.Finished, job.BadState:
		return textFinished
	case job.Full:
		return textFull
	case job.Busy:
		return textTaken
	case job.Waiting:
		return textConsumers
	case job.Duplicate, job.Exists, job.Locked, job.Lapsing:
		return textExists
	case job.TooLarge:
		return textTooLarge
	case job.NoSpace:
		return textDiskFull
	case job.Draining, job.Timeout, job.Canceled:
		return textStopping
	case job.Invalid:
		return textInvalid
	case job.ManyQueues:
		return textManyTubes
	case job.Overloaded:
		return textWaiting
	case job.Internal:
		return textInternal
	}
	return textInternal
}

// refuse answers a refusal of the engine that the procedure has no text of its own for.
func (c *call) refuse(err *job.Error) { c.raise(refusal(err.Kind)) }
