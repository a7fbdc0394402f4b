package masenko

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
)

// The defaults of Options.
const (
	DefaultHeartbeat  = 45 * time.Second
	DefaultMaxLine    = 16 << 20
	DefaultMaxPayload = 8 << 20
	DefaultMaxAtomic  = 32 << 20
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// Namespace is where this listener's queues are.
	Namespace string
	// Heartbeat is how long a connection may be silent.
	Heartbeat time.Duration
	// MaxConns bounds the connections; zero is no bound.
	MaxConns int
	// MaxLine bounds a request line, MaxPayload a task's payload and MaxAtomic
	// all lines of a transaction together, in bytes.
	MaxLine    int
	MaxPayload int
	MaxAtomic  int
	// WriteTimeout bounds a write to a client that does not read.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	TLS          *tls.Config
}

// Dialect serves the protocol.
type Dialect struct {
	opts     Options
	server   *dialect.Server
	counters counters
	commands *dialect.Commands
}

var _ dialect.Dialect = (*Dialect)(nil)

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.MaxAtomic <= 0 {
		o.MaxAtomic = DefaultMaxAtomic
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opts: o, commands: newCommands()}
	d.server = dialect.NewServer(dialect.ServerOptions{
		Name:     d.Name(),
		Door:     dialect.DoorMasenko,
		Logger:   o.Logger,
		Handler:  d.handle,
		MaxConns: o.MaxConns,
		Reject:   func() []byte { return d.TooMany(o.MaxConns) },
		Limits:   dialect.Limits{MaxLine: o.MaxLine, WriteTimeout: o.WriteTimeout},
		TLS:      o.TLS,
	})
	return d
}

// TooMany is the reply to a client that is refused because there are too many.
func (d *Dialect) TooMany(int) []byte {
	d.counters.responses[responseErr].Add(1)
	return appendError(nil, textTooManyClients)
}

// Name returns "masenko".
func (d *Dialect) Name() string { return "masenko" }

// Serve serves connections of l until ctx ends; see dialect.Dialect.
func (d *Dialect) Serve(ctx context.Context, l net.Listener) error { return d.server.Serve(ctx, l) }

// Commands returns what clients have asked for.
func (d *Dialect) Commands() []dialect.CommandFigures { return d.commands.Figures() }

// Stats returns the counters of connections.
func (d *Dialect) Stats() dialect.ServerStats { return d.server.Stats() }
