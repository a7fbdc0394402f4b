package workq

import (
	"cmp"
	"fmt"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The defaults of Options.
const (
	DefaultMaxLine    = 1 << 20
	DefaultMaxPayload = 1 << 20
	DefaultTTR        = 30 * time.Minute
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	dialect.Options
	// MaxLine bounds a command line, MaxPayload a payload or result, in bytes.
	MaxLine    int
	MaxPayload int
	// DefaultTTR is the lease of jobs that other protocols pushed without one. A
	// lease of this protocol outlives its connection, so it must end by itself.
	DefaultTTR time.Duration
}

// Dialect serves the protocol.
type Dialect struct {
	*dialect.Server
	opts    Options
	started job.Time
	base    uint64 // how many jobs had expired before this server started to serve
}

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.SetDefaults()
	o.MaxLine = cmp.Or(o.MaxLine, DefaultMaxLine)
	o.MaxPayload = cmp.Or(o.MaxPayload, DefaultMaxPayload)
	o.DefaultTTR = cmp.Or(o.DefaultTTR, DefaultTTR)
	d := &Dialect{opts: o, started: job.TimeOf(time.Now())}
	d.Server = dialect.NewServer(dialect.ServerOptions{
		Options: o.Options, Name: name, Door: dialect.DoorWorkq, Commands: dialect.NewCommands(verbNames[:]...),
		Handler: d.handle, Start: d.start,
		Reject: func(int) []byte { return appendError(nil, textManyClients) },
		// A line is bounded without its LF, but its CR counts; a block is read with
		// its CR LF.
		Limits: dialect.Limits{MaxLine: o.MaxLine + 1, MaxBlock: o.MaxPayload + len(crlf)},
	})
	return d
}

func (d *Dialect) start() (err error) {
	if d.base, err = d.expired(); err != nil {
		return fmt.Errorf("count expired jobs: %w", err)
	}
	return nil
}
