package dialect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of the HTTP side interfaces: their requests are small and quickly answered.
const (
	httpHeaderTimeout = 5 * time.Second
	httpReadTimeout   = 10 * time.Second
	httpWriteTimeout  = 30 * time.Second
	httpIdleTimeout   = time.Minute
	httpHeaderSizeMax = 16 << 10
)

// HTTP serves the operator's side and the side interfaces of protocols.
type HTTP struct {
	Handler http.Handler
	Logger  *slog.Logger
	Shared  *Shared
	// TLS, if set, is spoken on every connection.
	TLS *tls.Config
	// WriteTimeout bounds a request from its head to the end of its answer, unless its handler changes that; zero is
	// the default.
	WriteTimeout time.Duration
	// ConnContext and ConnState are those of http.Server.
	ConnContext func(context.Context, net.Conn) context.Context
	ConnState   func(net.Conn, http.ConnState)
}

// Serve serves a listener until ctx ends and the requests in progress have been answered.
func (h *HTTP) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           h.Handler,
		ReadHeaderTimeout: httpHeaderTimeout,
		ReadTimeout:       httpReadTimeout,
		WriteTimeout:      cmp.Or(h.WriteTimeout, httpWriteTimeout),
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    httpHeaderSizeMax,
		ConnContext:       h.ConnContext,
		ConnState:         h.ConnState,
		ErrorLog:          slog.NewLogLogger(h.Logger.Handler(), slog.LevelDebug),
	}
	// Shutdown waits for requests in progress; the server cuts those that take
	// too long. The listener is closed by it, which ends Serve.
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		if err := hs.Shutdown(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, net.ErrClosed) {
			h.Logger.Warn("HTTP listener did not close", slog.Any("error", err))
		}
	})
	nl := h.Shared.Paced(hs, l)
	if h.TLS != nil {
		nl = tls.NewListener(nl, h.TLS) // outermost, so that requests tell that they came by it
	}
	err := hs.Serve(nl)
	if stop() {
		return errors.Join(fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err), hs.Close())
	}
	<-drained
	return nil
}
