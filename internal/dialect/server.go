package dialect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Handler serves one connection until it ends and returns why it ended; nil
// after an ordinary end. The server closes the connection.
type Handler func(c *Conn) error

// Options are what every protocol is configured with. Zero values get defaults.
type Options struct {
	Engine *engine.Engine
	// Namespace is where this listener's queues are.
	Namespace string
	// MaxConns bounds the connections; zero is no bound.
	MaxConns int
	// WriteTimeout bounds a write to a client that does not read.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	// TLS, if set, is spoken on every connection.
	TLS *tls.Config
	// Shared is what the protocols of a server share.
	Shared *Shared
}

// SetDefaults gives zero values their defaults.
func (o *Options) SetDefaults() {
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Shared == nil {
		o.Shared = NewShared(0, 0)
	}
}

// ServerOptions configures a Server.
type ServerOptions struct {
	Options
	// Name is the protocol's, and Door its number, under which requests are counted.
	Name    string
	Door    job.Door
	Handler Handler
	// Commands are what clients ask for.
	Commands *Commands
	// Reject, if set, returns what a connection is told that is refused because there are as many as the limit allows.
	Reject func(limit int) []byte
	Limits Limits // without the time of a write
	// Start, if set, is called once, before the first connection is served. Its error ends every Serve.
	Start func() error
}

// Server accepts connections and runs a Handler for each. It may serve several
// listeners, which then share the bound on connections. Protocols embed it.
type Server struct {
	opts  ServerOptions
	start func() error
	stats struct{ open, total, rejected, handshakes, unfinished, slow, foreign atomic.Int64 }
	// When the operator was last told of too much input, and of peers that speak another protocol, in seconds since
	// 1970.
	toldInput, toldForeign atomic.Int64
}

// NewServer returns a Server.
func NewServer(o ServerOptions) *Server {
	o.SetDefaults()
	o.Limits.WriteTimeout = o.WriteTimeout
	o.Limits = o.Limits.withDefaults()
	s := &Server{opts: o}
	if o.Start != nil {
		s.start = sync.OnceValue(o.Start)
	}
	return s
}

// Name returns the protocol's name.
func (s *Server) Name() string { return s.opts.Name }

// Commands returns what clients have asked for.
func (s *Server) Commands() []CommandFigures { return s.opts.Commands.Figures() }

// TooMany is the reply to a client that is refused because there are as many as the limit allows; empty if there is
// none.
func (s *Server) TooMany(limit int) []byte {
	if s.opts.Reject == nil {
		return nil
	}
	return s.opts.Reject(limit)
}

// ReadFailed returns which refusal the error of a read of the engine is. One that is none is logged: the client learns
// nothing of it.
func (s *Server) ReadFailed(err error) job.Kind {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		return refused.Kind
	}
	s.opts.Logger.Error("cannot read jobs", slog.String("dialect", s.opts.Name), slog.Any("error", err))
	return job.Internal
}

// NewPipeline returns the pipeline of a connection, which counts what clients ask for.
func (s *Server) NewPipeline(c *Conn) Pipeline {
	return Pipeline{Conn: c, engine: s.opts.Engine, tally: NewTally(s.opts.Commands, c)}
}

// ServerStats are the counters of a Server.
type ServerStats struct {
	Open     int64 // connections open now
	Total    int64 // connections accepted so far, rejected ones not included
	Rejected int64 // connections closed because of the bound
	// Handshakes are the connections that were closed because they did not come to speak TLS, Unfinished those
	// because all together had sent too much of unfinished requests, Slow those whose request did not arrive in time,
	// Foreign those whose peers spoke another protocol.
	Handshakes int64
	Unfinished int64
	Slow       int64
	Foreign    int64
}

// Stats returns the counters.
func (s *Server) Stats() ServerStats {
	return ServerStats{
		Open: s.stats.open.Load(), Total: s.stats.total.Load(), Rejected: s.stats.rejected.Load(),
		Handshakes: s.stats.handshakes.Load(), Unfinished: s.stats.unfinished.Load(),
		Slow: s.stats.slow.Load(), Foreign: s.stats.foreign.Load(),
	}
}

const (
	keepAliveIdle     = time.Minute
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 4
	// rejectsMax bounds the connections that are being told that they are too
	// many; those beyond are closed without a word.
	rejectsMax    = 64
	rejectTimeout = time.Second
	backoffMin    = 5 * time.Millisecond
	backoffMax    = time.Second
	// tellSeconds is how often the operator is told the same thing at most.
	tellSeconds = 60
)

// Serve accepts connections on l until ctx ends, then drains: see Dialect.Serve.
// It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.start != nil {
		if err := s.start(); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	r := &run{server: s, conns: make(map[*Conn]struct{})}
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		_ = l.Close() // ends the Accept in progress
		r.drain()
	})
	err := r.accept(ctx, l)
	if stop() {
		// Accept failed by itself: what AfterFunc would have done is done here.
		_ = l.Close()
		r.drain()
	} else {
		<-drained
	}
	r.wg.Wait()
	return err
}

// run is the serving of one listener.
type run struct {
	server  *Server
	wg      sync.WaitGroup // the connections' goroutines
	rejects atomic.Int64   // connections being rejected

	mu       sync.Mutex // guards what follows
	conns    map[*Conn]struct{}
	draining bool
}

