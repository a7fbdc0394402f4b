package wire

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Job is a job to push. A zero field says nothing, and a protocol leaves out what it cannot say.
type Job struct {
	// Body is JSON. Workq, LMSTFY, Tarantool, beanstalkd and REST take any bytes.
	Body []byte
	// ID is the client's own, for Faktory and Workq; if it is empty one is made.
	ID    string
	Level int // priority: below zero is low, above is high
	Delay time.Duration
	TTL   time.Duration
	Lease time.Duration
	Tries int // how often it may fail, the last time included
	Group string
	Trace string // a traceparent
}

// Fetched is a job that was fetched. It is valid until the next fetch.
type Fetched struct{ ID, Body []byte }

// Untold stands in a Sight for what the protocol does not tell.
const Untold = -1

// Sight is how many jobs a protocol says there are.
type Sight struct{ Ready, Delayed, Held, Dead int }

// Client is one connection, used by one goroutine at a time. An error that is no RefusedError leaves it unknown whether
// the request has been carried out. Names of queues and ids have nothing to escape.
type Client interface {
	// Push pushes jobs and waits for the answers: several in the protocol's bulk form, with one write.
	Push(queue string, jobs ...Job) error
	// Fetch waits for a job; not ok means that none came in time.
	Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error)
	// Ack settles a job as done.
	Ack(queue string, id []byte) error
	// Fail gives a job back as failed, or in the way that the protocol has for it.
	Fail(queue string, id []byte) error
	// Look tells how many jobs a queue has; none if the queue is not there.
	Look(queue string) (Sight, error)
	// Reader returns what follows the answers that were read, for those who go on with bytes.
	Reader() *bufio.Reader
	// SetDeadline bounds what waits for the server, now and later.
	SetDeadline(t time.Time) error
	// Close ends the connection without a word.
	Close() error
}

// RefusedError is an answer that says no, in the server's words: the request has had no effect.
type RefusedError string

// Error returns the server's words.
func (e RefusedError) Error() string { return string(e) }

// IsRefused reports whether the server has said no.
func IsRefused(err error) bool {
	_, ok := errors.AsType[RefusedError](err)
	return ok
}

// Options say how to connect.
type Options struct {
	Addr string
	// TLS is how to speak TLS; nil is not at all.
	TLS *tls.Config
	// Secret is what the server asks of its clients: Faktory's password, LMSTFY's token, USER:PASSWORD of Tarantool,
	// USER:PASSWORD or the token of an operator for REST. The other protocols have none.
	Secret string
	// Namespace is where the jobs are, for LMSTFY and REST, which say so.
	Namespace string
	// Queue is what the client will use, if that is known: what the server must be told before is told on connecting.
	Queue string
	// Kind is the type of the tubes that a client of Tarantool makes before it uses them; empty: it makes none.
	Kind string
	// Hello is what a client of Faktory says about itself. One with a wid is a worker, which sends heartbeats.
	Hello map[string]any
	// Patience is how long an answer may take beyond the wait of a fetch; zero is without end.
	Patience time.Duration
	// Buffer is how long an answer is that is read without copying.
	Buffer int
}

// protocols are the clients by protocol, in the order of Protocols.
var protocols = []struct {
	name string
	make func(l *link, o Options) (Client, error)
}{
	{"masenko", newMasenko},
	{"workq", newWorkq},
	{"faktory", newFaktory},
	{"tarantool", newTarantool},
	{"lmstfy", newLmstfy},
	{"beanstalkd", newBeanstalkd},
	{"rest", newRest},
}

// Protocols returns the names of all protocols.
func Protocols() []string {
	names := make([]string, len(protocols))
	for i := range protocols {
		names[i] = protocols[i].name
	}
	return names
}

// Listener returns the name of the listener where a protocol is spoken.
func Listener(protocol string) string {
	if protocol == "rest" {
		return "web" // it is a part of the operator API
	}
	return protocol
}

// Listeners returns the names of the listeners where all protocols are spoken, in the order of Protocols.
func Listeners() []string {
	names := Protocols()
	for i, p := range names {
		names[i] = Listener(p)
	}
	return names
}

const dialTimeout = 10 * time.Second

// Dial connects to a server.
func Dial(protocol string, o Options) (Client, error) {
	dialer := &net.Dialer{Timeout: max(dialTimeout, o.Patience)}
	var conn net.Conn
	var err error
	if o.TLS != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", o.Addr, o.TLS)
	} else {
		conn, err = dialer.Dial("tcp", o.Addr)
	}
	if err != nil {
		return nil, err
	}
	return New(protocol, conn, o)
}

// New returns a client on a connection, which is closed if the server does not accept it.
func New(protocol string, conn net.Conn, o Options) (Client, error) {
	i := slices.Index(Protocols(), protocol)
	if i < 0 {
		return nil, fmt.Errorf("there is no protocol %q: choose one of %s", protocol, strings.Join(Protocols(), ", "))
	}
	c, err := protocols[i].make(newLink(conn, o), o)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// As is what Dial or New has returned for a caller that knows the client of the protocol.
func As[C Client](c Client, err error) (C, error) {
	out, _ := c.(C)
	return out, err
}
