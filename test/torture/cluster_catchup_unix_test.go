//go:build unix

package torture

import (
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// forData is the first byte of a connection on which all data comes.
const forData = 'D'

// leak is what other nodes reach a node by. It cuts every connection on which all data comes before that can have come
// as a whole.
type leak struct {
	to          string
	rnd         *rand.Rand
	least, most int // bytes that such a connection passes on
	// before is called with the number of such a connection before anything is passed on, and after when it has passed
	// on what it may.
	before, after func(n int)
	damages       int // the number of the connection on which one byte is wrong

	over   sync.WaitGroup
	mu     sync.Mutex // guards what follows
	count  int        // of such connections
	passed int        // bytes on all of them
}

// listen has other nodes reach a node by it.
func (l *leak) listen(t *testing.T) (addr string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.over.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			l.over.Go(func() { l.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // nobody calls any more
		l.over.Wait()
	})
	return listener.Addr().String()
}

// pass passes on a connection.
func (l *leak) pass(caller net.Conn) {
	defer caller.Close() //nolint:errcheck // it is over
	var kind [1]byte
	if _, err := io.ReadFull(caller, kind[:]); err != nil {
		return
	}
	called, err := net.DialTimeout("tcp", l.to, patience)
	if err != nil {
		return
	}
	defer called.Close() //nolint:errcheck // it is over
	if _, err := called.Write(kind[:]); err != nil {
		return
	}
	over := make(chan struct{}, 2)
	for _, way := range []func(){
		func() { _, _ = io.Copy(caller, called) }, // whatever ends it, both are closed
		func() {
			if kind[0] == forData {
				l.some(called, caller)
			} else {
				_, _ = io.Copy(called, caller)
			}
		},
	} {
		l.over.Go(func() {
			way()
			over <- struct{}{}
		})
	}
	<-over
}

// some passes on a part of what comes on a connection.
func (l *leak) some(to io.Writer, from io.Reader) {
	l.mu.Lock()
	l.count++
	n, left := l.count, l.least+l.rnd.IntN(l.most-l.least)
	l.mu.Unlock()
	l.before(n)
	buf := make([]byte, 16<<10)
	for left > 0 {
		got, err := from.Read(buf[:min(len(buf), left)])
		if left -= got; left < l.least/2 && n == l.damages {
			buf[got/2] ^= 1
			n = -1
		}
		if _, werr := to.Write(buf[:got]); err != nil || werr != nil {
			return
		}
		l.mu.Lock()
		l.passed += got
		l.mu.Unlock()
	}
	l.after(n)
}

// received finds which checkpoints a node was sent, and how long they are.
var received = regexp.MustCompile(`receiving all data from the leader","checkpoint":"([^"]+)","received":\d+,"of":(\d+)`)

// A node that is sent all data gets it although every connection is cut before that is done, a byte is wrong, and the
// node is killed twice. Nothing is sent twice as long as the same node leads. If the leader is killed it begins again.
func TestClusterResume(t *testing.T) {
	t.Parallel()
	for name, killsLeader := range map[string]bool{"the leader stays": false, "the leader is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resume(t, killsLeader)
		})
	}
}

func resume(t *testing.T, killsLeader bool) {
	t.Helper()
	const behind, pushes = 2, 100
	c := newNodes(t)
	c.args = []string{"--cluster-log-keep", "1MiB", "--cluster-catchup-rate", "8MiB"}
	seen, struck := make(chan struct{}), make(chan chan struct{})
	l := &leak{to: c.ports[behind], rnd: random("leak"), least: 1 << 20, most: 2 << 20, damages: 5}
	l.before = func(n int) {
		if n >= 3 {
			select {
			case <-seen:
			case <-t.Context().Done():
			}
		}
	}
	strikes := map[int]bool{2: true, 4: true}
	l.after = func(n int) {
		if strikes[n] {
			done := make(chan struct{})
			select {
			case struck <- done:
				<-done
			case <-t.Context().Done():
			}
		}
	}
	c.peers = slices.Clone(c.ports)
	c.peers[behind] = l.listen(t)
	c.start()
	c.leader()
	c.leaveBehind(behind, pushes)
	c.start()
	checkpoints := map[string]int{}
	note := func() {
		for _, found := range received.FindAllStringSubmatch(c.up[behind].Stderr(), -1) {
			checkpoints[found[1]], _ = strconv.Atoi(found[2]) // they are digits
		}
	}
	for i := range len(strikes) {
		done := <-struck
		note()
		c.fault = "kill -9 of the node that is sent all data"
		which := behind
		if killsLeader && i == 1 {
			c.fault = "kill -9 of the leader that sends all data"
			which = c.leader()
		}
		c.kill(which)
		close(done)
		c.start()
		if i > 0 {
			continue
		}
		// The status tells how far the node is.
		c.await("the status does not tell how much the node has", func(st clusterStatus) bool {
			for _, n := range st.Nodes {
				if n.Name == c.names[behind] && n.Received > 0 && n.Received < n.Receives {
					return true
				}
			}
			return false
		})
		close(seen)
	}
	began := time.Now()
	for !strings.Contains(c.up[behind].Stderr(), "data of another node received") {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the node has not received all data after two minutes")
		}
		<-time.After(50 * time.Millisecond)
	}
	note()
	c.level()
	l.mu.Lock()
	count, passed := l.count, l.passed
	l.mu.Unlock()
	size := 0
	for _, n := range checkpoints {
		size += n
	}
	t.Logf("%d checkpoints with %d bytes: %d connections, %d bytes", len(checkpoints), size, count, passed)
	if killsLeader && len(checkpoints) < 2 {
		t.Error("the leader was killed, and its checkpoint went on")
	}
	if least := size / len(checkpoints); count < 4 || least < 3*l.most || passed < least {
		t.Errorf("%d connections have passed on %d bytes: this was no test", count, passed)
	}
	// The file with the wrong byte is sent again, and may be the largest part of all.
	if passed > 2*size {
		t.Errorf("%d bytes were sent of %d: too much was sent again", passed, size)
	}
	c.stop()
	c.same()
}
