package torture

import (
	"fmt"
	"strings"
	"time"

	"millrace/internal/wire"
	"millrace/test/harness"
)

// patience is how long a client waits for an answer beyond what it asked the
// server to wait.
const patience = 30 * time.Second

// delivery is a job in the hands of a client: its id as the protocol shows it, and
// its body.
type delivery struct {
	id   string
	body string
}

// proto is a wire protocol, in the order of wire.Protocols.
type proto uint8

const (
	masenko proto = iota
	workq
	faktory
	tarantool
	lmstfy
	beanstalkd
	rest
	protoCount

	// modelled is how many of them are in the histories of the linearizability suite, whose model does not know REST.
	modelled = rest
	// holding is how many of them hold a connection while a cluster has no leader. The operator API fails at once.
	holding = rest
)

func (p proto) String() string { return wire.Protocols()[p] }

// addr is where a server speaks the protocol.
func (p proto) addr(s *harness.Server) string { return s.Addrs[wire.Listener(p.String())] }

// connected reports whether a lease of the protocol ends with the connection, and
// nobody else may settle it.
func (p proto) connected() bool { return p == masenko || p == tarantool || p == beanstalkd }

// How long jobs are held, by the protocol that pushed them, or consumed them from LMSTFY.
const (
	workqLease      = 5 * time.Second
	beanstalkdLease = 5 * time.Second
	lmstfyLease     = 5 * time.Second
	restLease       = 5 * time.Second
	// restDefault is for jobs that say nothing, fetched through REST.
	restDefault = 60 * time.Second
	// faktoryLease is the least that the protocol has; faktoryDefault is for jobs that say nothing.
	faktoryLease   = 60 * time.Second
	faktoryDefault = 1800 * time.Second
)

// leases are what pushes say about them, and tries the failures that jobs outlive.
var (
	leases = [protoCount]time.Duration{
		workq: workqLease, beanstalkd: beanstalkdLease, faktory: faktoryLease, rest: restLease,
	}
	tries = [protoCount]int{masenko: masenkoTries + 1, workq: 255, lmstfy: 65535, rest: 1000}
)

const masenkoTries = 20

// client is one connection of a protocol, used by one goroutine at a time.
type client struct {
	wire.Client
	proto proto
}

// dial connects through one of the protocols.
func dial(p proto, addr string) (*client, error) {
	c, err := wire.Dial(p.String(), wire.Options{Addr: addr, Namespace: "default", Patience: patience})
	if l, ok := c.(*wire.Lmstfy); ok {
		l.Lease = lmstfyLease
	}
	return &client{c, p}, err
}

// push pushes jobs with one request, or with one write of several.
func (c *client) push(queue string, tokens ...string) error {
	return c.pushFor(queue, leases[c.proto], tokens...)
}

// pushFor is push with the lease that the jobs will have.
func (c *client) pushFor(queue string, lease time.Duration, tokens ...string) error {
	jobs := make([]wire.Job, len(tokens))
	for i, t := range tokens {
		jobs[i] = wire.Job{ID: uuidOf(t), Body: fmt.Appendf(nil, "%q", bodyOf(t)), Lease: lease, Tries: tries[c.proto]}
	}
	return c.Push(queue, jobs...)
}

// fetch waits for a job; false means that none came in time.
func (c *client) fetch(queue string, wait time.Duration) (delivery, bool, error) {
	j, ok, err := c.Fetch(queue, wait)
	if err != nil || !ok {
		return delivery{}, false, err
	}
	// Bodies have no quotes of their own. What was pushed as an argument is shown in an array.
	parts := strings.SplitN(string(j.Body), `"`, 3)
	if len(parts) != 3 {
		return delivery{}, false, fmt.Errorf("no string in %.200q", j.Body)
	}
	return delivery{id: string(j.ID), body: parts[1]}, true, nil
}

func (c *client) ack(queue, id string) error { return c.Ack(queue, []byte(id)) }

func (c *client) fail(queue, id string) error { return c.Fail(queue, []byte(id)) }

// faktoryJob is a job as it is pushed through Faktory, with more members if there are any.
func faktoryJob(queue, token, more string) string {
	return fmt.Sprintf(`{"jid":%q,"jobtype":"t","queue":%q,"reserve_for":%d,"args":[%q]%s}`,
		uuidOf(token), queue, int(faktoryLease.Seconds()), bodyOf(token), more)
}

// masenkoPush is a PUSH with more members if there are any.
func masenkoPush(queue, token string, retry int, more string) string {
	return fmt.Sprintf(`PUSH {"name":"t","queue":%q,"retry":%d,"payload":%q%s}`, queue, retry, bodyOf(token), more)
}

// requeue makes every job ready that waits for a retry or for its time.
func requeue(c *wire.Faktory) error {
	if err := c.OK(`MUTATE {"cmd":"requeue","target":"retries"}`); err != nil {
		return err
	}
	return c.OK(`MUTATE {"cmd":"requeue","target":"scheduled"}`)
}
