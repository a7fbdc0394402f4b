package dialect

import (
	"context"
	"net/http"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/config"
	"millrace/internal/job"
)

// Spec describes a protocol to the server that it is a part of.
type Spec struct {
	config.Spec
	// New makes what serves the listeners of one namespace, which the host names. If the protocol has no listeners, it
	// is made once.
	New func(h *Host) (Service, error)
}

// Host is the server that a protocol is a part of.
type Host struct {
	Options // those that come from the server, and not from the settings of the protocol
	Config  *config.Config
	Version string
	// Logins bounds how often a client may be wrong with a secret.
	Logins *auth.Throttle
	// Site returns what refuses requests of web pages of other sites.
	Site func(auth.SiteOptions) *auth.Site
}

// Common returns the options that all protocols have.
func (h *Host) Common(c *config.Protocol) Options {
	o := h.Options
	o.MaxConns, o.WriteTimeout = c.MaxConnections, c.WriteTimeout
	return o
}

// Mounted is a protocol that has no listener: its calls are a part of the operator's API.
type Mounted interface {
	// Routes are the calls.
	Handlers() map[string]api.Handler
	// Push does what the call of that name does, for the form of the web UI.
	Push(ctx context.Context, namespace, queue string, jobs []*api.NewJob) (api.PushResult, error)
	// AddNames adds the names that holders have told.
	AddNames(to map[job.Holder]string)
}

// Service serves the listeners of a protocol in one namespace, or is mounted.
type Service struct {
	Dialect
	// Wires serve the listeners with a role that is another wire protocol, HTTP those whose role is a side interface.
	Wires map[string]*Server
	HTTP  map[string]http.Handler
	// Mounted is set if the protocol has no listener, and nothing else then is.
	Mounted Mounted
}
