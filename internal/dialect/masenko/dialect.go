package masenko

import (
	"cmp"
	"time"

	"millrace/internal/dialect"
)

// The defaults of Options.
const (
	DefaultHeartbeat  = 45 * time.Second
	DefaultMaxLine    = 16 << 20
	DefaultMaxPayload = 8 << 20
	DefaultMaxAtomic  = 32 << 20
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	dialect.Options
	// Heartbeat is how long a connection may be silent.
	Heartbeat time.Duration
	// MaxLine bounds a request line, MaxPayload a task's payload and MaxAtomic
	// all lines of a transaction together, in bytes.
	MaxLine    int
	MaxPayload int
	MaxAtomic  int
}

// Dialect serves the protocol.
type Dialect struct {
	*dialect.Server
	opts     Options
	counters counters
}

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.SetDefaults()
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.MaxLine = cmp.Or(o.MaxLine, DefaultMaxLine)
	o.MaxPayload = cmp.Or(o.MaxPayload, DefaultMaxPayload)
	o.MaxAtomic = cmp.Or(o.MaxAtomic, DefaultMaxAtomic)
	d := &Dialect{opts: o}
	d.Server = dialect.NewServer(dialect.ServerOptions{
		Options: o.Options, Name: name, Door: dialect.DoorMasenko, Commands: newCommands(),
		Handler: d.handle, Reject: d.reject, Limits: dialect.Limits{MaxLine: o.MaxLine},
	})
	return d
}

func (d *Dialect) reject(int) []byte {
	d.counters.responses[responseErr].Add(1)
	return appendError(nil, textTooManyClients)
}
