package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"millrace/internal/auth"
	"millrace/internal/commitlog"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/engine"
	"millrace/internal/hook"
	"millrace/internal/job"
	"millrace/internal/metrics"
	"millrace/internal/operator"
	"millrace/internal/otlp"
	"millrace/internal/statsd"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
	"millrace/internal/systemd"
)

// ErrInterrupted means that a second signal cut the drain short.
var ErrInterrupted = errors.New("stopped at once by a second signal: connections were cut off")

// closeGrace is how long a connection that was closed under its handler, and a
// store that has failed, may take to notice.
const closeGrace = 400 * time.Millisecond

// signalBounce is how long after the first signal another one counts as the same.
// Programs like timeout(1) signal the process and its whole group at once.
const signalBounce = 100 * time.Millisecond

// Options is what the process lends to the server.
type Options struct {
	Version string
	Logger  *slog.Logger
	// Out receives the lines that announce what is served.
	Out io.Writer
	// Signals stop the server: the first drains it, the second ends it at once.
	Signals <-chan os.Signal
	// Reloads ask the server to read its configuration again with Reload, and to take over what can change while it
	// runs. SetLogLevel sets the level of the log.
	Reloads     <-chan os.Signal
	Reload      func() (*config.Config, error)
	SetLogLevel func(level string)
	// Environ tells, in the form of os.Environ, whether systemd wants to be notified
	// and has opened sockets.
	Environ []string

	// Now is the time of jobs and of their history; nil is the clock of the machine. It must not go back.
	Now func() time.Time
	// Stage, if there is one, is called when everything is served, and has to end with its context. What it fails with
	// ends the server.
	Stage func(context.Context, Stage) error

	// openStore and opened are for tests: the one replaces the opening of the
	// store, the other is told when all is open and nothing served yet.
	openStore func(pebblestore.Options) (store.Store, error)
	opened    func(*server)
	// freeBytes replaces what a node tells others about its disk, for tests.
	freeBytes func() *uint64
	// format has a node of a cluster know no later format of records, for tests.
	format uint64
	// openFiles replaces the limit of open files, for tests.
	openFiles func() (uint64, error)
}

// Stage is what somebody has in hand who drives a server.
type Stage struct {
	// Addrs are the addresses of the listeners by protocol.
	Addrs map[string]string
	// Step has the server notice that Options.Now has gone on: what is due by then happens, and the history has another
	// sample.
	Step func(context.Context) error
}

// Run serves until ctx ends or a signal comes, and returns nil after an orderly
// stop. Any other end is an error, and everything is closed then, too.
func Run(ctx context.Context, cfg *config.Config, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.openStore == nil {
		o.openStore = openStore
	}
	if o.openFiles == nil {
		o.openFiles = openFilesMax
	}
	for _, n := range cfg.Notices() {
		o.Logger.Warn("environment variable of another server found",
			slog.String("variable", n.Variable), slog.String("effect", n.Text()))
	}
	service, err := systemd.Attach(o.Environ)
	if err != nil {
		return err
	}
	defer func() { _ = service.Close() }() // the process ends anyway
	s := &server{
		cfg: cfg, opts: o, log: o.Logger, systemd: service, storageFailed: make(chan error, 1),
		logins: auth.NewThrottle(o.Logger), settings: &settings{},
	}
	defer s.startTraces()()
	s.settings.current.Store(cfg)
	s.settings.onReload(s.reloadLevel)
	if err := s.open(ctx); err != nil {
		return errors.Join(err, s.close())
	}
	if o.opened != nil {
		o.opened(s)
	}
	return s.run(ctx)
}

