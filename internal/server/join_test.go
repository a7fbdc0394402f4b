package server

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"millrace/internal/testkit"
)

// sized notes how large the buffer of the last read was.
type sized struct {
	net.Conn
	last atomic.Int64
}

func (s *sized) Read(p []byte) (int, error) {
	s.last.Store(int64(len(p)))
	return s.Conn.Read(p)
}

// Everything arrives, both ways, until one side ends; then both do. A direction has a large buffer only if it has had
// use for it.
func TestJoin(t *testing.T) {
	t.Parallel()
	for _, ends := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var outer, inner [2]*testkit.Conn
			var sides [2]*sized
			for i := range sides {
				outer[i], inner[i] = testkit.Pipe(64 << 10)
				sides[i] = &sized{Conn: inner[i]}
			}
			joined := make(chan struct{})
			go func() {
				defer close(joined)
				join(sides[0], sides[1])
			}()
			say := func(from int, text []byte) {
				t.Helper()
				go func() { _, _ = outer[from].Write(text) }() // who reads it finds out
				got := make([]byte, len(text))
				if _, err := io.ReadFull(outer[1-from], got); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%d bytes do not arrive: %v", len(text), err)
				}
				synctest.Wait()
			}
			say(0, []byte("short"))
			say(1, []byte("answer"))
			if a, b := sides[0].last.Load(), sides[1].last.Load(); a != joinBufferMin || b != joinBufferMin {
				t.Errorf("after short messages the buffers have %d and %d bytes", a, b)
			}
			say(0, bytes.Repeat([]byte("0123456789"), 100_000))
			if a, b := sides[0].last.Load(), sides[1].last.Load(); a != joinBufferMax || b != joinBufferMin {
				t.Errorf("after a long message the buffers have %d and %d bytes", a, b)
			}
			if _, err := outer[ends].Write([]byte("last")); err != nil {
				t.Error(err)
			}
			_ = outer[ends].Close() // never fails
			<-joined
			if got, err := io.ReadAll(outer[1-ends]); err != nil || string(got) != "last" {
				t.Errorf("the other side gets %q, %v", got, err)
			}
		})
	}
}
