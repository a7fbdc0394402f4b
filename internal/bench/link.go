package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// link is what the clients have in common: a socket, what has been received and what is to be sent.
type link struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

const (
	dialTimeout = 10 * time.Second
	// besides is how much more than two bodies and the ids of a bulk an answer may have.
	besides = 8 << 10
	// idSize is how long the id of a job is at most, with what is around it.
	idSize = 40
)

func dialLink(o DialOptions) (*link, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	var c net.Conn
	var err error
	if o.TLS != nil {
		c, err = tls.DialWithDialer(dialer, "tcp", o.Addr, o.TLS)
	} else {
		c, err = dialer.Dial("tcp", o.Addr)
	}
	if err != nil {
		return nil, err
	}
	return &link{Conn: c, in: bufio.NewReaderSize(c, 2*o.BodyMax+idSize*o.Batch+besides)}, nil
}

// add appends texts to what is to be sent.
func (l *link) add(texts ...string) {
	for _, t := range texts {
		l.out = append(l.out, t...)
	}
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

// settled sends a request that is answered with one line.
func (l *link) settled(prefix string) error {
	if err := l.send(); err != nil {
		return err
	}
	_, err := l.expect(prefix)
	return err
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
		return nil, fmt.Errorf("no %s in %.200q", prefix, b)
	}
	return rest[:at], nil
}

// quoted returns the JSON string without escapes behind a prefix, with its quotes.
func quoted(b []byte, prefix string) ([]byte, error) {
	_, rest, ok := bytes.Cut(b, []byte(prefix))
	if !ok || len(rest) == 0 || rest[0] != '"' {
		return nil, fmt.Errorf("no string behind %s in %.200q", prefix, b)
	}
	at := bytes.IndexByte(rest[1:], '"')
	if at < 0 {
		return nil, fmt.Errorf("no end of %s in %.200q", prefix, b)
	}
	return rest[:at+2], nil
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
