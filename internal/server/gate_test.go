package server

import (
	"net"
	"testing"
)

// A gate with a limit closes what is too much and takes more when one has gone.
func TestGateLimit(t *testing.T) {
	t.Parallel()
	g, err := (&server{seats: newSeats(fileShares{})}).listen(t.Context(), load(t, nil).Listeners()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	g.limit = 1
	accept := func() net.Conn {
		t.Helper()
		c, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial(t, g.Addr().String())
	first := accept()
	refused := dial(t, g.Addr().String())
	accepted := make(chan net.Conn, 1)
	go func() { accepted <- accept() }()
	if _, err := refused.r.ReadByte(); err == nil {
		t.Error("the connection beyond the limit is open")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	dial(t, g.Addr().String())
	<-accepted
	if n := g.cut(); n != 1 {
		t.Errorf("cut %d connections, want 1", n)
	}
	if n := g.cut(); n != 0 {
		t.Errorf("cut %d connections again", n)
	}
}
