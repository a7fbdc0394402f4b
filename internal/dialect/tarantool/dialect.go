package tarantool

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/engine"
)

// The defaults of Options.
const (
	DefaultMaxPacket   = 64 << 20
	DefaultMaxInFlight = 768
	DefaultMaxWaiting  = 10_000
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// Namespace is where this listener's queues are.
	Namespace string
	// Users are the passwords of those who may log in. RequireLogin refuses
	// procedures to everybody else.
	Users map[string]string
	// Throttle bounds how often a client may be wrong; nil bounds nothing.
	Throttle     *auth.Throttle
	RequireLogin bool
	// MaxConns bounds the connections of a listener; zero is no bound.
	MaxConns int
	// MaxPacket bounds a request in bytes.
	MaxPacket int
	// MaxInFlight bounds how many requests of a connection are in work at a time,
	// MaxWaiting how many more of its calls may wait for a task or for room.
	MaxInFlight int
	MaxWaiting  int
	// SessionTTR is how long the tasks of a queue session stay taken after its last
	// connection has ended, until a client sets it.
	SessionTTR time.Duration
	// WriteTimeout bounds a write to a client that does not read.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	// TLS, if set, is spoken on every connection, except by Tarantool 1.5.
	TLS *tls.Config
}

// Dialect serves the protocol.
type Dialect struct {
	opts     Options
	instance dialect.UUID
	started  time.Time
	users    users
	server   *dialect.Server
	server15 *dialect.Server
	legacy   legacyStats
	tubes    tubes
	sessions sessions

	commands   *dialect.Commands
	commands15 *dialect.Commands
}

var _ dialect.Dialect = (*Dialect)(nil)

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.MaxPacket <= 0 {
		o.MaxPacket = DefaultMaxPacket
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opts: o, instance: newUUID(), started: time.Now(), users: newUsers(o.Users)}
	d.commands, d.commands15 = newCommands(false), newCommands(true)
	d.sessions.init(o.SessionTTR)
	d.server = d.newServer(d.Name(), o.TLS, d.commands, func() wire { return newIProto(d) })
	d.server15 = d.newServer(name15, nil, d.commands15, func() wire { return new(box15) })
	return d
}

// newServer returns what serves the connections of one of the wire protocols.
func (d *Dialect) newServer(name string, secure *tls.Config, commands *dialect.Commands, newWire func() wire) *dialect.Server {
	return dialect.NewServer(dialect.ServerOptions{
		Name:     name,
		Door:     dialect.DoorTarantool,
		Logger:   d.opts.Logger,
		Handler:  func(c *dialect.Conn) error { return d.handle(c, commands, newWire()) },
		MaxConns: d.opts.MaxConns,
		Limits:   dialect.Limits{WriteTimeout: d.opts.WriteTimeout},
		TLS:      secure,
	})
}

// newUUID returns a random UUID (version 4).
func newUUID() (u dialect.UUID) {
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// Name returns "tarantool".
func (d *Dialect) Name() string { return "tarantool" }

// Serve serves connections of l until ctx ends; see dialect.Dialect.
func (d *Dialect) Serve(ctx context.Context, l net.Listener) error {
	if err := d.legacy.start(d.opts.Engine); err != nil {
		return errors.Join(err, l.Close())
	}
	return d.server.Serve(ctx, l)
}

// Commands returns what clients have asked for.
func (d *Dialect) Commands() []dialect.CommandFigures { return d.commands.Figures() }

// Stats returns the counters of connections.
func (d *Dialect) Stats() dialect.ServerStats { return d.server.Stats() }
