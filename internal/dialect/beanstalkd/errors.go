package beanstalkd

import "millrace/internal/job"

// The replies that tell no more than their words (protocol section 2 on).
const (
	replyUnknown      = "UNKNOWN_COMMAND\r\n"
	replyFormat       = "BAD_FORMAT\r\n"
	replyNoMemory     = "OUT_OF_MEMORY\r\n"
	replyInternal     = "INTERNAL_ERROR\r\n"
	replyDraining     = "DRAINING\r\n"
	replyExpectedCRLF = "EXPECTED_CRLF\r\n"
	replyTooBig       = "JOB_TOO_BIG\r\n"
	replyDeadline     = "DEADLINE_SOON\r\n"
	replyTimedOut     = "TIMED_OUT\r\n"
	replyNotFound     = "NOT_FOUND\r\n"
	replyNotIgnored   = "NOT_IGNORED\r\n"
	replyDeleted      = "DELETED\r\n"
	replyReleased     = "RELEASED\r\n"
	replyBuried       = "BURIED\r\n"
	replyTouched      = "TOUCHED\r\n"
	replyKicked       = "KICKED\r\n"
	replyPaused       = "PAUSED\r\n"
)

// refusal is the reply for a refusal of the engine.
func refusal(kind job.Kind) string {
	switch kind {
	case job.NotFound, job.NotLeased, job.NotOwner, job.BadState, job.Finished:
		return replyNotFound
	case job.Timeout, job.Canceled:
		return replyTimedOut
	case job.Lapsing:
		return replyDeadline
	case job.TooLarge:
		return replyTooBig
	case job.Draining:
		return replyDraining
	case job.Full, job.NoSpace, job.ManyQueues, job.Overloaded: // try again later
		return replyNoMemory
	case job.Internal, job.Invalid, job.Duplicate, job.Exists, job.Locked, job.Busy, job.Waiting:
	}
	return replyInternal
}
