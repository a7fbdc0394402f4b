package dialecttest

import (
	"io"

	"millrace/internal/dialect"
	"millrace/internal/testkit"
)

// endless sends parts of a command and stays, and then one byte of it from time to time.
func endless(b *bench) {
	whole := b.d.Push(queue, `"endless"`)
	for _, n := range []int{1, len(whole) / 2, len(whole) - 1} {
		c, ended := b.watched()
		b.write(c, whole[:n])
		testkit.Advance(b.t, dialect.DefaultPatience+closing)
		b.ended(ended, "half a command")
	}
	c, ended := b.watched()
	for i := range 10 {
		if _, err := c.Write(whole[i : i+1]); err != nil {
			break // it has been closed
		}
		testkit.Advance(b.t, dialect.DefaultPatience/8)
	}
	b.ended(ended, "a command in single bytes")
	b.counts(0, 0)
	b.works()
}

// watched returns a connection that has shaken hands, and what is closed when the server has ended it.
func (b *bench) watched() (c *testkit.Conn, ended chan struct{}) {
	c, r := b.raw()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, r) // until the server ends it, in whichever way
	}()
	b.t.Cleanup(func() { _ = c.Close() })
	return c, ended
}

func (b *bench) ended(ended chan struct{}, what string) {
	b.t.Helper()
	select {
	case <-ended:
	default:
		b.t.Errorf("%s: the connection is still there", what)
	}
}
