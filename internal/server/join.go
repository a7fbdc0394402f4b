package server

import "net"

// A connection that is passed on has a buffer for each direction all the time, because it waits in a read. Most
// messages are short; whoever sends more than the small buffer holds gets the large one.
const (
	joinBufferMin = 4 << 10
	joinBufferMax = 32 << 10
)

// join passes bytes on both ways until one side ends.
func join(a, b net.Conn) {
	done := make(chan struct{})
	pass := func(to, from net.Conn) {
		relay(to, from)
		_ = a.Close() // the other direction ends with it
		_ = b.Close()
	}
	go func() {
		defer close(done)
		pass(a, b)
	}()
	pass(b, a)
	<-done
}

// relay passes bytes on until one side ends. io.Copy would hold 32 KiB for each direction, or two pipes if it could
// splice: for short messages that takes as many system calls, and four files more for each connection.
func relay(to, from net.Conn) {
	buf := make([]byte, joinBufferMin)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		if n == joinBufferMin {
			buf = make([]byte, joinBufferMax)
		}
	}
}
