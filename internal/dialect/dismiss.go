package dialect

import "net"

// Dismiss tells a connection that is not served why, and closes it. A peer that does not take the message in time
// does not get it.
func Dismiss(nc net.Conn, text []byte) {
	c := NewConn(nc, Limits{WriteTimeout: rejectTimeout})
	defer c.close()
	c.SetOut(append(c.Out(), text...))
	c.Linger()
}
