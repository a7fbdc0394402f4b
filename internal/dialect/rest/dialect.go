package rest

import (
	"cmp"
	"context"
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

// Handlers are what handles the calls.
func (d *Dialect) Handlers() map[string]api.Handler {
	large, small := int64(d.opts.MaxBody), int64(min(d.opts.MaxBody, settleMaxBody))
	return map[string]api.Handler{
		"pushJobs":   {MaxBody: large, Handle: d.pushJobs},
		"fetchJobs":  {MaxBody: small, Handle: d.fetchJobs},
		"ackJob":     {MaxBody: large, Handle: d.ackJob},
		"failJob":    {MaxBody: small, Handle: d.failJob},
		"extendJob":  {MaxBody: small, Handle: d.extendJob},
		"releaseJob": {MaxBody: small, Handle: d.releaseJob},
	}
}

// AddNames adds what workers have told about themselves.
func (d *Dialect) AddNames(to map[job.Holder]string) { d.names.add(to) }

// do runs one command.
func (d *Dialect) do(ctx context.Context, cmd job.Command) job.Result {
	return d.opts.Engine.NewCallerAt(dialect.DoorAdmin).Do(ctx, cmd)[0]
}
