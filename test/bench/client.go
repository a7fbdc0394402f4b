package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	// payloadSize is the size of a job's payload, a JSON string, in bytes.
	payloadSize = 100
	// bulkSize is how many jobs a bulk has.
	bulkSize = 64
	// fetchWait is how long a fetch waits for a job, where the protocol lets the client say so.
	fetchWait = time.Second
)

// payload is what every job carries: a JSON string, which every protocol can carry.
var payload = `"` + strings.Repeat("x", payloadSize-2) + `"`

// protocol is a wire protocol: how to speak it, and a server of it that does nothing.
type protocol struct {
	name string
	bulk string // what a bulk is
	// dial connects to a server. Everything that the client does is done to one queue.
	dial func(addr, queue string) (client, error)
	// serve answers whatever is asked with a constant, until l is closed.
	serve func(l net.Listener) error
}

// protocols are those that can be measured.
var protocols = []*protocol{&masenko, &workq, &faktory, &tarantool, &lmstfy}

func findProtocol(name string) (*protocol, error) {
	for _, p := range protocols {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("unknown protocol %q", name)
}

// client is one connection, used by one goroutine at a time. It costs as little as it can: it shares
// the processor with the server that is measured.
type client interface {
	// push pushes a job and waits for the answer.
	push() error
	// pushMany pushes n jobs in the protocol's bulk form, with one write, and waits for all answers.
	pushMany(n int) error
	// fetch waits for a job, false means that none came in time.
	fetch() (ok bool, err error)
	// ack settles the job that was fetched last and waits for the answer.
	ack() error
	SetDeadline(t time.Time) error
	Close() error
}

// link is what the clients have in common: a socket, what has been received and what is to be sent.
type link struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func dialLink(addr string) (*link, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &link{Conn: c, in: bufio.NewReaderSize(c, 8<<10)}, nil
}

// send sends out.
func (l *link) send() error {
	_, err := l.Write(l.out)
	l.out = l.out[:0]
	return err
}

// line returns the next line without its end; it is valid until the next read.
func (l *link) line() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// expect reads a line that begins with a prefix.
func (l *link) expect(prefix string) ([]byte, error) {
	line, err := l.line()
	if err == nil && !bytes.HasPrefix(line, []byte(prefix)) {
		err = fmt.Errorf("got %q, want %s", line, prefix)
	}
	return line, err
}

// block returns the next n bytes; they are valid until the next read.
func (l *link) block(n int) ([]byte, error) {
	b, err := l.in.Peek(n)
	if err != nil {
		return nil, err
	}
	_, err = l.in.Discard(n)
	return b, err
}

// between returns the part of b behind a prefix and before the next end.
func between(b []byte, prefix string, end byte) ([]byte, error) {
	_, rest, ok := bytes.Cut(b, []byte(prefix))
	at := bytes.IndexByte(rest, end)
	if !ok || at < 0 {
		return nil, fmt.Errorf("no %s in %q", prefix, b)
	}
	return rest[:at], nil
}

// number reads a decimal number that is all of b.
func number(b []byte) (n int, err error) {
	if len(b) == 0 || len(b) > 9 {
		return 0, fmt.Errorf("%q is no number", b)
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is no number", b)
		}
		n = n*10 + int(c-'0')
	}
	return n, nil
}

// closing closes a client that could not be made ready.
func closing(l *link, err error) error { return errors.Join(err, l.Close()) }
