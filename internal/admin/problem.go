package admin

import (
	"errors"
	"fmt"
	"net/http"

	"millrace/internal/job"
)

// Problem is a refusal as RFC 9457 describes it. It is the error of every method of
// Service that refuses something; any other error is a fault of the server.
type Problem struct { //nolint:errname // the RFC's name, which is also what others see
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// State is where the job stands now, if that is why nothing was done.
	State string `json:"state,omitempty"`
}

// Error returns what happened.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// IsNoLeader reports whether no node of the cluster leads, or none can be reached that does.
func (p *Problem) IsNoLeader() bool { return p.Type == problemNoLeader.problem("").Type }

// problemKind is one of the problems there are.
type problemKind struct {
	name   string
	status int
	title  string
}

// The problems.
var (
	problemInvalid      = problemKind{"invalid", http.StatusBadRequest, "The request is not valid"}
	problemCursor       = problemKind{"cursor", http.StatusBadRequest, "The cursor does not belong to this list"}
	problemLogin        = problemKind{"login", http.StatusUnauthorized, "A password or token is needed"}
	problemForbidden    = problemKind{"forbidden", http.StatusForbidden, "This needs the operator role"}
	problemCrossSite    = problemKind{"cross-site", http.StatusForbidden, "Requests of other sites are refused"}
	problemHost         = problemKind{"host", http.StatusMisdirectedRequest, "The request is for another host"}
	problemLocalOnly    = problemKind{"local-only", http.StatusForbidden, "Only this machine may ask for this"}
	problemNotFound     = problemKind{"not-found", http.StatusNotFound, "There is no such thing"}
	problemMethod       = problemKind{"method", http.StatusMethodNotAllowed, "The method does not apply here"}
	problemStale        = problemKind{"stale", http.StatusConflict, "The job has moved on"}
	problemConflict     = problemKind{"conflict", http.StatusConflict, "It cannot be done now"}
	problemTooLarge     = problemKind{"too-large", http.StatusRequestEntityTooLarge, "The request is too large"}
	problemMedia        = problemKind{"media-type", http.StatusUnsupportedMediaType, "The request must be JSON"}
	problemTooMany      = problemKind{"too-many", http.StatusTooManyRequests, "There are too many of these at the moment"}
	problemInternal     = problemKind{"internal", http.StatusInternalServerError, "The server is at fault; its log says why"}
	problemDraining     = problemKind{"draining", http.StatusServiceUnavailable, "The server is stopping"}
	problemNoLeader     = problemKind{"no-leader", http.StatusServiceUnavailable, "No node of the cluster leads"}
	problemInsufficient = problemKind{"no-space", http.StatusInsufficientStorage, "The disk is nearly full"}
)

// problem makes one with a detail.
func (k problemKind) problem(format string, args ...any) *Problem {
	return &Problem{
		Type: "urn:millrace:problem:" + k.name, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...),
	}
}

func invalid(format string, args ...any) *Problem { return problemInvalid.problem(format, args...) }

func notFound(format string, args ...any) *Problem { return problemNotFound.problem(format, args...) }

// refusal turns a refusal of the engine into a problem. Other errors stay what they are.
func refusal(err error) error {
	refused, ok := errors.AsType[*job.Error](err)
	if !ok {
		return err
	}
	return kindOf(refused.Kind).problem("%s", refused.Text)
}

func kindOf(k job.Kind) problemKind {
	switch k {
	case job.NotFound:
		return problemNotFound
	case job.Invalid:
		return problemInvalid
	case job.TooLarge:
		return problemTooLarge
	case job.BadState, job.Finished, job.NotLeased, job.NotOwner:
		return problemStale
	case job.Duplicate, job.Exists, job.Full, job.Busy, job.Waiting, job.Locked, job.Lapsing:
		return problemConflict
	case job.Overloaded, job.ManyQueues:
		return problemTooMany
	case job.NoSpace:
		return problemInsufficient
	case job.Draining, job.Canceled, job.Timeout:
		return problemDraining
	case job.Internal:
		return problemInternal
	}
	return problemInternal
}

// asProblem returns the problem to show for an error, and whether it is a fault of the
// server that belongs into the log.
func asProblem(err error) (p *Problem, fault bool) {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p, p.Status == http.StatusInternalServerError
	}
	if p, ok := errors.AsType[*Problem](refusal(err)); ok {
		return p, p.Status == http.StatusInternalServerError
	}
	return problemInternal.problem("nothing is known to have been done"), true
}
