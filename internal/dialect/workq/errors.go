package workq

import "millrace/internal/job"

// The error lines, byte for byte as the protocol has them (protocol section 2).
const (
	textNotFound        = "NOT-FOUND"
	textTimeout         = "TIMEOUT"
	textUnknown         = clientError + "Unknown command"
	textArgs            = clientError + "Invalid command args"
	textFlags           = clientError + "Invalid command flags"
	textPayloadSize     = clientError + "Invalid payload size"
	textResultSize      = clientError + "Invalid result size"
	textID              = clientError + "Invalid ID"
	textName            = clientError + "Invalid Name"
	textTTR             = clientError + "Invalid TTR"
	textTTL             = clientError + "Invalid TTL"
	textTime            = clientError + "Invalid Time"
	textPriority        = clientError + "Invalid Priority"
	textMaxAttempts     = clientError + "Invalid Max Attempts"
	textMaxFails        = clientError + "Invalid Max Fails"
	textWait            = clientError + "Invalid wait timeout"
	textOffset          = clientError + "Invalid cursor offset"
	textLimit           = clientError + "Invalid limit"
	textDuplicateJob    = clientError + "Duplicate job"
	textDuplicateResult = clientError + "Duplicate result"

	textManyClients = serverError + "Too many clients"
	textFull        = serverError + "Queue is full"
	textNoSpace     = serverError + "No space left for new jobs"
	textHeld        = serverError + "Job is held by a worker of another protocol"
	textDraining    = serverError + "Server is shutting down"
	textInternal    = serverError + "Internal error"
	textRefused     = serverError + "Command refused"
	textManyQueues  = serverError + "Too many queues"
	textWaiting     = serverError + "Too many waiting clients"

	clientError = "CLIENT-ERROR "
	serverError = "SERVER-ERROR "
)

// refusal is the line for a refusal of the engine.
func refusal(kind job.Kind) string {
	switch kind {
	case job.NotFound:
		return textNotFound
	case job.Timeout:
		return textTimeout
	case job.Duplicate:
		return textDuplicateJob
	case job.Finished:
		return textDuplicateResult
	case job.NotOwner:
		return textHeld
	case job.Full:
		return textFull
	case job.TooLarge:
		return textPayloadSize
	case job.NoSpace:
		return textNoSpace
	case job.Draining, job.Canceled:
		return textDraining
	case job.ManyQueues:
		return textManyQueues
	case job.Overloaded:
		return textWaiting
	case job.Internal:
		return textInternal
	case job.Invalid, job.Exists, job.NotLeased, job.BadState, job.Busy, job.Waiting, job.Locked, job.Lapsing:
		return textRefused
	}
	return textInternal
}