func (r *run) accept(ctx context.Context, l net.Listener) error {
	var backoff time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			backoff = 0
			r.start(ctx, nc)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the listener was closed by us
		case !temporary(err):
			return fmt.Errorf("accept %s: %w", r.server.opts.Name, err)
		}
		// Out of descriptors or memory: connections that end will help, trying
		// at once will not.
		if backoff == 0 {
			r.server.opts.Logger.Warn("cannot accept connections for now",
				slog.String("dialect", r.server.opts.Name), slog.Any("error", err))
		}
		backoff = min(max(2*backoff, backoffMin), backoffMax)
		t := time.NewTimer(backoff)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// temporary reports whether an error of Accept may go away by itself.
func temporary(err error) bool {
	for _, e := range passing {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// start gives a new connection its goroutine, or rejects it.
func (r *run) start(ctx context.Context, nc net.Conn) {
	s := r.server
	if tc, ok := nc.(*net.TCPConn); ok {
		// Refused only by a socket that is closed already, which the first read finds.
		_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		})
	}
	if open := s.stats.open.Add(1); s.opts.MaxConns > 0 && open > int64(s.opts.MaxConns) {
		s.stats.open.Add(-1)
		s.stats.rejected.Add(1)
		r.reject(nc)
		return
	}
	s.stats.total.Add(1)
	r.wg.Go(func() { r.serve(ctx, nc) })
}

// reject tells a connection that there are too many and closes it. Whoever does
// not take the message in time does not get it.
func (r *run) reject(nc net.Conn) {
	o := &r.server.opts
	if o.Reject == nil || o.TLS != nil || r.rejects.Add(1) > rejectsMax {
		if o.Reject != nil && o.TLS == nil {
			r.rejects.Add(-1)
		}
		_ = nc.Close() // it was never ours
		return
	}
	r.wg.Go(func() {
		defer r.rejects.Add(-1)
		limits := o.Limits
		limits.WriteTimeout = rejectTimeout
		c := newConn(nc, limits, o.Shared)
		defer c.close()
		if !r.add(c) {
			return
		}
		defer r.remove(c)
		c.SetOut(append(c.Out(), o.Reject(o.MaxConns)...))
		c.Linger()
	})
}

// serve runs the handler of one connection. The end of ctx ends only a handshake
// in progress: after it the connection is drained.
func (r *run) serve(ctx context.Context, nc net.Conn) {
	s := r.server
	defer s.stats.open.Add(-1)
	accepted := time.Now()
	if s.opts.TLS != nil {
		tc := tls.Server(nc, s.opts.TLS)
		if err := handshake(ctx, tc, s.opts.Limits.HandshakeTimeout); err != nil {
			s.stats.handshakes.Add(1)
			r.ended(nc, err)
			_ = nc.Close() // no TLS, so no close alert either
			return
		}
		nc = tc
	}
	c := newConn(nc, s.opts.Limits, s.opts.Shared)
	c.accepted, c.door = accepted, s.opts.Door
	defer c.close()
	if !r.add(c) {
		return
	}
	defer r.remove(c)
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("panic in a connection; it is closed",
				slog.String("dialect", s.opts.Name), slog.Any("remote", nc.RemoteAddr()),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	r.ended(nc, s.opts.Handler(c))
}

// ended logs the end of a connection. Whatever a peer does is not worth more
// than a debug line: probes and scanners would fill the log. Two things are told once a minute: too much input on all
// connections together, because it may concern others, and peers that speak another protocol, because a web page may
// be trying to reach the server.
func (r *run) ended(nc net.Conn, err error) {
	s := r.server
	name, remote := slog.String("dialect", s.opts.Name), slog.Any("remote", nc.RemoteAddr())
	switch {
	case errors.Is(err, ErrBusy):
		s.stats.unfinished.Add(1)
		if tell(&s.toldInput, time.Now()) {
			s.opts.Logger.Warn("connection closed: too much unfinished input on all connections", name, remote)
		}
	case errors.Is(err, ErrSlow):
		s.stats.slow.Add(1)
	case errors.Is(err, ErrForeign):
		s.stats.foreign.Add(1)
		if tell(&s.toldForeign, time.Now()) {
			s.opts.Logger.Warn("connection closed: the client speaks another protocol, as a browser does for a web "+
				"page", name, remote)
		}
	}
	if err != nil && !errors.Is(err, ErrQuit) && s.opts.Logger.Enabled(context.Background(), slog.LevelDebug) {
		s.opts.Logger.Debug("connection ended", name, remote, slog.Any("reason", err))
	}
}

// tell reports whether the operator should be told now of what was last told at the given time.
func tell(told *atomic.Int64, now time.Time) bool {
	last := told.Load()
	return now.Unix()-last >= tellSeconds && told.CompareAndSwap(last, now.Unix())
}

func handshake(ctx context.Context, tc *tls.Conn, timeout time.Duration) error {
	if err := tc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return fmt.Errorf("tls handshake: %w", err)
	}
	if err := tc.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("tls handshake: %w", err)
	}
	if err := tc.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("tls handshake: %w", err)
	}
	return nil
}

// add registers a connection for draining. It reports false if that has begun.
func (r *run) add(c *Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *run) remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// drain tells every connection to end once it has nothing to answer.
func (r *run) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	for c := range r.conns {
		c.drain()
	}
}
