package rest

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// DefaultMaxBody bounds a request that carries bodies or results.
const DefaultMaxBody = 8 << 20

// settleMaxBody bounds a request that carries none.
const settleMaxBody = 1 << 20

// Options configures the protocol. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// MaxBody bounds a request that carries bodies or results, in bytes.
	MaxBody int
	// ReadTimeout bounds the arrival of a request to push, WriteTimeout the time in which an answer is read after that,
	// or after the wait of a fetch.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
}

// Dialect serves the protocol.
type Dialect struct {
	opts  Options
	names names
}

var _ dialect.Mounted = (*Dialect)(nil)

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, api.LargeTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, api.ReplyTimeout)
	return &Dialect{opts: o}
}

// Spec describes the protocol to the server. It has nothing to set.
func Spec() dialect.Spec {
	return dialect.Spec{
		Spec: config.Spec{Name: dialect.DoorName(dialect.DoorAdmin)},
		New: func(h *dialect.Host) (dialect.Service, error) {
			return dialect.Service{Mounted: New(Options{Engine: h.Engine})}, nil
		},
	}
}

// Routes are the calls.
func (d *Dialect) Routes() []api.Route {
	large, small := int64(d.opts.MaxBody), int64(min(d.opts.MaxBody, settleMaxBody))
	return []api.Route{
		{Method: http.MethodPost, Path: api.PathQueue + "/jobs", MaxBody: large, Handle: d.pushJobs},
		{Method: http.MethodPost, Path: api.PathNamespace + "/fetch", MaxBody: small, Handle: d.fetchJobs},
		{Method: http.MethodPost, Path: api.PathJob + "/ack", MaxBody: large, Handle: d.ackJob},
		{Method: http.MethodPost, Path: api.PathJob + "/fail", MaxBody: small, Handle: d.failJob},
		{Method: http.MethodPost, Path: api.PathJob + "/extend", MaxBody: small, Handle: d.extendJob},
		{Method: http.MethodPost, Path: api.PathJob + "/release", MaxBody: small, Handle: d.releaseJob},
	}
}

// AddNames adds what workers have told about themselves.
func (d *Dialect) AddNames(to map[job.Holder]string) { d.names.add(to) }

// do runs one command.
func (d *Dialect) do(ctx context.Context, cmd job.Command) job.Result {
	return d.opts.Engine.NewCallerAt(dialect.DoorAdmin).Do(ctx, cmd)[0]
}
