package bench

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// FetchWait is how long a fetch waits for a job, where the protocol lets the client say so.
const FetchWait = time.Second

// Protocol is a wire protocol: how to speak it, and a server of it that does nothing.
type Protocol struct {
	Name string
	// Bulk says what the push of several jobs with one write is.
	Bulk string

	dial    func(o DialOptions) (Client, error)
	nothing func(l net.Listener, o Nothing) error
}

// The protocols that can be measured.
var (
	Masenko    = &Protocol{Name: "masenko", Bulk: "a transaction of PUSH", dial: dialMasenko, nothing: serveMasenko}
	Workq      = &Protocol{Name: "workq", Bulk: "pipelined add", dial: dialWorkq, nothing: serveWorkq}
	Faktory    = &Protocol{Name: "faktory", Bulk: "a PUSHB", dial: dialFaktory, nothing: serveFaktory}
	Tarantool  = &Protocol{Name: "tarantool", Bulk: "pipelined put", dial: dialFIFO, nothing: serveTarantool}
	Lmstfy     = &Protocol{Name: "lmstfy", Bulk: "a bulk publish", dial: dialLmstfy, nothing: serveLmstfy}
	Beanstalkd = &Protocol{Name: "beanstalkd", Bulk: "pipelined put", dial: dialBeanstalkd, nothing: serveBeanstalkd}
)

// Protocols returns all of them.
func Protocols() []*Protocol {
	return []*Protocol{Masenko, Workq, Faktory, Tarantool, Lmstfy, Beanstalkd}
}

// Names returns their names.
func Names() []string {
	var names []string
	for _, p := range Protocols() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns the protocol with a name.
func Find(name string) (*Protocol, error) {
	protocols := Protocols()
	i := slices.IndexFunc(protocols, func(p *Protocol) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no protocol %q: choose one of %s", name, strings.Join(Names(), ", "))
	}
	return protocols[i], nil
}

// DialOptions say how to connect.
type DialOptions struct {
	Addr string
	// TLS is how to speak TLS; nil is not at all.
	TLS *tls.Config
	// Queue is the one queue to which a client does everything.
	Queue string
	// Secret is what the server asks of its clients: Faktory's password, LMSTFY's token, USER:PASSWORD
	// of Tarantool. The other protocols have none.
	Secret string
	// BodyMax is the size of the largest body.
	BodyMax int
	// Batch is the largest number of jobs pushed at once.
	Batch int
}

// Client is one connection, used by one goroutine at a time. It costs as little as it can: it may
// share the processor with the server that is measured.
type Client interface {
	// Push pushes a job and waits for the answer. A body is a JSON string without escapes, which
	// every protocol can carry.
	Push(body []byte) error
	// PushMany pushes jobs in the protocol's bulk form, with one write, and waits for all answers.
	PushMany(bodies [][]byte) error
	// Fetch waits for a job; not ok means that none came in time. The body is valid until the next
	// call.
	Fetch() (body []byte, ok bool, err error)
	// Ack settles the job that was fetched last, so that nothing is left of it, and waits for the answer.
	Ack() error
	// SetDeadline bounds what waits for the server, now and later.
	SetDeadline(t time.Time) error
	// Close ends the connection.
	Close() error
}

// Dial connects to a server.
func (p *Protocol) Dial(o DialOptions) (Client, error) { return p.dial(o) }

// Nothing says what a server that does nothing answers.
type Nothing struct {
	// Body is that of the job that every fetch is answered with.
	Body []byte
	// RequestMax bounds the size of a request, a bulk being one.
	RequestMax int
}

// ServeNothing answers whatever it is asked with constants, until l is closed: what it reaches is the
// limit that loopback, scheduler and load generator set to any server.
func (p *Protocol) ServeNothing(l net.Listener, o Nothing) error { return p.nothing(l, o) }
