package beanstalkd

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync/atomic"
	"time"

	"millrace/internal/dialect"
)

// The defaults of Options.
const (
	DefaultMaxJob = 65535
	// lineMax is the longest command line, with its CR LF (protocol section 1).
	lineMax = 224
	// watchMax is how many tubes a connection may watch. The original has no bound.
	watchMax = 1024
	// margin is how long before the end of a lease its holder is not to wait any more.
	margin = time.Second
)

// Options configures the protocol. Zero values get defaults.
type Options struct {
	dialect.Options
	// MaxJob bounds the body of a job, in bytes.
	MaxJob int
}

// Dialect serves the protocol.
type Dialect struct {
	*dialect.Server
	opts  Options
	tubes tubes

	// What stats tells.
	id        string
	host      string
	started   time.Time
	asked     [verbCount]atomic.Uint64
	producers atomic.Int64
	workers   atomic.Int64
	waiting   atomic.Int64
}

// New returns the protocol on an engine.
func New(o Options) *Dialect {
	o.SetDefaults()
	o.MaxJob = cmp.Or(o.MaxJob, DefaultMaxJob)
	d := &Dialect{opts: o, id: newID(), started: time.Now()}
	d.host, _ = os.Hostname() // without a name it is empty
	d.Server = dialect.NewServer(dialect.ServerOptions{
		Options: o.Options, Name: name, Door: dialect.DoorBeanstalkd, Commands: dialect.NewCommands(verbNames[:]...),
		Handler: d.handle, Reject: func(int) []byte { return []byte(replyNoMemory) },
		Limits: dialect.Limits{MaxBlock: o.MaxJob + len(crlf)}, // a body is read with its CR LF
	})
	return d
}

// newID returns the name of this start of the server.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
