package beanstalkd

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
)

// The defaults of Options.
const (
	DefaultMaxJob = 65535
	// lineMax is the longest command line, with its CR LF (protocol section 1).
	lineMax = 224
	// watchMax is how many tubes a connection may watch. The original has no bound.
	watchMax = 1024
	// margin is how long before the end of a lease its holder is not to wait any more.
	margin = time.Second
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// Namespace is where this listener's tubes are.
	Namespace string
	// MaxConns bounds the connections; zero is no bound.
	MaxConns int
	// MaxJob bounds the body of a job, in bytes.
	MaxJob int
	// WriteTimeout bounds a write to a client that does not read.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	TLS          *tls.Config
}

// Dialect serves the protocol.
type Dialect struct {
	opts     Options
	server   *dialect.Server
	commands *dialect.Commands
	tubes    tubes

	// What stats tells.
	id        string
	host      string
	started   time.Time
	asked     [verbCount]atomic.Uint64
	producers atomic.Int64
	workers   atomic.Int64
	waiting   atomic.Int64
}

var _ dialect.Dialect = (*Dialect)(nil)

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.MaxJob <= 0 {
		o.MaxJob = DefaultMaxJob
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opts: o, commands: dialect.NewCommands(verbNames[:]...), id: newID(), started: time.Now()}
	d.host, _ = os.Hostname() // without a name it is empty
	d.server = dialect.NewServer(dialect.ServerOptions{
		Name:     d.Name(),
		Door:     dialect.DoorBeanstalkd,
		Logger:   o.Logger,
		Handler:  d.handle,
		MaxConns: o.MaxConns,
		Reject:   func() []byte { return d.TooMany(o.MaxConns) },
		// A body is read with its CR LF.
		Limits: dialect.Limits{MaxBlock: o.MaxJob + len(crlf), WriteTimeout: o.WriteTimeout},
		TLS:    o.TLS,
	})
	return d
}

// newID returns the name of this start of the server.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// TooMany is the reply to a client that is refused because there are too many.
func (d *Dialect) TooMany(int) []byte { return []byte(replyNoMemory) }

// Name returns "beanstalkd".
func (d *Dialect) Name() string { return "beanstalkd" }

// Serve serves connections of l until ctx ends; see dialect.Dialect.
func (d *Dialect) Serve(ctx context.Context, l net.Listener) error { return d.server.Serve(ctx, l) }

// Commands returns what clients have asked for.
func (d *Dialect) Commands() []dialect.CommandFigures { return d.commands.Figures() }

// Stats returns the counters of connections.
func (d *Dialect) Stats() dialect.ServerStats { return d.server.Stats() }
