package faktory

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// The defaults of Options.
const (
	DefaultMaxLine = 64 << 20
	DefaultDeadMax = 1_000_000
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// Namespace is where this listener's queues are.
	Namespace string
	// Password is what clients must know; empty lets everybody in.
	Password string
	// Throttle bounds how often a client may be wrong; nil bounds nothing.
	Throttle *auth.Throttle
	// Version is that of the server, for INFO.
	Version string
	// MaxConns bounds the connections; zero is no bound.
	MaxConns int
	// MaxLine bounds a command line, in bytes.
	MaxLine int
	// DeadMax bounds the dead jobs of a queue; the oldest are dropped.
	DeadMax uint32
	// WriteTimeout bounds a write to a client that does not read.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	TLS          *tls.Config
}

// Dialect serves the protocol.
type Dialect struct {
	opts     Options
	server   *dialect.Server
	workers  registry
	started  time.Time
	known    atomic.Uint64 // commands of known verbs
	commands *dialect.Commands

	// lapsed is how many reservations had lapsed before this server started to serve.
	begin     sync.Once
	lapsed    uint64
	lapsedErr error
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
	if o.DeadMax == 0 {
		o.DeadMax = DefaultDeadMax
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opts: o, started: time.Now(), workers: registry{engine: o.Engine}, commands: dialect.NewCommands(verbNames[:]...)}
	d.server = dialect.NewServer(dialect.ServerOptions{
		Name:     d.Name(),
		Door:     dialect.DoorFaktory,
		Logger:   o.Logger,
		Handler:  d.handle,
		MaxConns: o.MaxConns,
		Reject:   func() []byte { return d.TooMany(o.MaxConns) },
		Limits:   dialect.Limits{MaxLine: o.MaxLine, WriteTimeout: o.WriteTimeout, HandshakeTimeout: helloTime},
		TLS:      o.TLS,
	})
	return d
}

// TooMany is the reply to a client that is refused because there are as many as the limit allows.
func (d *Dialect) TooMany(limit int) []byte {
	return appendErr(nil, textManyClients+strconv.Itoa(limit))
}

// Name returns "faktory".
func (d *Dialect) Name() string { return "faktory" }

// Serve serves connections of l until ctx ends; see dialect.Dialect.
func (d *Dialect) Serve(ctx context.Context, l net.Listener) error {
	if err := d.start(); err != nil {
		return errors.Join(err, l.Close())
	}
	return d.server.Serve(ctx, l)
}

// start counts once how many jobs had lapsed before.
func (d *Dialect) start() error {
	d.begin.Do(func() {
		s, err := d.opts.Engine.Sums(d.opts.Namespace)
		if err != nil {
			d.lapsedErr = fmt.Errorf("count lapsed jobs: %w", err)
		}
		d.lapsed = s.Totals[job.CountLapsed]
	})
	return d.lapsedErr
}

// Commands returns what clients have asked for.
func (d *Dialect) Commands() []dialect.CommandFigures { return d.commands.Figures() }

// Stats returns the counters of connections.
func (d *Dialect) Stats() dialect.ServerStats { return d.server.Stats() }

// Workers returns the worker processes that are connected, in the order in which they
// came.
func (d *Dialect) Workers() []Worker { return d.workers.list() }

// Signal tells a worker process, or with an empty wid all of them, to be quiet or to
// terminate: they learn it with their next BEAT and are given no more jobs. It returns
// how many there are.
func (d *Dialect) Signal(wid string, to WorkerState) int { return d.workers.signal(wid, to) }
