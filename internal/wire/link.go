package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// link is what the clients have in common: a socket, what has been received and what is to be sent.
type link struct {
	net.Conn
	in       *bufio.Reader
	out      []byte
	long     []byte // the last answer that did not fit into the buffer of in
	patience time.Duration
}

// bufferMin is the least length of an answer that is read without copying.
const bufferMin = 8 << 10

func newLink(conn net.Conn, o Options) *link {
	return &link{Conn: conn, in: bufio.NewReaderSize(conn, max(o.Buffer, bufferMin)), patience: o.Patience}
}

// Reader implements Client.
func (l *link) Reader() *bufio.Reader { return l.in }

// add appends texts to what is to be sent.
func (l *link) add(texts ...string) {
	for _, t := range texts {
		l.out = append(l.out, t...)
	}
}

// expire bounds how long the next answer may take beyond wait.
func (l *link) expire(wait time.Duration) error {
	if l.patience == 0 {
		return nil
	}
	return l.SetDeadline(time.Now().Add(wait + l.patience))
}

// send sends out. The server may wait for a time before it answers.
func (l *link) send(wait time.Duration) error {
	if err := l.expire(wait); err != nil {
		return err
	}
	_, err := l.Write(l.out)
	l.out = l.out[:0]
	return err
}

// line returns the next line without its end; it is valid until the next read.
func (l *link) line() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		var rest []byte
		rest, err = l.in.ReadBytes('\n')
		l.long = append(l.long, rest...)
		line = l.long
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// block returns the next n bytes; they are valid until the next read.
func (l *link) block(n int) ([]byte, error) {
	if n > l.in.Size() {
		if cap(l.long) < n {
			l.long = make([]byte, n)
		}
		_, err := io.ReadFull(l.in, l.long[:n])
		return l.long[:n], err
	}
	b, err := l.in.Peek(n)
	if err != nil {
		return nil, err
	}
	_, err = l.in.Discard(n)
	return b, err
}

// text returns the next n bytes, which an end of line follows.
func (l *link) text(n int) ([]byte, error) {
	b, err := l.block(n + len("\r\n"))
	if err != nil {
		return nil, err
	}
	b, ok := bytes.CutSuffix(b, []byte("\r\n"))
	if !ok {
		return nil, fmt.Errorf("%d bytes end in %q", n, b[max(0, n-2):])
	}
	return b, nil
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

// value returns the JSON value behind a prefix.
func value(b []byte, prefix string) (json.RawMessage, error) {
	_, rest, ok := bytes.Cut(b, []byte(prefix))
	if !ok {
		return nil, fmt.Errorf("no %s in %.200q", prefix, b)
	}
	if len(rest) > 0 && rest[0] == '"' { // mostly a string without escapes
		if at := bytes.IndexByte(rest[1:], '"'); at >= 0 && rest[at] != '\\' {
			return json.RawMessage(rest[:at+2]), nil
		}
	}
	var raw json.RawMessage
	err := json.NewDecoder(bytes.NewReader(rest)).Decode(&raw)
	return raw, err
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

// seconds are those of d, parts of one counted as one.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
