package api

import (
	"errors"
	"fmt"
	"net/http"

	"millrace/internal/job"
)

// Problem is a refusal as RFC 9457 describes it. It is the error of everything that refuses
// something; any other error is a fault of the server.
type Problem struct { //nolint:errname // the RFC's name, which is also what others see
	Type   string `json:"type"` // a URN that names the kind of problem
	Title  string `json:"title"`
	Status int    `json:"status" api:"minimum=400 maximum=599"`
	Detail string `json:"detail,omitempty"`
	// Where the job stands now, if that is why nothing was done.
	State string `json:"state,omitempty" api:"is=State"`
}

// Error returns what happened.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// IsNoLeader reports whether no node of the cluster leads, or none can be reached that does.
func (p *Problem) IsNoLeader() bool { return p.Type == ProblemNoLeader.URN() }

// ProblemKind is one of the problems there are.
type ProblemKind struct {
	name   string
	status int
	title  string
}

// ProblemKinds are all of them.
var ProblemKinds []ProblemKind

func newKind(name string, status int, title string) ProblemKind {
	k := ProblemKind{name, status, title}
	ProblemKinds = append(ProblemKinds, k)
	return k
}

// The problems.
var (
	ProblemInvalid   = newKind("invalid", http.StatusBadRequest, "The request is not valid")
	ProblemCursor    = newKind("cursor", http.StatusBadRequest, "The cursor does not belong to this list")
	ProblemLogin     = newKind("login", http.StatusUnauthorized, "A password or token is needed")
	ProblemForbidden = newKind("forbidden", http.StatusForbidden, "This needs the operator role")
	ProblemCrossSite = newKind("cross-site", http.StatusForbidden, "Requests of other sites are refused")
	ProblemHost      = newKind("host", http.StatusMisdirectedRequest, "The request is for another host")
	ProblemLocalOnly = newKind("local-only", http.StatusForbidden, "Only this machine may ask for this")
	ProblemNotFound  = newKind("not-found", http.StatusNotFound, "There is no such thing")
	ProblemMethod    = newKind("method", http.StatusMethodNotAllowed, "The method does not apply here")
	ProblemStale     = newKind("stale", http.StatusConflict, "The job has moved on")
	ProblemConflict  = newKind("conflict", http.StatusConflict, "It cannot be done now")
	ProblemTooLarge  = newKind("too-large", http.StatusRequestEntityTooLarge, "The request is too large")
	ProblemMedia     = newKind("media-type", http.StatusUnsupportedMediaType, "The request must be JSON")
	ProblemTooMany   = newKind("too-many", http.StatusTooManyRequests, "There are too many of these at the moment")
	ProblemInternal  = newKind("internal", http.StatusInternalServerError,
		"The server is at fault; its log says why")
	ProblemDraining     = newKind("draining", http.StatusServiceUnavailable, "The server is stopping")
	ProblemNoLeader     = newKind("no-leader", http.StatusServiceUnavailable, "No node of the cluster leads")
	ProblemInsufficient = newKind("no-space", http.StatusInsufficientStorage, "The disk is nearly full")
)

// New makes one with a detail.
func (k ProblemKind) New(format string, args ...any) *Problem {
	return &Problem{
		Type: k.URN(), Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...),
	}
}

// Invalid refuses a request that is not valid.
func Invalid(format string, args ...any) *Problem { return ProblemInvalid.New(format, args...) }

// NotFound refuses a request for something that is not there.
func NotFound(format string, args ...any) *Problem { return ProblemNotFound.New(format, args...) }

// Refusal turns a refusal of the engine into a problem. Other errors stay what they are.
func Refusal(err error) error {
	refused, ok := errors.AsType[*job.Error](err)
	if !ok {
		return err
	}
	return ProblemOf(refused.Kind).New("%s", refused.Text)
}

// ProblemOf returns what the refusal of a kind is to those who asked.
func ProblemOf(k job.Kind) ProblemKind {
	switch k {
	case job.NotFound:
		return ProblemNotFound
	case job.Invalid:
		return ProblemInvalid
	case job.TooLarge:
		return ProblemTooLarge
	case job.BadState, job.Finished, job.NotLeased, job.NotOwner:
		return ProblemStale
	case job.Duplicate, job.Exists, job.Full, job.Busy, job.Waiting, job.Locked, job.Lapsing:
		return ProblemConflict
	case job.Overloaded, job.ManyQueues:
		return ProblemTooMany
	case job.NoSpace:
		return ProblemInsufficient
	case job.Draining, job.Canceled, job.Timeout:
		return ProblemDraining
	case job.Internal:
		return ProblemInternal
	}
	return ProblemInternal
}

// AsProblem returns the problem to show for an error, and whether it is a fault of the
// server that belongs into the log.
func AsProblem(err error) (p *Problem, fault bool) {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p, p.Status == http.StatusInternalServerError
	}
	if p, ok := errors.AsType[*Problem](Refusal(err)); ok {
		return p, p.Status == http.StatusInternalServerError
	}
	return ProblemInternal.New("nothing is known to have been done"), true
}

// Name is the end of a problem's type.
func (k ProblemKind) Name() string { return k.name }

// URN is a problem's type.
func (k ProblemKind) URN() string { return "urn:millrace:problem:" + k.name }

// Status is the code that it is answered with.
func (k ProblemKind) Status() int { return k.status }

// Title tells it in words.
func (k ProblemKind) Title() string { return k.title }
