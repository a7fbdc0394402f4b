package torture

import (
	"fmt"
	"strings"
	"time"
)

// faktoryClient speaks the Faktory Work Protocol: a line of a verb and JSON,
// answered by a line or by a block with its size.
type faktoryClient struct{ *link }

const (
	// faktoryLease is how long jobs pushed through Faktory are reserved, the least
	// that the protocol has; faktoryDefault is for jobs that say nothing.
	faktoryLease   = 60 * time.Second
	faktoryDefault = 1800 * time.Second
	// faktoryWait is how long a FETCH waits, whatever the client wants.
	faktoryWait = 2 * time.Second
)

// greetFaktory does the handshake. Without a wid the client is no worker that
// would have to send heartbeats.
func greetFaktory(l *link) (*faktoryClient, error) {
	c := &faktoryClient{l}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "+HI ") {
		return nil, fmt.Errorf("greeted with %q", line)
	}
	return c, c.settled(`HELLO {"v":2}`)
}

// settled sends a line that is answered with OK.
func (c *faktoryClient) settled(format string, args ...any) error {
	text, _, err := c.call(0, format, args...)
	if err == nil && text != "OK" {
		err = fmt.Errorf("got %q, want OK", text)
	}
	return err
}

// call sends a line and returns the answer, false if it is none.
func (c *faktoryClient) call(wait time.Duration, format string, args ...any) (string, bool, error) {
	c.printf(format+"\r\n", args...)
	if err := c.send(wait); err != nil {
		return "", false, err
	}
	line, err := c.line()
	switch {
	case err != nil || line == "$-1":
		return "", false, err
	case strings.HasPrefix(line, "+"):
		return line[1:], true, nil
	case strings.HasPrefix(line, "-"):
		return "", false, &refusedError{line}
	case !strings.HasPrefix(line, "$"):
		return "", false, fmt.Errorf("got %q", line)
	}
	n, err := count(line[1:])
	if err != nil {
		return "", false, err
	}
	text, err := c.block(n)
	return text, err == nil, err
}

// faktoryJob is a job as it is pushed, with more members if there are any.
func faktoryJob(queue, token, more string) string {
	return fmt.Sprintf(`{"jid":%q,"jobtype":"t","queue":%q,"reserve_for":%d,"args":[%q]%s}`,
		uuidOf(token), queue, int(faktoryLease.Seconds()), bodyOf(token), more)
}

func (c *faktoryClient) push(queue string, tokens ...string) error {
	if len(tokens) == 1 {
		return c.settled("PUSH %s", faktoryJob(queue, tokens[0], ""))
	}
	jobs := make([]string, len(tokens))
	for i, t := range tokens {
		jobs[i] = faktoryJob(queue, t, "")
	}
	refused, _, err := c.call(0, "PUSHB [%s]", strings.Join(jobs, ","))
	if err == nil && refused != "{}" {
		err = fmt.Errorf("PUSHB refused %s", refused)
	}
	return err
}

func (c *faktoryClient) fetch(queue string, _ time.Duration) (delivery, bool, error) {
	job, ok, err := c.call(faktoryWait, "FETCH %s", queue)
	if err != nil || !ok {
		return delivery{}, false, err
	}
	var d delivery
	if d.id, err = member(job, "jid"); err == nil {
		d.body, err = member(job, "args")
	}
	return d, err == nil, err
}

func (c *faktoryClient) ack(_, id string) error { return c.settled(`ACK {"jid":%q}`, id) }

func (c *faktoryClient) fail(_, id string) error {
	return c.settled(`FAIL {"jid":%q,"errtype":"E","message":"m","backtrace":[]}`, id)
}

// requeue makes every job ready that waits for a retry or for its time.
func (c *faktoryClient) requeue() error {
	if err := c.settled(`MUTATE {"cmd":"requeue","target":"retries"}`); err != nil {
		return err
	}
	return c.settled(`MUTATE {"cmd":"requeue","target":"scheduled"}`)
}
