package tarantool

import (
	"cmp"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/legacy"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/dialect/tarantool/queue"
	"millrace/internal/job"
)

// The defaults of Options.
const (
	defaultMaxPacket   = 64 << 20
	defaultMaxInFlight = 768
	defaultMaxWaiting  = 10_000
)

// Options configures the protocol. Zero values get defaults. Tarantool 1.5 speaks no TLS.
type Options struct {
	dialect.Options
	// Users are the passwords of those who may log in. RequireLogin refuses
	// procedures to everybody else.
	Users map[string]string
	// Throttle bounds how often a client may be wrong; nil bounds nothing.
	Throttle     *auth.Throttle
	RequireLogin bool
	// MaxPacket bounds a request in bytes.
	MaxPacket int
	// MaxInFlight bounds how many requests of a connection are in work at a time,
	// MaxWaiting how many more of its calls may wait for a task or for room.
	MaxInFlight int
	MaxWaiting  int
	// SessionTTR is how long the tasks of a queue session stay taken after its last
	// connection has ended, until a client sets it.
	SessionTTR time.Duration
}

// Dialect serves the protocol.
type Dialect struct {
	*dialect.Server
	opts     Options
	instance dialect.UUID
	started  time.Time
	users    iproto.Users
	server15 *dialect.Server
	queue    *queue.API
	legacy   *legacy.API
}

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.SetDefaults()
	o.MaxPacket = cmp.Or(o.MaxPacket, defaultMaxPacket)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultMaxInFlight)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, defaultMaxWaiting)
	d := &Dialect{opts: o, instance: dialect.NewUUID(), started: time.Now(), users: iproto.NewUsers(o.Users)}
	d.queue = queue.New(o.Engine, o.Namespace, o.MaxPacket, queue.SessionTTR(o.Engine, o.Namespace, o.SessionTTR))
	d.legacy = legacy.New(o.Engine, o.Namespace)
	d.Server = d.newServer(name, o.Options, newCommands(false), func(c *proc.Conn) proc.Wire { return newIProto(d, c) })
	o.TLS = nil
	d.server15 = d.newServer(name15, o.Options, newCommands(true),
		func(*proc.Conn) proc.Wire { return &box15Wire{legacy: d.legacy} })
	return d
}

var _ dialect.Adopter = (*Dialect)(nil)

// Adopt takes over a task of another server, or a tube.
func (d *Dialect) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	return d.queue.Adopt(a)
}

// newServer returns what serves the connections of one of the wire protocols.
func (d *Dialect) newServer(
	name string, o dialect.Options, commands *dialect.Commands, newWire func(*proc.Conn) proc.Wire,
) *dialect.Server {
	host := &proc.Host{
		Engine: o.Engine, Logger: o.Logger, Commands: commands, NewWire: newWire,
		MaxPacket: d.opts.MaxPacket, MaxInFlight: d.opts.MaxInFlight, MaxWaiting: d.opts.MaxWaiting,
	}
	return dialect.NewServer(dialect.ServerOptions{
		Options: o, Name: name, Door: dialect.DoorTarantool, Commands: commands, Handler: host.Serve,
		Start: d.legacy.Start,
	})
}
