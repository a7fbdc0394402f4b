package lmstfy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
)

// The defaults of Options.
const (
	DefaultMaxBody     = 65535
	DefaultMaxHeader   = 32 << 10
	DefaultReadTimeout = 30 * time.Second
	DefaultIdleTimeout = 5 * time.Minute
)

// Defaults are what a request means that does not say otherwise; times in seconds.
type Defaults struct {
	TTL, Delay, TTR, Timeout uint32
	Tries                    uint16
}

// StandardDefaults are those of the protocol.
var StandardDefaults = Defaults{TTL: 86400, TTR: 120, Tries: 1}

// Options configures the protocol. Zero values get defaults.
type Options struct {
	dialect.Options
	// Auth asks for tokens. Without it any namespace is open to everybody.
	Auth bool
	// Pools are the key spaces besides the one called "default".
	Pools []string
	// Accounts are the passwords of those who may use the guarded part of the admin API; without any it
	// is open.
	Accounts map[string]string
	// Site and AdminSite refuse what web pages of other sites ask of the public and of the admin API; nil refuses
	// nothing.
	Site      *auth.Site
	AdminSite *auth.Site
	// Throttle bounds how often a client may be wrong with its token or account; nil bounds nothing.
	Throttle *auth.Throttle
	Defaults Defaults
	// MaxBody bounds a job, MaxHeader the head of a request, in bytes.
	MaxBody   int
	MaxHeader int
	// ReadTimeout bounds the arrival of a request, IdleTimeout the time between two requests. A client that does not
	// read its answer has at least WriteTimeout and at most twice that time.
	ReadTimeout time.Duration
	IdleTimeout time.Duration
	// AccessLog logs every request, until somebody turns it off.
	AccessLog bool
	Version   string
}

// Dialect serves the protocol.
type Dialect struct {
	opts       Options
	pools      map[string]*pool
	registry   *registry
	ids        idSource
	exchanges  sync.Pool
	accessLog  atomic.Bool
	conns      atomic.Int64 // open now, over all listeners
	accepted   atomic.Int64 // connections so far, without those
	rejected   atomic.Int64 // that were beyond the bound
	handshakes atomic.Int64 // connections that did not come to speak TLS
	commands   *dialect.Commands
	sizes      sizes
	load       func() error // reads the tokens, once
}

var _ dialect.Dialect = (*Dialect)(nil)

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.setDefaults()
	d := &Dialect{
		opts: o, pools: map[string]*pool{poolDefault: newPool(poolDefault)}, registry: newRegistry(o.Engine),
		commands: newCommands(),
	}
	for _, name := range o.Pools {
		if d.pools[name] == nil {
			d.pools[name] = newPool(name)
		}
	}
	d.exchanges.New = d.newExchange
	d.accessLog.Store(o.AccessLog)
	d.load = sync.OnceValue(d.registry.load)
	return d
}

func (o *Options) setDefaults() {
	o.SetDefaults()
	o.Defaults = cmp.Or(o.Defaults, StandardDefaults)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxHeader = cmp.Or(o.MaxHeader, DefaultMaxHeader)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, DefaultReadTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
}

// Name returns "lmstfy".
func (d *Dialect) Name() string { return "lmstfy" }

// Stats returns the counters of connections.
func (d *Dialect) Stats() dialect.ServerStats {
	return dialect.ServerStats{
		Open: d.conns.Load(), Total: d.accepted.Load(), Rejected: d.rejected.Load(),
		Handshakes: d.handshakes.Load(),
	}
}

// Commands returns what clients have asked for.
func (d *Dialect) Commands() []dialect.CommandFigures { return d.commands.Figures() }

// Serve serves the public API on l until ctx ends; see dialect.Dialect.
func (d *Dialect) Serve(ctx context.Context, l net.Listener) error {
	if err := d.load(); err != nil {
		return errors.Join(fmt.Errorf("load tokens: %w", err), l.Close())
	}
	hs := d.httpServer()
	g := &gate{Listener: d.opts.Shared.Paced(hs, l), d: d, conns: make(map[*conn]struct{})}
	var nl net.Listener = g
	if d.opts.TLS != nil {
		nl = tls.NewListener(g, d.opts.TLS)
	}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		g.dropUnused()
		// It closes the listener and what is idle, and waits for the rest. Those who wait for a
		// job are answered by the engine's own Drain.
		drained <- hs.Shutdown(context.WithoutCancel(ctx))
	})
	err := hs.Serve(nl)
	if stop() {
		return errors.Join(fmt.Errorf("serve %s: %w", d.Name(), err), hs.Close())
	}
	if err := <-drained; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("drain %s: %w", d.Name(), err)
	}
	return nil
}

// holderKey is that of the holder of a connection: what is fetched over one connection is in the hands of one worker.
type holderKey struct{}

// httpServer returns the server of the public API. The time of a whole request is
// bounded, because that of a head and of a body are then one deadline; a consumer that
// waits lifts it.
func (d *Dialect) httpServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      http.HandlerFunc(d.serveHTTP),
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  d.opts.ReadTimeout,
		WriteTimeout:                 2 * d.opts.WriteTimeout, // from the head of the request on: see answerTime
		IdleTimeout:                  d.opts.IdleTimeout,
		MaxHeaderBytes:               d.opts.MaxHeader,
		ConnState:                    d.noteState,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, holderKey{}, d.opts.Engine.NewHolder())
		},
		// Whatever a peer does is not worth more than a debug line.
		ErrorLog:  slog.NewLogLogger(d.opts.Logger.With(slog.String("dialect", d.Name())).Handler(), slog.LevelDebug),
		Protocols: protocols,
	}
}
