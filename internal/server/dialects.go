package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"millrace/internal/auth"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/rest"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/workq"
)

// protocols is the one list of the protocols that are compiled in.
func protocols() []dialect.Spec {
	return []dialect.Spec{
		masenko.Spec(), workq.Spec(), lmstfy.Spec(), tarantool.Spec(), faktory.Spec(),
		beanstalkd.Spec(), rest.Spec(),
	}
}

// Settings returns the keys of this build.
func Settings() config.Table {
	var specs []config.Spec
	for _, p := range protocols() {
		specs = append(specs, p.Spec)
	}
	return config.NewTable(specs...)
}

// serveFunc serves a listener until ctx ends, and returns once every connection
// has ended.
type serveFunc func(ctx context.Context, l net.Listener) error

// service is a listener with what serves it.
type service struct {
	gate  *gate
	serve serveFunc
}

// build makes what serves the gates.
func (s *server) build() ([]service, error) {
	s.buildStatsd()
	s.buildHooks()
	byProtocol := make(map[string][]*gate)
	for _, g := range s.gates {
		byProtocol[g.config.Protocol] = append(byProtocol[g.config.Protocol], g)
	}
	var services []service
	add := func(name string, build func(gates []*gate, secure *tls.Config) ([]serveFunc, error)) error {
		gates := byProtocol[name]
		if len(gates) == 0 {
			return nil
		}
		secure, err := s.tls(gates)
		if err != nil {
			return err
		}
		serve, err := build(gates, secure)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i, g := range gates {
			services = append(services, service{gate: g, serve: serve[i]})
		}
		return nil
	}
	for _, p := range protocols() {
		if p.Listeners == nil {
			svc, err := p.New(s.host(nil))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			s.mounted = svc.Mounted
			continue
		}
		err := add(p.Name, func(gates []*gate, secure *tls.Config) ([]serveFunc, error) {
			return s.buildProtocol(p, gates, secure)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := add(config.ProtocolWeb, s.buildWeb); err != nil { // last: it tells about all others
		return nil, err
	}
	if len(services) != len(s.gates) {
		return nil, fmt.Errorf("%d listeners of protocols that are not compiled in", len(s.gates)-len(services))
	}
	return services, nil
}

// tls loads the TLS material that the gates of one protocol share.
func (s *server) tls(gates []*gate) (*tls.Config, error) {
	for _, g := range gates {
		files := g.config.TLS
		if !files.Enabled() {
			continue
		}
		secure, reload, err := auth.NewTLS(auth.TLSOptions{
			Files:  auth.TLSFiles{Cert: files.Cert, Key: files.Key, ClientCA: files.ClientCA},
			Logger: s.log.With(slog.String("listener", g.config.Protocol)),
		})
		if err != nil {
			return nil, fmt.Errorf("%s.tls: %w", g.config.Protocol, err)
		}
		s.settings.onReload(func(*config.Config) (func(), error) {
			apply, err := reload()
			if err != nil {
				return nil, fmt.Errorf("%s.tls: %w", g.config.Protocol, err)
			}
			return apply, nil
		})
		return secure, nil
	}
	return nil, nil
}

// host is what the server tells a protocol.
func (s *server) host(secure *tls.Config) *dialect.Host {
	return &dialect.Host{
		Options: dialect.Options{Engine: s.engine, Logger: s.log, Shared: s.shared, TLS: secure},
		Config:  s.cfg, Version: s.opts.Version, Logins: s.logins, Site: s.site,
	}
}

// buildProtocol makes one service for each namespace, which its listeners share.
func (s *server) buildProtocol(p dialect.Spec, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	h := s.host(secure)
	services := make(map[string]dialect.Service)
	serve := make([]serveFunc, 0, len(gates))
	for _, g := range gates {
		h.Namespace = g.config.Namespace
		svc, ok := services[h.Namespace]
		if !ok {
			var err error
			if svc, err = p.New(h); err != nil {
				return nil, err
			}
			services[h.Namespace] = svc
			s.note(svc, h.Namespace)
		}
		serve = append(serve, s.serveGate(g, svc, secure))
	}
	return serve, nil
}

// serveGate returns what serves one listener of a service.
func (s *server) serveGate(g *gate, svc dialect.Service, secure *tls.Config) serveFunc {
	if side := svc.HTTP[g.config.Role]; side != nil {
		g.bound(httpConnectionMax, nil, tooManyHTTP)
		return s.serveHTTP(side, nil)
	}
	if wire := svc.Wires[g.config.Role]; wire != nil {
		return wire.Serve
	}
	tooMany := tooManyHTTP
	if d, ok := svc.Dialect.(interface{ TooMany(limit int) []byte }); ok {
		tooMany = d.TooMany
	}
	g.bound(0, secure, tooMany)
	return svc.Serve
}

// note remembers what the operator's side tells about a service.
func (s *server) note(svc dialect.Service, namespace string) {
	s.built(svc.Name(), namespace, svc.Dialect)
	for name, wire := range svc.Wires {
		s.built(name, namespace, wire)
	}
	switch d := svc.Dialect.(type) {
	case *faktory.Dialect:
		s.faktory = append(s.faktory, d)
	case *lmstfy.Dialect:
		s.lmstfy = d
	}
}
