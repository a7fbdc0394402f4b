package dialecttest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// Server is an engine on a store in memory with some dialects in front of it. It
// must be started and stopped within one bubble, or outside of any.
type Server struct {
	Engine *engine.Engine
	store  *memstore.Store
	ctx    context.Context //nolint:containedctx // the life of the server, ended by Stop
	cancel context.CancelFunc
	served []chan error
	last   dialect.Dialect
}

// Start opens the engine.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{store: memstore.New()}
	s.open(t)
	return s
}

func (s *Server) open(t *testing.T) {
	t.Helper()
	e, err := engine.Open(engine.Options{Store: s.store, Durability: engine.DurabilityNone, Seed: 1})
	if err != nil {
		t.Fatalf("open the engine: %v", err)
	}
	s.Engine = e
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.served = nil
}

// Serve serves a dialect on a listener in memory whose connections hold size
// bytes per direction (zero for the default).
func (s *Server) Serve(d dialect.Dialect, size int) *testkit.Listener {
	l := testkit.Listen(size)
	s.ServeOn(d, l)
	return l
}

// drive serves the dialect of a driver as Serve does. No command is longer than maxCommand.
func (s *Server) drive(d Driver, maxCommand, size int) *testkit.Listener {
	o := dialect.Options{Engine: s.Engine, Namespace: namespace, WriteTimeout: writing}
	return s.Serve(d.New(Settings{Options: o, MaxCommand: maxCommand}), size)
}

// ServeOn serves a dialect on a listener of the caller's.
func (s *Server) ServeOn(d dialect.Dialect, l net.Listener) {
	s.last = d
	s.serve(d.Serve, l)
}

// Handle serves a side interface as Serve does a dialect.
func (s *Server) Handle(h http.Handler) *testkit.Listener {
	l := testkit.Listen(1 << 20)
	side := &dialect.HTTP{Handler: h, Logger: slog.New(slog.DiscardHandler), Shared: dialect.NewShared(0, 0)}
	s.serve(side.Serve, l)
	return l
}

func (s *Server) serve(serve func(context.Context, net.Listener) error, l net.Listener) {
	ended := make(chan error, 1)
	s.served = append(s.served, ended)
	go func() { ended <- serve(s.ctx, l) }()
}

// Last returns the dialect that was served last.
func (s *Server) Last() dialect.Dialect { return s.last }

// Stop drains and closes everything but the store.
func (s *Server) Stop(t *testing.T) {
	t.Helper()
	s.Engine.Drain()
	s.cancel()
	for _, ended := range s.served {
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
	if err := s.Engine.Close(); err != nil {
		t.Errorf("close the engine: %v", err)
	}
}

// Restart stops everything and opens the engine again on the same store. The
// dialects must be served again.
func (s *Server) Restart(t *testing.T) {
	t.Helper()
	s.Stop(t)
	s.open(t)
}

// Queue returns what the engine knows about a queue; zeros if nothing.
func (s *Server) Queue(t *testing.T, namespace, name string) job.QueueInfo {
	t.Helper()
	q, _, err := s.Engine.Queue(namespace, name)
	if err != nil {
		t.Fatalf("queue: %v", err)
	}
	return q
}
