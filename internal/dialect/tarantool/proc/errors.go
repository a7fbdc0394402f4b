package proc

import "millrace/internal/job"

// The error texts that both sets of procedures share.
const (
	textFull      = "the tube is full"
	textDiskFull  = "no space left on the server"
	textStopping  = "the server is stopping"
	textInternal  = "internal error"
	textTooLarge  = "the task is too large"
	TextInvalid   = "bad argument"
	TextNotFound  = "Task not found"
	TextNotTaken  = "Task was not taken"
	textExists    = "already exists"
	textFinished  = "Task is finished"
	textConsumers = "There are consumers connected the tube"
	textTaken     = "There are taken tasks in the tube"
	textManyTubes = "too many tubes"
	textWaiting   = "too many calls are waiting"
)

// Refusal is the text for a refusal of the engine that a procedure has no text of
// its own for.
func Refusal(kind job.Kind) string {
	switch kind {
	case job.NotFound:
		return TextNotFound
	case job.NotLeased, job.NotOwner:
		return TextNotTaken
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
		return TextInvalid
	case job.ManyQueues:
		return textManyTubes
	case job.Overloaded:
		return textWaiting
	case job.Internal:
		return textInternal
	}
	return textInternal
}

// Refuse answers a refusal of the engine that the procedure has no text of its own for.
func (c *Call) Refuse(err *job.Error) { c.Raise(Refusal(err.Kind)) }
