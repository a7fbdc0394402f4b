package bench

import (
	"bufio"
	"errors"
	"net"
)

// answerFunc reads a request and appends its answer.
type answerFunc func(in *bufio.Reader, out []byte) ([]byte, error)

// requestSize is the buffer of a connection to a server that does nothing, if larger requests are not
// announced.
const requestSize = 64 << 10

// serveTCP serves connections until l is closed. Each has its own answerFunc.
func serveTCP(l net.Listener, o Nothing, greeting string, each func() answerFunc) error {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			go serveConn(c, max(requestSize, o.RequestMax), greeting, each())
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// serveConn serves one connection until the client ends it. Answers leave when there is nothing left
// to read, as those of a good server do.
func serveConn(c net.Conn, size int, greeting string, answer answerFunc) {
	defer c.Close() //nolint:errcheck // the client has gone
	in := bufio.NewReaderSize(c, size)
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
