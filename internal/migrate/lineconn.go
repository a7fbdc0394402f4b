package migrate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// lineConn is a connection to a server, most of which are asked and answer by lines.
type lineConn struct {
	conn net.Conn
	in   *bufio.Reader
	name string // of the kind of server
	host string
}

// parseTCP reads tcp://HOST:PORT, where the port may be left out.
func parseTCP(address, port string) (u *url.URL, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "tcp" || u.Host == "" {
		return nil, false
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u, true
}

// dialLines connects to such an address.
func dialLines(ctx context.Context, name, address, port string) (*lineConn, error) {
	u, ok := parseTCP(address, port)
	if !ok {
		return nil, fmt.Errorf("%q is not an address to follow: write tcp://HOST:PORT", address)
	}
	return dialHost(ctx, name, u.Host)
}

// dialHost connects to a server of some kind.
func dialHost(ctx context.Context, name, host string) (*lineConn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", name, err)
	}
	return &lineConn{conn, bufio.NewReaderSize(conn, 64<<10), name, host}, nil
}

func (c *lineConn) Close() error { return c.conn.Close() }

// ask sends lines. The answers are read one by one.
func (c *lineConn) ask(lines string) error {
	if err := c.conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(c.conn, lines); err != nil {
		return fmt.Errorf("ask %s: %w", c.name, err)
	}
	return nil
}

// line reads a line of an answer.
func (c *lineConn) line() (string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read an answer of %s: %w", c.name, err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// block reads a number of bytes, and the end of the line behind them.
func (c *lineConn) block(size uint64) ([]byte, error) {
	if size > iprotoMax {
		return nil, fmt.Errorf("%s tells of a block of %d bytes", c.name, size)
	}
	b := make([]byte, size+uint64(len("\r\n")))
	if _, err := io.ReadFull(c.in, b); err != nil {
		return nil, fmt.Errorf("read an answer of %s: %w", c.name, err)
	}
	return b[:size], nil
}

// askEach sends a number of lines, and reads an answer of one line to each, whatever it is.
func (c *lineConn) askEach(lines string, count int) error {
	if err := c.ask(lines); err != nil {
		return err
	}
	for range count {
		if _, err := c.line(); err != nil {
			return err
		}
	}
	return nil
}

// unexpected tells of an answer that is none.
func (c *lineConn) unexpected(line string) error {
	return fmt.Errorf("%s answers %s", c.name, clipped(line))
}

// pause waits a moment, where there is nothing to be asked for.
func pause(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}
