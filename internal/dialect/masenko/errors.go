package masenko

import (
	"strconv"

	"millrace/internal/job"
)

// The error texts, byte for byte as the protocol has them where it has them.
const (
	textPayload        = "cannot unmarshal payload"
	textUnmarshal      = "unmarshal payload: "
	textMissingID      = "missing id"
	textNotAcquired    = "task not acquired"
	textTimeoutZero    = "timeout must be greater than zero"
	textTimeoutLarge   = "timeout must be smaller than the heartbeat frequency "
	textNoHeartbeat    = "no heartbeat"
	textUnknownVerb    = "unknown verb "
	textNotAllowed     = " is not allowed in transaction."
	textTaskName       = "invalid task name "
	textQueueName      = "invalid queue name "
	textDeadQueueName  = "invalid deadqueue name "
	textInput          = "cannot push to queue: wall append: serialize operation: input: "
	textQueueNameLong  = textInput + "queue name too long"
	textTaskNameLong   = textInput + "task name too long"
	textPayloadBig     = textInput + "arguments too big"
	textManyBlockers   = "at most 255 blocked by task IDs can be provided"
	textRelative       = "cannot use relative blocked by outside of a transaction"
	textRelativeFar    = "invalid relative task position in blocked by"
	textSelfReference  = "cannot self reference in blocked by"
	textAtomicBig      = "transaction too big"
	textLineLong       = "line too long"
	textManyQueues     = "too many queues"
	textTooManyClients = "too many clients"
	textFull           = "cannot push to queue: queue is full"
	textNoSpace        = "cannot push to queue: no space left on the server"
	textDraining       = "server is shutting down"
	textInternal       = "internal server error"
	textInvalid        = "invalid request"
	textWaiting        = "too many waiting clients"
)

// refusal is the text for a refusal of the engine.
func refusal(kind job.Kind) string {
	switch kind {
	case job.NotFound, job.NotLeased, job.NotOwner, job.Finished, job.BadState:
		return textNotAcquired
	case job.Full:
		return textFull
	case job.TooLarge:
		return textPayloadBig
	case job.NoSpace:
		return textNoSpace
	case job.Draining, job.Timeout, job.Canceled:
		return textDraining
	case job.ManyQueues:
		return textManyQueues
	case job.Overloaded:
		return textWaiting
	case job.Internal:
		return textInternal
	case job.Invalid, job.Duplicate, job.Exists, job.Busy, job.Waiting, job.Locked, job.Lapsing:
		return textInvalid
	}
	return textInternal
}

// quoted returns text followed by name in quotes.
func quoted(text string, name []byte) string { return text + strconv.Quote(string(name)) }

// inMessage returns the text of an error in the i-th line of a transaction.
func inMessage(i int, v verb, text string) string {
	return "message " + strconv.Itoa(i) + ": " + verbNames[v] + ": " + text
}
