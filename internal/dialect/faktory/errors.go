package faktory

import "millrace/internal/job"

// The error texts, byte for byte as the protocol has them where it has them (protocol
// section 6). A line is "-ERR " and a text.
const (
	textUnknownCommand = "unknown command "
	textJSON           = "invalid JSON: "
	textNotObject      = "not a JSON object"
	textNotArray       = "not a JSON array"
	textNotTime        = "not an RFC 3339 time"
	textJID            = "jobs must have a reasonable jid parameter"
	textJobtype        = "jobs must have a jobtype parameter"
	textArgs           = "jobs must have an args parameter"
	textReserve        = "jobs cannot be reserved for more than one day"
	textTimestamp      = "invalid timestamp for '"
	textQueueName      = "queue names must match \\A[a-zA-Z0-9._-]+\\z"
	textQueueNameLong  = "queue names must have at most 255 bytes"
	textNoQueues       = "must call fetch with at least one queue"
	textManyQueues     = "too many queues"
	textInvalidAck     = "invalid ACK "
	textInvalidFail    = "invalid FAIL "
	textInvalidBeat    = "invalid BEAT "
	textInvalidTrack   = "invalid TRACK "
	textInvalidBatch   = "invalid BATCH "
	textMissingJID     = "missing JID"
	textNoJob          = "Job not found "
	textUnknownWorker  = "unknown worker "
	textQueueUsage     = "QUEUE requires a subcommand and queue names"
	textQueueSub       = "no such QUEUE subcommand: "
	textNoWildcard     = "QUEUE LATENCY does not support wildcards"
	textTrackSub       = "no such TRACK subcommand: "
	textBatchSub       = "no such BATCH subcommand: "
	textFormat         = "invalid format"
	textMutateCommand  = "unknown mutate operation"
	textMutateTarget   = "invalid target for mutation command"
	textMutatePattern  = "regexp is longer than 1024 bytes"
	textNoBatch        = "No such batch "
	textNoCallback     = "batches must have a success or complete callback"

	textFirstHello  = "the first command must be HELLO {...}"
	textHello       = "invalid HELLO: "
	textPassword    = "Invalid password"
	textTooMany     = "Too many invalid passwords from this address, try again in a few seconds"
	textManyClients = "too many connections: "
	textTooLong     = "command too long"
	textShutdown    = "shutdown in progress"

	textHeld     = "job is held by a worker of another protocol"
	textFull     = "queue is full"
	textNoSpace  = "no space left for new jobs"
	textInternal = "internal error"
	textRefused  = "command refused"
	textWaiting  = "too many waiting clients"

	// lineNotUnique is a line, and a text within PUSHB, with a code of its own.
	lineNotUnique = "NOTUNIQUE Job not unique"
)

// codeErr is the code of all other errors.
const codeErr = "ERR "

// refusal is the text for a refusal of the engine, with its code.
func refusal(kind job.Kind) string {
	switch kind {
	case job.Locked:
		return lineNotUnique
	case job.NotOwner:
		return codeErr + textHeld
	case job.Full:
		return codeErr + textFull
	case job.NoSpace:
		return codeErr + textNoSpace
	case job.Draining, job.Timeout, job.Canceled:
		return codeErr + textShutdown
	case job.ManyQueues:
		return codeErr + textManyQueues
	case job.Overloaded:
		return codeErr + textWaiting
	case job.Internal:
		return codeErr + textInternal
	case job.TooLarge:
		return codeErr + textTooLong
	case job.Invalid, job.NotFound, job.Duplicate, job.Exists, job.NotLeased, job.Finished, job.BadState, job.Busy,
		job.Waiting, job.Lapsing:
		return codeErr + textRefused
	}
	return codeErr + textInternal
}
