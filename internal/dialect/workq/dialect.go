package workq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// The defaults of Options.
const (
	DefaultMaxLine    = 1 << 20
	DefaultMaxPayload = 1 << 20
	DefaultTTR        = 30 * time.Minute
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// Namespace is where this listener's queues are.
	Namespace string
	// MaxConns bounds the connections; zero is no bound.
	MaxConns int
	// MaxLine bounds a command line, MaxPayload a payload or result, in bytes.
	MaxLine    int
	MaxPayload int
	// DefaultTTR is the lease of jobs that other protocols pushed without one. A
	// lease of this protocol outlives its connection, so it must end by itself.
	DefaultTTR time.Duration
	// WriteTimeout bounds a write to a client that does not read.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	TLS          *tls.Config
}

// Dialect serves the protocol.
type Dialect struct {
	opts     Options
	server   *dialect.Server
	started  job.Time
	commands *dialect.Commands

	// base is how many jobs had expired before this server started to serve.
	begin   sync.Once
	base    uint64
	baseErr error
}

var _ dialect.Dialect = (*Dialect)(nil)

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.DefaultTTR <= 0 {
		o.DefaultTTR = DefaultTTR
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opts: o, started: job.TimeOf(time.Now()), commands: dialect.NewCommands(verbNames[:]...)}
	d.server = dialect.NewServer(dialect.ServerOptions{
		Name:     d.Name(),
		Door:     dialect.DoorWorkq,
		Logger:   o.Logger,
		Handler:  d.handle,
		MaxConns: o.MaxConns,
		Reject:   func() []byte { return d.TooMany(o.MaxConns) },
		// A line is bounded without its LF, but its CR counts; a block is read with
		// its CR LF.
		Limits: dialect.Limits{MaxLine: o.MaxLine + 1, MaxBlock: o.MaxPayload + len(crlf), WriteTimeout: o.WriteTimeout},
		TLS:    o.TLS,
	})
	return d
}

// TooMany is the reply to a client that is refused because there are too many.
func (d *Dialect) TooMany(int) []byte { return appendError(nil, textManyClients) }

// Name returns "workq".
func (d *Dialect) Name() string { return "workq" }

// Serve serves connections of l until ctx ends; see dialect.Dialect.
func (d *Dialect) Serve(ctx context.Context, l net.Listener) error {
	d.begin.Do(func() {
		d.base, d.baseErr = d.expired()
	})
	if d.baseErr != nil {
		return errors.Join(fmt.Errorf("count expired jobs: %w", d.baseErr), l.Close())
	}
	return d.server.Serve(ctx, l)
}

// Commands returns what clients have asked for.
func (d *Dialect) Commands() []dialect.CommandFigures { return d.commands.Figures() }

// Stats returns the counters of connections.
func (d *Dialect) Stats() dialect.ServerStats { return d.server.Stats() }
