package bench

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"millrace/internal/wire"
)

// FetchWait is how long a fetch waits for a job, where the protocol lets the client say so.
const FetchWait = time.Second

// Protocol is a wire protocol: how to speak it, and a server of it that does nothing.
type Protocol struct {
	Name string
	// Bulk says what the push of several jobs with one write is.
	Bulk string
	// Connect connects to a server of a protocol that is none of ours; nil does it by the name.
	Connect func(DialOptions) (wire.Client, error)

	nothing func(l net.Listener, o Nothing) error
}

// The protocols that can be measured.
var (
	Masenko    = &Protocol{Name: "masenko", Bulk: "a transaction of PUSH", nothing: serveMasenko}
	Workq      = &Protocol{Name: "workq", Bulk: "pipelined add", nothing: serveWorkq}
	Faktory    = &Protocol{Name: "faktory", Bulk: "a PUSHB", nothing: serveFaktory}
	Tarantool  = &Protocol{Name: "tarantool", Bulk: "pipelined put", nothing: serveTarantool}
	Lmstfy     = &Protocol{Name: "lmstfy", Bulk: "a bulk publish", nothing: serveLmstfy}
	Beanstalkd = &Protocol{Name: "beanstalkd", Bulk: "pipelined put", nothing: serveBeanstalkd}
	Rest       = &Protocol{Name: "rest", Bulk: "a push of several", nothing: serveRest}
)

// Protocols returns all of them.
func Protocols() []*Protocol {
	return []*Protocol{Masenko, Workq, Faktory, Tarantool, Lmstfy, Beanstalkd, Rest}
}

// Names returns their names.
func Names() []string { return wire.Protocols() }

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
	// Kind is the type of a tube of Tarantool.
	Kind string
	// Secret is what the server asks of its clients, as in wire.Options.
	Secret string
	// BodyMax is the size of the largest body.
	BodyMax int
	// Batch is the largest number of jobs pushed at once.
	Batch int
}

const (
	// idSize is how long the id of a job is at most, with what is around it.
	idSize = 40
	// besides is how much more than two bodies and the ids of a bulk an answer may have.
	besides = 8 << 10
)

// Dial connects to a server.
func (p *Protocol) Dial(o DialOptions) (wire.Client, error) {
	if p.Connect != nil {
		return p.Connect(o)
	}
	c, err := wire.Dial(p.Name, wire.Options{
		Addr: o.Addr, TLS: o.TLS, Secret: o.Secret, Namespace: "bench", Queue: o.Queue, Kind: cmp.Or(o.Kind, "fifo"),
		Hello:  map[string]any{"hostname": "bench", "pid": 1, "labels": []string{}, "wid": wire.NewID()},
		Buffer: 2*o.BodyMax + idSize*o.Batch + besides,
	})
	if w, ok := c.(*wire.Workq); ok {
		return deletingWorkq{w}, err
	}
	return c, err
}

// deletingWorkq deletes a job that is done with its empty result, which would be kept until its time to live ends: one
// after the other, as a worker and the one who waits for it do.
type deletingWorkq struct{ *wire.Workq }

// Ack implements wire.Client.
func (c deletingWorkq) Ack(queue string, id []byte) error {
	if err := c.Workq.Ack(queue, id); err != nil {
		return err
	}
	return c.Delete(id)
}

// Nothing says what a server that does nothing answers.
type Nothing struct {
	// Body is that of the job that every fetch is answered with.
	Body []byte
	// RequestMax bounds the size of a request, a bulk being one.
	RequestMax int
}

// Listener returns the name of the server's listener where the protocol is spoken.
func (p *Protocol) Listener() string { return wire.Listener(p.Name) }

// ServeNothing answers whatever it is asked with constants, until l is closed: what it reaches is the
// limit that loopback, scheduler and load generator set to any server.
func (p *Protocol) ServeNothing(l net.Listener, o Nothing) error { return p.nothing(l, o) }
