package torture

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// fault is what a proxy does to one connection.
type fault struct {
	// up and down are after how many bytes to the server or from it the connection
	// is cut; negative means never. What is left of a chunk up to there is passed on.
	up, down int
	// delay is how long each chunk is held back.
	delay time.Duration
	// reset ends the connection with a reset instead of an orderly close.
	reset bool
}

// proxy passes connections on to a server and spoils some of them.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex // guards what follows
	target   string
	rnd      *rand.Rand
	faulty   bool
	cuts     int
	done     sync.WaitGroup
}

// newProxy starts a proxy for the length of the test.
func newProxy(t *testing.T, rnd *rand.Rand) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, rnd: rnd}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close() // nobody connects any more
		p.done.Wait()
	})
	return p
}

// aim sets where connections go to from now on, and whether they are spoiled.
func (p *proxy) aim(target string, faulty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.faulty = target, faulty
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		target, f := p.next()
		p.done.Go(func() { p.pass(c.(*net.TCPConn), target, f) })
	}
}

// next decides what becomes of the next connection.
func (p *proxy) next() (string, fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := fault{up: -1, down: -1}
	if p.faulty {
		switch p.rnd.IntN(6) {
		case 0:
			f.up = p.rnd.IntN(2000)
		case 1:
			f.down = p.rnd.IntN(2000)
		case 2:
			f.delay = time.Duration(p.rnd.IntN(3000)) * time.Microsecond
		}
		f.reset = p.rnd.IntN(2) == 0
	}
	return p.target, f
}

// pass passes bytes both ways until either side or the fault ends it.
func (p *proxy) pass(client *net.TCPConn, target string, f fault) {
	defer client.Close() //nolint:errcheck // it is over
	out, err := net.DialTimeout("tcp", target, patience)
	if err != nil {
		return
	}
	server := out.(*net.TCPConn)
	defer server.Close() //nolint:errcheck // it is over
	over := make(chan bool, 2)
	p.done.Go(func() { over <- relay(server, client, f.up, f.delay) })
	p.done.Go(func() { over <- relay(client, server, f.down, f.delay) })
	if cut := <-over; cut {
		p.mu.Lock()
		p.cuts++
		p.mu.Unlock()
		if f.reset {
			_ = client.SetLinger(0) // then closing resets
			_ = server.SetLinger(0)
		}
	}
}

// relay copies up to limit bytes, and reports whether it ended because of that.
func relay(to io.Writer, from io.Reader, limit int, delay time.Duration) bool {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if limit >= 0 && n > limit {
			_, _ = to.Write(buf[:limit]) // it is cut in any case
			return true
		}
		if limit >= 0 {
			limit -= n
		}
		if delay > 0 {
			<-time.After(delay)
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return false
		}
	}
}

// cutCount returns how many connections have been cut.
func (p *proxy) cutCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func TestProxy(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // an echo
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	p := newProxy(t, random("proxy"))
	for _, faulty := range []bool{false, true} {
		p.aim(l.Addr().String(), faulty)
		whole := 0
		const tries, size = 60, 3000
		for range tries {
			c, err := net.DialTimeout("tcp", p.addr(), patience)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write(make([]byte, size)) // it may be cut before
			n, _ := io.ReadFull(c, make([]byte, size))
			if n == size {
				whole++
			}
			_ = c.Close()
		}
		if cuts := p.cutCount(); whole+cuts != tries && !faulty || faulty &&
			(cuts == 0 || whole == 0 || whole == tries) {
			t.Errorf("faulty %v: %d of %d connections came through, %d were cut", faulty, whole, tries, cuts)
		}
	}
}
