package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"millrace/internal/auth"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/workq"
)

// protocols is the one list of the protocols that are compiled in.
var protocols = []protocol{
	{name: "masenko", build: buildMasenko},
	{name: "workq", build: buildWorkq},
	{name: "lmstfy", build: buildLmstfy},
	{name: "tarantool", build: buildTarantool},
	{name: "faktory", build: buildFaktory},
	{name: "beanstalkd", build: buildBeanstalkd},
	{name: config.ProtocolWeb, build: buildWeb}, // last: it tells about all others
}

// protocol is a wire protocol and how to make what serves its listeners.
type protocol struct {
	name string
	// build returns a function for each of the gates, in their order. The TLS
	// configuration is nil if the protocol's listeners speak plain text.
	build func(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error)
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
	byProtocol := make(map[string][]*gate)
	for _, g := range s.gates {
		byProtocol[g.config.Protocol] = append(byProtocol[g.config.Protocol], g)
	}
	var services []service
	for _, p := range protocols {
		gates := byProtocol[p.name]
		if len(gates) == 0 {
			continue
		}
		secure, err := s.tls(gates)
		if err != nil {
			return nil, err
		}
		serve, err := p.build(s, gates, secure)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for i, g := range gates {
			services = append(services, service{gate: g, serve: serve[i]})
		}
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

// tenant is a dialect that is served for each namespace by itself.
type tenant interface {
	dialect.Dialect
	figures
	TooMany(limit int) []byte
}

// common returns the options that all protocols have.
func (s *server) common(c *config.Protocol, secure *tls.Config) dialect.Options {
	return dialect.Options{
		Engine: s.engine, Logger: s.log, Shared: s.shared, MaxConns: c.MaxConnections, WriteTimeout: c.WriteTimeout, TLS: secure,
	}
}

// roles are what serves the listeners of a protocol that have a role.
type roles[D tenant] map[string]func(d D, g *gate) serveFunc

// perNamespace makes one dialect for each namespace, which its listeners share.
func perNamespace[D tenant](s *server, gates []*gate, o dialect.Options, create func(dialect.Options) D, others roles[D]) []serveFunc {
	dialects := make(map[string]D)
	serve := make([]serveFunc, 0, len(gates))
	for _, g := range gates {
		o.Namespace = g.config.Namespace
		d, ok := dialects[o.Namespace]
		if !ok {
			d = create(o)
			dialects[o.Namespace] = d
			s.built(g.config.Protocol, o.Namespace, d)
		}
		if other := others[g.config.Role]; other != nil {
			serve = append(serve, other(d, g))
			continue
		}
		g.bound(0, o.TLS, d.TooMany)
		serve = append(serve, d.Serve)
	}
	return serve
}

func buildMasenko(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	c := &s.cfg.Masenko
	return perNamespace(s, gates, s.common(&c.Protocol, secure), func(o dialect.Options) *masenko.Dialect {
		return masenko.New(masenko.Options{
			Options:    o,
			Heartbeat:  c.Heartbeat,
			MaxLine:    int(c.MaxLine),    //nolint:gosec // the configuration bounds it
			MaxPayload: int(c.MaxPayload), //nolint:gosec // the configuration bounds it
			MaxAtomic:  int(c.MaxAtomic),  //nolint:gosec // the configuration bounds it
		})
	}, roles[*masenko.Dialect]{config.RoleMetrics: func(d *masenko.Dialect, g *gate) serveFunc {
		g.bound(httpConnectionMax, nil, tooManyHTTP)
		return s.serveHTTP(s.site(auth.SiteOptions{}).Handler(d.MetricsHandler()), nil)
	}}), nil
}

func buildWorkq(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	c := &s.cfg.Workq
	return perNamespace(s, gates, s.common(&c.Protocol, secure), func(o dialect.Options) *workq.Dialect {
		return workq.New(workq.Options{
			Options:    o,
			MaxLine:    int(c.MaxLine),    //nolint:gosec // the configuration bounds it
			MaxPayload: int(c.MaxPayload), //nolint:gosec // the configuration bounds it
			DefaultTTR: c.DefaultTTR,
		})
	}, nil), nil
}

func buildBeanstalkd(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	c := &s.cfg.Beanstalkd
	return perNamespace(s, gates, s.common(&c.Protocol, secure), func(o dialect.Options) *beanstalkd.Dialect {
		return beanstalkd.New(beanstalkd.Options{Options: o, MaxJob: int(c.MaxJobSize)}) //nolint:gosec // the configuration bounds it
	}, nil), nil
}

// buildLmstfy makes one dialect, which all its listeners share: namespaces are in the
// requests.
func buildLmstfy(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	c := &s.cfg.Lmstfy
	for _, name := range c.Ignored {
		s.log.Warn("setting of the original server ignored", slog.String("file", c.Original), slog.String("key", name))
	}
	d := lmstfy.New(lmstfy.Options{
		Options:   s.common(&c.Protocol, secure),
		Auth:      c.Auth == "token",
		Pools:     c.Pools,
		Accounts:  c.Accounts,
		Throttle:  s.logins,
		Site:      s.site(auth.SiteOptions{AnyHost: c.Auth == "token" || c.TLS.ClientCA != "", Strict: true}),
		AdminSite: s.site(auth.SiteOptions{AnyHost: len(c.Accounts) > 0, Strict: true}),
		Defaults: lmstfy.Defaults{
			TTL:     uint32(c.DefaultTTL / time.Second),     //nolint:gosec // the configuration bounds it
			Delay:   uint32(c.DefaultDelay / time.Second),   //nolint:gosec // the configuration bounds it
			TTR:     uint32(c.DefaultTTR / time.Second),     //nolint:gosec // the configuration bounds it
			Timeout: uint32(c.DefaultTimeout / time.Second), //nolint:gosec // the configuration bounds it
			Tries:   uint16(c.DefaultTries),                 //nolint:gosec // the configuration bounds it
		},
		AccessLog:   c.AccessLog,
		MaxBody:     int(c.MaxBody),   //nolint:gosec // the configuration bounds it
		MaxHeader:   int(c.MaxHeader), //nolint:gosec // the configuration bounds it
		ReadTimeout: c.ReadTimeout,
		IdleTimeout: c.IdleTimeout,
		Version:     s.opts.Version,
	})
	s.lmstfy = d
	s.built(d.Name(), "", d)
	serve := make([]serveFunc, 0, len(gates))
	for _, g := range gates {
		if g.config.Role == config.RoleAdmin {
			g.bound(httpConnectionMax, nil, tooManyHTTP)
			serve = append(serve, s.serveHTTP(d.AdminHandler(), nil))
			continue
		}
		g.bound(0, secure, tooManyHTTP)
		serve = append(serve, d.Serve)
	}
	return serve, nil
}

// buildTarantool makes dialects that the listeners of both wire protocols share.
func buildTarantool(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	c := &s.cfg.Tarantool
	if c.LoginRequired() && len(c.Users) == 0 {
		return nil, errors.New("tarantool.auth is login, but tarantool.users is empty: nobody could log in")
	}
	return perNamespace(s, gates, s.common(&c.Protocol, secure), func(o dialect.Options) *tarantool.Dialect {
		d := tarantool.New(tarantool.Options{
			Options:      o,
			Users:        c.Users,
			RequireLogin: c.LoginRequired(),
			Throttle:     s.logins,
			SessionTTR:   c.SessionTTR,
			MaxPacket:    int(c.MaxPacket), //nolint:gosec // the configuration bounds it
			MaxInFlight:  c.MaxInFlight,
			MaxWaiting:   c.MaxWaiting,
		})
		s.built(config.RoleTarantool15, o.Namespace, d.Box15())
		return d
	}, roles[*tarantool.Dialect]{config.RoleTarantool15: func(d *tarantool.Dialect, _ *gate) serveFunc { return d.Box15().Serve }}), nil
}

func buildFaktory(s *server, gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	c := &s.cfg.Faktory
	for _, name := range c.Ignored {
		s.log.Warn("setting of the original server ignored", slog.String("dialect", "faktory"), slog.String("key", name))
	}
	return perNamespace(s, gates, s.common(&c.Protocol, secure), func(o dialect.Options) *faktory.Dialect {
		d := faktory.New(faktory.Options{
			Options:  o,
			Password: c.Password,
			Throttle: s.logins,
			Version:  s.opts.Version,
			MaxLine:  int(c.MaxLine),    //nolint:gosec // the configuration bounds it
			DeadMax:  uint32(c.DeadMax), //nolint:gosec // the configuration bounds it
		})
		s.faktory = append(s.faktory, d)
		return d
	}, nil), nil
}
