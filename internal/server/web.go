package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory"
	"millrace/internal/hook"
	"millrace/internal/httpapi"
	"millrace/internal/job"
	"millrace/internal/metrics"
	"millrace/internal/operator"
	"millrace/internal/web"
)

// webConnectionMax bounds the connections of the operator's side. Each stream of events takes one.
const webConnectionMax = 500

// buildWeb makes the operator's side, which all its listeners share. It comes last, because it tells about
// all others.
func (s *server) buildWeb(gates []*gate, secure *tls.Config) ([]serveFunc, error) {
	w := &s.cfg.Web
	backups, err := s.backupDir()
	if err != nil {
		return nil, err
	}
	service, err := operator.New(operator.Options{
		Engine:      s.engine,
		Logger:      s.log,
		Version:     s.opts.Version,
		Durability:  s.cfg.Store.Durability,
		DoorName:    dialect.DoorName,
		Door:        dialect.DoorAdmin,
		CallsURLs:   s.hooks != nil,
		FindID:      findID,
		Workers:     s.workers(),
		AddNames:    s.mounted.AddNames,
		Tokens:      s.tokens(),
		Adopt:       s.adopt,
		Connections: s.connections,
		Settings:    func() []api.Setting { return settingList(s.settings.current.Load()) },
		FreeBytes:   s.store.FreeBytes,
		FreeFloor:   s.cfg.Store.FreeFloor,
		DataDir:     s.dataDir(),
		BackupDir:   backups,
		Cluster:     s.cluster,
		Now:         s.opts.Now,
	})
	if err != nil {
		return nil, err
	}
	s.web = service
	var statsdFailures func() uint64
	if s.statsd != nil {
		statsdFailures = s.statsd.Failures
	}
	var hookCalls func() (sent, failed uint64)
	if s.hooks != nil {
		hookCalls = s.hooks.Sent
	}
	var spans func() (sent, dropped uint64)
	if s.traces != nil {
		spans = s.traces.Spans
	}
	var tokenCounts func() (tokens, limits, most int, refused uint64)
	if s.lmstfy != nil {
		tokenCounts = s.lmstfy.TokenCounts
	}
	options := loginOptions(w)
	options.Throttle = s.logins
	login := auth.NewLogin(options)
	s.settings.onReload(s.reloadLogin(login))
	ready := func() bool { ok, _ := service.Health(); return ok }
	o := httpapi.HandlerOptions{
		Login:   login,
		Mounted: s.mounted.Handlers(),
		Site:    s.site(auth.SiteOptions{AnyHost: gates[0].config.Authenticated, Open: httpapi.ProbePaths()}),
		Metrics: s.shared.Alone(metrics.Handler(metrics.Options{
			Engine: s.engine, Version: s.opts.Version, Durability: s.cfg.Store.Durability, QueuesMax: w.MetricsQueues,
			Connections: s.protocolConnections, ConnectionsMax: s.files.conns, Commands: s.protocolCommands,
			FreeBytes: s.store.FreeBytes, Recovery: s.recovery, Ready: ready,
			DoorName: dialect.DoorName, Logins: s.logins.Counts, Names: s.shared.Names, Cluster: s.clusterFigures,
			Tokens:         tokenCounts,
			StatsdFailures: statsdFailures, Spans: spans, HookCalls: hookCalls,
			HookQueue: [2]string{hook.Namespace, hook.Queue},
		})),
	}
	o.UI = web.New(web.Options{Service: service, Push: s.mounted.Push, Login: login, Logger: s.log})
	if len(s.faktory) > 0 {
		o.Stats, o.Health = s.faktory[0].StatsHandler(), s.faktory[0].HealthHandler()
	}
	handler := httpapi.NewHandler(service, o)
	s.webHandler = handler
	serve := make([]serveFunc, 0, len(gates))
	for _, g := range gates {
		g.bound(webConnectionMax, secure, tooManyHTTP)
		serve = append(serve, s.serveWeb(handler, secure))
	}
	return serve, nil
}

// serveWeb serves the operator's side on a listener. Streams end as soon as the server drains.
func (s *server) serveWeb(h http.Handler, secure *tls.Config) serveFunc {
	serve := s.serveHTTP(h, secure)
	return func(ctx context.Context, l net.Listener) error {
		stop := context.AfterFunc(ctx, s.web.Drain)
		defer stop()
		return serve(ctx, l)
	}
}

// findID reads an id as the protocols show those of each other's jobs.
func findID(text string) (job.ID, bool) {
	if u, ok := dialect.ParseUUID(text); ok {
		if _, id, ok := u.Job(); ok {
			return id, true
		}
	}
	if u, ok := dialect.ParseULID(text); ok {
		return u.JobID()
	}
	return 0, false
}

// settingList shows the effective configuration, secrets masked.
func settingList(c *config.Config) []api.Setting {
	out := make([]api.Setting, 0, len(c.Settings()))
	for _, set := range c.Settings() {
		out = append(out, api.Setting{
			Key: set.Key.Name, Value: set.Text(), Source: set.Source.String(), Default: set.Key.Default,
			Secret: set.Key.Secret, Help: set.Key.Doc,
		})
	}
	return out
}

// workers returns the registries of worker processes.
func (s *server) workers() []operator.WorkerRegistry {
	out := make([]operator.WorkerRegistry, 0, len(s.faktory))
	for _, d := range s.faktory {
		out = append(out, faktoryWorkers{d})
	}
	return out
}

// faktoryWorkers shows the workers of one namespace of the Faktory protocol.
type faktoryWorkers struct{ d *faktory.Dialect }

// Namespace returns where the workers fetch jobs.
func (f faktoryWorkers) Namespace() string { return f.d.Namespace() }

// Workers returns the worker processes that are connected.
func (f faktoryWorkers) Workers() []api.Worker {
	list := f.d.Workers()
	out := make([]api.Worker, 0, len(list))
	at := func(t time.Time) *time.Time {
		t = t.UTC()
		return &t
	}
	for _, w := range list {
		out = append(out, api.Worker{
			ID: w.WID, Hostname: w.Hostname, PID: w.PID, Labels: w.Labels, State: w.State.String(),
			Started: at(w.Started), LastBeat: at(w.LastBeat),
			MemoryBytes: w.RSS << 10, Connections: w.Connections, Leases: w.Holder,
		})
	}
	return out
}

// Signal tells workers to be quiet or to stop.
func (f faktoryWorkers) Signal(id string, sig api.Signal) int {
	to := faktory.Quiet
	if sig == api.SignalStop {
		to = faktory.Terminate
	}
	return f.d.Signal(id, to)
}

// tokens returns the registry of tokens; nil if no protocol that has some is served.
func (s *server) tokens() operator.TokenRegistry {
	if s.lmstfy == nil {
		return nil
	}
	return s.lmstfy.Tokens()
}