// openStore opens the store of a real server. It returns a nil interface, not one
// that holds a nil pointer, along with an error.
func openStore(o pebblestore.Options) (store.Store, error) {
	s, err := pebblestore.Open(o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// server is one run. Its fields are set while it opens, in this order.
type server struct {
	cfg  *config.Config
	opts Options
	log  *slog.Logger

	systemd  *systemd.Service
	files    fileShares
	seats    *seats
	portsBy  time.Time // until when an address in use is waited for
	gates    []*gate
	node     *node // nil: this server is one of its own
	store    store.Store
	engine   *engine.Engine
	shared   *dialect.Shared    // by the connections of all protocols
	recovery time.Duration      // how long the opening of the store and the engine took
	dialects []builtDialect     // what counts connections and commands
	faktory  []*faktory.Dialect // one for each namespace
	lmstfy   *lmstfy.Dialect    // nil if it is not served
	mounted  dialect.Mounted    // the protocol of the operator's API
	web      *operator.Service  // nil if the operator's side is off
	services []service
	statsd   *statsd.Sender   // nil: nothing is reported
	hooks    *hook.Sender     // nil: no URL is called
	traces   *otlp.Exporter   // nil: no spans are sent
	cluster  operator.Cluster // nil: none
	// clusterFigures are for metrics; nil: none.
	clusterFigures func() metrics.Cluster
	// webHandler is what the operator's side is served with.
	webHandler http.Handler
	logins     *auth.Throttle // bounds how often secrets can be guessed, on all listeners

	settings *settings

	storageFailed chan error // what the store reports as fatal; it sends once
	storageLogged sync.Once
}

// logMode is what the log does for an answer to mean what the engine says.
var logMode = map[engine.Durability]commitlog.Mode{
	engine.DurabilityFsync: commitlog.Fsync, engine.DurabilityInterval: commitlog.Interval,
	engine.DurabilityNone: commitlog.None,
}

// open does everything that can go wrong before something is served.
func (s *server) open(ctx context.Context) error {
	if len(s.cfg.Listeners()) == 0 {
		return errors.New("nothing to serve, because every listener is off: set an address, for example masenko.addr")
	}
	if err := s.shareFiles(); err != nil {
		return err
	}
	s.portsBy = time.Now().Add(portPatience)
	if err := s.bind(ctx); err != nil {
		return err
	}
	s.shared = dialect.NewShared(int64(s.cfg.Listen.MaxUnfinished), s.cfg.Listen.CommandTimeout) //nolint:gosec // the configuration bounds it
	s.tell(systemd.Status("opening " + s.dataDir()))
	durability, err := engine.ParseDurability(s.cfg.Store.Durability)
	if err != nil {
		return fmt.Errorf("store.durability: %w", err)
	}
	if s.cfg.Cluster.Enabled() {
		return s.openNode(ctx)
	}
	if err := checkLayout(s.cfg.Data.Dir, false); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	begun := time.Now()
	opened, err := s.opts.openStore(pebblestore.Options{
		Dir: s.cfg.Data.Dir, Logger: s.log,
		CacheBytes:    int64(s.cfg.Store.CacheBytes),    //nolint:gosec // the configuration bounds it
		MemTableBytes: int64(s.cfg.Store.MemtableBytes), //nolint:gosec // the configuration bounds it
		OpenTables:    s.files.tables,
		// The engine gathers changes for half of the interval before it commits them.
		Mode: logMode[durability], SyncEvery: s.cfg.Store.SyncInterval / 2,
		OnFatal: func(err error) {
			s.logStorage(err) // at once: what has met the error may end the process
			s.storageFailed <- err
		},
	})
	if err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	s.store = opened
	o := s.engineOptions()
	o.Store, o.Durability = s.store, durability
	s.engine, err = engine.Open(o)
	if err != nil {
		return fmt.Errorf("open engine on %s: %w", s.cfg.Data.Dir, err)
	}
	s.recovery = time.Since(begun)
	if s.services, err = s.build(); err != nil {
		return err
	}
	return s.followFirst()
}

// engineOptions are what the configuration says about an engine.
func (s *server) engineOptions() engine.Options {
	var now func() job.Time
	if s.opts.Now != nil {
		now = func() job.Time { return job.TimeOf(s.opts.Now()) }
	}
	o := engine.Options{
		Now:          now,
		SyncInterval: s.cfg.Store.SyncInterval,
		FreeFloor:    s.cfg.Store.FreeFloor, Logger: s.log, TimedQueues: s.cfg.Web.MetricsQueues,
		TimedTypes: s.cfg.Web.MetricsTypes,
		Core:       engine.CoreOptions{WaitNames: s.cfg.Server.MaxWaitingNames}, MaxQueues: s.cfg.Server.MaxQueues,
		MaxWaiters: s.cfg.Server.MaxWaiting, MaxWaiterBytes: int64(s.cfg.Server.MaxWaitingMemory), //nolint:gosec // the configuration bounds it
	}
	if s.traces != nil {
		o.Core.Tracer = s.traces
	}
	return o
}

// shareFiles shares out the files that the process may have open.
func (s *server) shareFiles() error {
	limit, err := s.opts.openFiles()
	if err == nil {
		s.files, err = shareFiles(limit, len(s.cfg.Listeners()))
	}
	s.seats = newSeats(s.files)
	return err
}

// run serves until something ends it.
func (s *server) run(ctx context.Context) error {
	if s.node != nil {
		return s.node.run(ctx)
	}
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	runs := make([]func() error, 0, len(s.services))
	for _, svc := range s.services {
		runs = append(runs, func() error { return svc.serve(serving, svc.gate) })
	}
	if s.opts.Stage != nil {
		runs = append(runs, func() error { return s.opts.Stage(serving, s.stage()) })
	}
	group := startAll(s.calling(serving, s.reporting(serving, runs)))
	s.announce()
	s.tell(systemd.Ready, systemd.Status(fmt.Sprintf("serving %d listeners from %s", len(s.gates), s.dataDir())))
	defer s.watchdog()()

	cause := s.untilEnd(ctx, group)
	s.tell(systemd.Stopping, systemd.Status("stopping"))
	begun, stopped := time.Now(), make(chan error, 1)
	go func() {
		stopServing()
		stopped <- s.stop(group, cause)
	}()
	for {
		select {
		case err := <-stopped:
			return err
		case <-s.opts.Signals:
			if time.Since(begun) > signalBounce {
				return ErrInterrupted
			}
		}
	}
}

// stage is what drives this server.
func (s *server) stage() Stage {
	addrs := make(map[string]string)
	for _, g := range s.gates {
		if g.config.Role == "" {
			addrs[g.config.Protocol] = g.Addr().String()
		}
	}
	return Stage{Addrs: addrs, Step: func(ctx context.Context) error {
		s.engine.Wake()
		return s.web.Sample(ctx)
	}}
}

// untilEnd returns when something ends the server; an error if that is not what was asked for.
func (s *server) untilEnd(ctx context.Context, group *group) error {
	for {
		select {
		case <-s.opts.Reloads:
			s.reload()
		case <-ctx.Done():
			s.log.Info("stopping", slog.String("reason", "asked to"))
			return nil
		case sig := <-s.opts.Signals:
			s.log.Info("stopping", slog.String("reason", sig.String()))
			return nil
		case err := <-s.storageFailed:
			return s.storageFailure(err)
		case <-s.engine.Failed():
			return s.storageFailure(s.engine.Err())
		case err := <-group.failed:
			s.log.Error("a listener ended; stopping", slog.Any("error", err))
			return err
		}
	}
}

// storageFailure is loud about a storage error: from here on nothing can be
// promised, so nothing is.
func (s *server) storageFailure(err error) error {
	s.logStorage(err)
	return fmt.Errorf("storage failed in %s: %w", s.cfg.Data.Dir, err)
}

// logStorage logs the first storage error: others follow from it.
func (s *server) logStorage(err error) {
	s.storageLogged.Do(func() {
		s.log.Error("storage failed; stopping, nothing more is acknowledged",
			slog.String("dir", s.cfg.Data.Dir), slog.Any("error", err))
	})
}

// stop closes everything after the listeners have been told to stop. With a cause
// there is nothing to wait for.
func (s *server) stop(group *group, cause error) error {
	begun := time.Now()
	patience := s.cfg.Server.DrainTimeout
	if cause != nil {
		patience = 0
	} else {
		s.engine.Drain() // answers what waits, so that its connections can end
	}
	if !group.wait(patience) {
		cut := 0
		for _, g := range s.gates {
			cut += g.cut()
		}
		if cut > 0 {
			s.log.Warn("connections closed before they ended by themselves", slog.Int("connections", cut))
		}
		group.wait(closeGrace)
	}
	if cause == nil {
		err := s.close()
		if err == nil {
			s.log.Info("stopped", slog.Duration("took", time.Since(begun)))
		}
		return err
	}
	// What fails to close after a failure tells nothing new, and a broken disk may
	// never answer.
	closed := make(chan struct{})
	go func() {
		_ = s.close()
		close(closed)
	}()
	waitFor(closed, closeGrace)
	return cause
}

// close releases what open has opened, in the opposite order.
func (s *server) close() error {
	if s.node != nil {
		return s.node.close()
	}
	var errs []error
	if s.seats != nil {
		s.seats.cut()
	}
	for _, g := range s.gates {
		// A dialect has closed its listener already; closing twice is harmless.
		if err := g.Close(); err != nil && !isClosed(err) {
			errs = append(errs, fmt.Errorf("close %s: %w", g.config.Addr, err))
		}
	}
	if s.web != nil {
		s.web.Close()
	}
	if s.engine != nil {
		if err := s.engine.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close engine: %w", err))
		}
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close store: %w", err))
		}
	}
	return errors.Join(errs...)
}

// dataDir returns the data directory the way an operator can find it.
func (s *server) dataDir() string {
	if abs, err := filepath.Abs(s.cfg.Data.Dir); err == nil {
		return abs
	}
	return s.cfg.Data.Dir
}

// backupSuffix makes the name of the directory of backups of that of the data.
const backupSuffix = "-backups"

// backupDir returns what backups are below: unless it is set, a directory beside the data.
func (s *server) backupDir() (string, error) {
	if s.cfg.Backup.Dir == "" {
		return s.dataDir() + backupSuffix, nil
	}
	dir, err := filepath.Abs(s.cfg.Backup.Dir)
	if err != nil {
		return "", fmt.Errorf("backup.dir: %w", err)
	}
	return dir, nil
}
