package server

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"millrace/internal/auth"
	"millrace/internal/dialect"
)

// httpConnectionMax bounds the connections of an HTTP side interface.
const httpConnectionMax = 100

// site returns what keeps web pages of other sites from an HTTP listener.
func (s *server) site(o auth.SiteOptions) *auth.Site {
	o.Hosts, o.Setting = s.cfg.Listen.Hosts, "listen.hosts (MILLRACE_LISTEN_HOSTS, --listen-hosts)"
	return auth.NewSite(o)
}

// serveHTTP returns a function that serves the handler; with TLS if there is a configuration.
func (s *server) serveHTTP(h http.Handler, secure *tls.Config) serveFunc {
	return (&dialect.HTTP{Handler: h, Logger: s.log, Shared: s.shared, TLS: secure}).Serve
}

// tooManyHTTP is what an HTTP client is told for which there is no seat.
func tooManyHTTP(int) []byte {
	const body = `{"error":"too many connections"}`
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: "+
		"%d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
		len(body), body)
}
