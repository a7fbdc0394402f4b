package lmstfy

import (
	"net/http"

	"millrace/internal/job"
)

// The error texts, byte for byte as the protocol has them.
const (
	textNotAPI      = "api not found"
	textNameTooLong = "namespace or queue name too long"
	textNamespace   = "namespace name contains forbidden characters"
	textQueue       = "queue name contains forbidden characters"
	textPool        = "pool not found"
	textNoToken     = "token not found"
	textToken       = "invalid token"
	textTooMany     = "too many invalid tokens from this address, please retry later" // not of the original
	textDelay       = "invalid delay"
	textTTL         = "invalid ttl"
	textShortTTL    = "ttl is shorter than delay"
	textTries       = "invalid tries"
	textGroup       = "group is longer than 255 bytes"
	textZeroTries   = "tries shouldn't be zero"
	textBody        = "failed to read body"
	textBodyLarge   = "body too large"
	textBusy        = "too many long bodies at a time"
	textAttributes  = "too many attributes, cannot exceed 16"
	textNotArray    = "request body should be an array of objects"
	textNoJobs      = "no jobs"
	textManyJobs    = "too many jobs"
	textTTR         = "invalid ttr"
	textTimeout     = "invalid timeout"
	textCount       = "invalid count"
	textQueues      = "invalid queue name(s)"
	textLimit       = "invalid limit"
	textQueueEmpty  = "the queue is empty"
	textNoJob       = "job not found"
	textInternal    = "internal error"

	// Not of the original, which has no such limits.
	textNoSpace    = "no space left for new jobs"
	textFull       = "the queue is full"
	textDraining   = "server is shutting down"
	textManyQueues = "too many queues"
	textWaiting    = "too many waiting consumers"
)

// refusal is the answer to a refusal of the engine that the route itself knows no
// better answer to. Clients repeat a call that is answered with 500 or more.
func refusal(kind job.Kind) (status int, text string) {
	switch kind {
	case job.NotFound:
		return http.StatusNotFound, textNoJob
	case job.TooLarge:
		return http.StatusRequestEntityTooLarge, textBodyLarge
	case job.NoSpace:
		return http.StatusServiceUnavailable, textNoSpace
	case job.Full:
		return http.StatusServiceUnavailable, textFull
	case job.ManyQueues:
		return http.StatusServiceUnavailable, textManyQueues
	case job.Overloaded:
		return http.StatusServiceUnavailable, textWaiting
	case job.Draining, job.Canceled:
		return http.StatusServiceUnavailable, textDraining
	case job.Internal, job.Invalid, job.Duplicate, job.Exists, job.NotLeased, job.NotOwner, job.Finished, job.BadState,
		job.Locked, job.Busy, job.Waiting, job.Timeout, job.Lapsing:
	}
	return http.StatusInternalServerError, textInternal
}
