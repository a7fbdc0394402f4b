package faktory

import (
	"cmp"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The defaults of Options.
const (
	DefaultMaxLine = 64 << 20
	DefaultDeadMax = 1_000_000
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	dialect.Options
	// Password is what clients must know; empty lets everybody in.
	Password string
	// Throttle bounds how often a client may be wrong; nil bounds nothing.
	Throttle *auth.Throttle
	// Version is that of the server, for INFO.
	Version string
	// MaxLine bounds a command line, in bytes.
	MaxLine int
	// DeadMax bounds the dead jobs of a queue; the oldest are dropped.
	DeadMax uint32
}

// Dialect serves the protocol.
type Dialect struct {
	*dialect.Server
	opts    Options
	workers registry
	started time.Time
	known   atomic.Uint64 // commands of known verbs
	lapsed  uint64        // how many reservations had lapsed before this server started to serve
}

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.SetDefaults()
	o.MaxLine = cmp.Or(o.MaxLine, DefaultMaxLine)
	o.DeadMax = cmp.Or(o.DeadMax, DefaultDeadMax)
	d := &Dialect{opts: o, started: time.Now(), workers: registry{engine: o.Engine}}
	d.Server = dialect.NewServer(dialect.ServerOptions{
		Options: o.Options, Name: name, Door: dialect.DoorFaktory, Commands: dialect.NewCommands(verbNames[:]...),
		Handler: d.handle, Start: d.start,
		Reject: func(limit int) []byte { return appendErr(nil, textManyClients+strconv.Itoa(limit)) },
		Limits: dialect.Limits{MaxLine: o.MaxLine, HandshakeTimeout: helloTime},
	})
	return d
}

// start counts how many jobs had lapsed before.
func (d *Dialect) start() error {
	s, err := d.opts.Engine.Sums(d.opts.Namespace)
	if err != nil {
		return fmt.Errorf("count lapsed jobs: %w", err)
	}
	d.lapsed = s.Totals[job.CountLapsed]
	return nil
}

// Workers returns the worker processes that are connected, in the order in which they
// came.
func (d *Dialect) Workers() []Worker { return d.workers.list() }

// Signal tells a worker process, or with an empty wid all of them, to be quiet or to
// terminate: they learn it with their next BEAT and are given no more jobs. It returns
// how many there are.
func (d *Dialect) Signal(wid string, to WorkerState) int { return d.workers.signal(wid, to) }
