package torture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
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

// client is one connection of whatever protocol, used by one goroutine at a time.
// An error that is no *refusedError leaves it unknown whether the request has been
// carried out.
type client interface {
	// push pushes jobs with one request, or with one write of several.
	push(queue string, tokens ...string) error
	// fetch waits for a job; false means that none came in time.
	fetch(queue string, wait time.Duration) (delivery, bool, error)
	// ack settles a job as done.
	ack(queue, id string) error
	// fail gives a job back in the way that the protocol has for it, if any.
	fail(queue, id string) error
	Close() error
}

// refusedError is an answer that says no: the request has had no effect.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return "refused: " + e.text }

func isRefused(err error) bool {
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

// proto is a wire protocol, by the name of its listener.
type proto uint8

const (
	masenko proto = iota
	workq
	faktory
	lmstfy
	tarantool
	beanstalkd
	protoCount
)

var protoNames = [protoCount]string{"masenko", "workq", "faktory", "lmstfy", "tarantool", "beanstalkd"}

func (p proto) String() string { return protoNames[p] }

// connected reports whether a lease of the protocol ends with the connection, and
// nobody else may settle it.
func (p proto) connected() bool { return p == masenko || p == tarantool || p == beanstalkd }

// dial connects through one of the protocols.
func dial(p proto, addr string) (client, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: c, in: bufio.NewReaderSize(c, 8<<10)}
	var out client
	switch p {
	case masenko:
		out = &masenkoClient{l}
	case workq:
		out = &workqClient{l}
	case faktory:
		out, err = greetFaktory(l)
	case lmstfy:
		out = &lmstfyClient{link: l}
	case tarantool:
		out, err = greetTarantool(l)
	case beanstalkd:
		out = &beanstalkdClient{link: l}
	case protoCount:
		err = errors.New("no such protocol")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return out, nil
}

// link is what the clients have in common: a socket, what has been received and
// what is to be sent.
type link struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func (l *link) printf(format string, args ...any) { l.out = fmt.Appendf(l.out, format, args...) }

// send sends what has been printed, and allows the server wait before it must answer.
func (l *link) send(wait time.Duration) error {
	if err := l.SetDeadline(time.Now().Add(wait + patience)); err != nil {
		return err
	}
	_, err := l.Write(l.out)
	l.out = l.out[:0]
	return err
}

// line returns the next line without its end.
func (l *link) line() (string, error) {
	line, err := l.in.ReadBytes('\n')
	return string(bytes.TrimRight(line, "\r\n")), err
}

// block returns the next n bytes and skips the end of line behind them.
func (l *link) block(n int) (string, error) {
	const blockMax = 1 << 24
	if n < 0 || n > blockMax {
		return "", fmt.Errorf("a block of %d bytes", n)
	}
	b := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(l.in, b); err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// member returns the text behind a member's name in a JSON object, up to the next
// quote if it is a string or the first string of an array, else the digits there.
func member(reply, name string) (string, error) {
	at := bytes.Index([]byte(reply), []byte(`"`+name+`":`))
	if at < 0 {
		return "", fmt.Errorf("no %s in %.200q", name, reply)
	}
	rest := reply[at+len(name)+3:]
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n > 0 {
		return rest[:n], nil
	}
	return quoted(rest)
}

// quoted returns what stands between the first two quotes. Bodies have none of their own.
func quoted(s string) (string, error) {
	from := bytes.IndexByte([]byte(s), '"') + 1
	to := bytes.IndexByte([]byte(s[from:]), '"')
	if from == 0 || to < 0 {
		return "", fmt.Errorf("no string in %.200q", s)
	}
	return s[from : from+to], nil
}

// count reads a decimal number.
func count(s string) (int, error) { return strconv.Atoi(s) }
