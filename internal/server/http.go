package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"millrace/internal/auth"
)

// Limits of the HTTP side interfaces: their requests are small and quickly answered.
const (
	httpHeaderTimeout = 5 * time.Second
	httpReadTimeout   = 10 * time.Second
	httpWriteTimeout  = 30 * time.Second
	httpIdleTimeout   = time.Minute
	httpHeaderSizeMax = 16 << 10
	httpConnectionMax = 100
)

// site returns what keeps web pages of other sites from an HTTP listener.
func (s *server) site(o auth.SiteOptions) *auth.Site {
	o.Hosts, o.Setting = s.cfg.Listen.Hosts, "listen.hosts (MILLRACE_LISTEN_HOSTS, --listen-hosts)"
	return auth.NewSite(o)
}

// serveHTTP returns a function that serves the handler until its context ends and
// the requests in progress have been answered; with TLS if there is a configuration.
func (s *server) serveHTTP(h http.Handler, secure *tls.Config) serveFunc {
	return func(ctx context.Context, l net.Listener) error {
		hs := &http.Server{
			Handler:           h,
			ReadHeaderTimeout: httpHeaderTimeout,
			ReadTimeout:       httpReadTimeout,
			WriteTimeout:      httpWriteTimeout,
			IdleTimeout:       httpIdleTimeout,
			MaxHeaderBytes:    httpHeaderSizeMax,
			ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		}
		// Shutdown waits for requests in progress; the server cuts those that take
		// too long. The listener is closed by it, which ends Serve.
		drained := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(drained)
			if err := hs.Shutdown(context.WithoutCancel(ctx)); err != nil && !isClosed(err) {
				s.log.Warn("HTTP listener did not close", slog.Any("error", err))
			}
		})
		nl := s.shared.Paced(hs, l)
		if secure != nil {
			nl = tls.NewListener(nl, secure) // outermost, so that requests tell that they came by it
		}
		err := hs.Serve(nl)
		if stop() {
			return errors.Join(fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err), hs.Close())
		}
		<-drained
		return nil
	}
}

// tooManyHTTP is what an HTTP client is told for which there is no seat.
func tooManyHTTP(int) []byte {
	const body = `{"error":"too many connections"}`
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
		len(body), body)
}
