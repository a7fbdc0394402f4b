package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
)

// runCeiling serves a protocol until ctx ends with a server that does nothing: what it
// reaches is the limit that loopback, scheduler and load generator set to any server.
func runCeiling(ctx context.Context, p *protocol) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends serve
	report{os.Stdout}.printf("%s %s", p.name, l.Addr())
	if err := p.serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// answerFunc reads a request and appends its answer.
type answerFunc func(in *bufio.Reader, out []byte) ([]byte, error)

// serveTCP serves connections until l is closed. Each has its own answerFunc.
func serveTCP(l net.Listener, greeting string, each func() answerFunc) error {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			go serveConn(c, greeting, each())
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// ceilingBuffer holds the largest request, a bulk in one line.
const ceilingBuffer = 64 << 10

// serveConn serves one connection. Answers leave when there is nothing left to read, as those of a
// good server do.
func serveConn(c net.Conn, greeting string, answer answerFunc) {
	defer c.Close() //nolint:errcheck // the client has gone
	in := bufio.NewReaderSize(c, ceilingBuffer)
	out := []byte(greeting)
	for {
		if in.Buffered() == 0 && len(out) > 0 {
			if _, err := c.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		var err error
		if out, err = answer(in, out); err != nil {
			return
		}
	}
}
