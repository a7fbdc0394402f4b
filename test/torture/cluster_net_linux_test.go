package torture

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/test/tier"
)

// wire gives the nodes a network that can be cut.
func (c *nodes) wire() {
	c.t.Helper()
	if err := c.namespaces(); err != nil {
		c.t.Logf("there are no network namespaces for us (%v): the nodes reach each other through a proxy", err)
		c.proxies()
	}
}

// about tells what the nodes stand on.
func (c *nodes) about() string {
	text := "three on one machine"
	switch c.wires.(type) {
	case *namespaces:
		text += ", each in a network namespace of its own"
	case *proxies:
		text += ", which reach each other through a proxy"
	}
	if len(c.disks) > 0 {
		text += "; one on the disk, one on ext4 in a file, one on tmpfs"
	}
	return text
}

// run runs a command of the system.
func run(command ...string) error {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// namespaces are nodes that are each in a network namespace of its own, tied together by a bridge, at which clients
// are.
type namespaces struct {
	t      *testing.T
	number int
	hosts  []string
	cuts   [][2]int
}

// subnets is how many networks we use, of all test processes together. The bridge of a network tells that it is taken.
const subnets = 200

// namespaces puts the nodes into network namespaces. That needs the rights of root.
func (c *nodes) namespaces() error {
	w := &namespaces{t: c.t}
	var err error
	for w.number = range subnets {
		if err = run("ip", "link", "add", w.bridge(), "type", "bridge"); err == nil ||
			!strings.Contains(err.Error(), "exists") {
			break
		}
	}
	if err != nil {
		return err
	}
	c.t.Cleanup(func() { w.remove() })
	err = errors.Join(run("ip", "addr", "add", w.host(subnets)+"/24", "dev", w.bridge()),
		run("ip", "link", "set", w.bridge(), "up"))
	for i := range c.names {
		ns, outside := w.name(i), w.name(i)
		for _, command := range []string{
			"ip netns add " + ns,
			"ip link add " + outside + " type veth peer name eth0 netns " + ns,
			"ip link set " + outside + " master " + w.bridge() + " up",
			"ip -n " + ns + " addr add " + w.host(i) + "/24 dev eth0",
			"ip -n " + ns + " link set eth0 up",
			"ip -n " + ns + " link set lo up",
		} {
			if err == nil {
				err = run(strings.Fields(command)...)
			}
		}
	}
	if err != nil {
		return err
	}
	for i := range c.names {
		w.hosts = append(w.hosts, w.host(i))
		c.hosts[i], c.ports[i], c.webs[i] = w.host(i), w.host(i)+":7420", w.host(i)+":7430"
		// Which leaves mounts alone, unlike ip netns exec.
		c.in[i] = []string{"nsenter", "--net=/run/netns/" + w.name(i)}
	}
	c.wires = w
	return nil
}

func (w *namespaces) bridge() string    { return fmt.Sprintf("millrace%d", w.number) }
func (w *namespaces) name(i int) string { return fmt.Sprintf("millrace%d-%d", w.number, i) }
func (w *namespaces) host(i int) string { return fmt.Sprintf("10.213.%d.%d", w.number, i+1) }

// neighbour changes where a node believes another one to be. What it sends to a place where nobody is gets lost, and it
// is not told.
func (w *namespaces) neighbour(from, to int, verb string, more ...string) {
	w.t.Helper()
	if err := run(append([]string{"ip", "-n", w.name(from), "neigh", verb, w.hosts[to], "dev", "eth0"},
		more...)...); err != nil {
		w.t.Error(err)
	}
}

func (w *namespaces) cut(from, to int) {
	w.t.Helper()
	w.neighbour(from, to, "replace", "lladdr", "02:00:00:00:00:01", "nud", "permanent")
	w.cuts = append(w.cuts, [2]int{from, to})
}

func (w *namespaces) mend() {
	w.t.Helper()
	for _, way := range w.cuts {
		w.neighbour(way[0], way[1], "del")
	}
	w.cuts = nil
}

// remove removes everything. A namespace may live on for as long as a connection in it is not forgotten, and the wire
// into it with it, unless that is removed by itself.
func (w *namespaces) remove() {
	w.t.Helper()
	list, err := filepath.Glob("/run/netns/" + w.bridge() + "-*")
	for _, path := range list {
		name := filepath.Base(path)
		_ = run("ip", "link", "del", name) // it may not have been made
		err = errors.Join(err, run("ip", "netns", "del", name))
	}
	if err := errors.Join(err, run("ip", "link", "del", w.bridge())); err != nil {
		w.t.Error(err)
	}
}

// proxies pass on what nodes send to each other, or hold it back. A connection stays where it is while its way is cut,
// as one does that TCP has to send things again for.
type proxies struct {
	c    *nodes
	over sync.WaitGroup

	looking   sync.Mutex // guards processes
	processes [3]string  // of the nodes, below /proc

	mu      sync.Mutex // guards what follows
	changed sync.Cond  // signals under mu that something has changed
	shut    [3][3]bool // by who sends and who receives
	ended   bool
}

// proxies puts a proxy before each node. Who has called tells the system, which knows whose socket it is.
func (c *nodes) proxies() {
	c.t.Helper()
	p := &proxies{c: c}
	p.changed.L = &p.mu
	c.wires, c.peers = p, nil
	listeners := make([]net.Listener, len(c.names))
	for i := range listeners {
		l, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			c.t.Fatal(err)
		}
		c.peers, listeners[i] = append(c.peers, l.Addr().String()), l
		p.over.Go(func() { p.accept(l, i) })
	}
	c.t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close() // nobody calls any more
		}
		p.mu.Lock()
		p.ended = true
		p.changed.Broadcast()
		p.mu.Unlock()
		p.over.Wait()
	})
}

func (p *proxies) cut(from, to int) { p.set(func() { p.shut[from][to] = true }) }
func (p *proxies) mend()            { p.set(func() { p.shut = [3][3]bool{} }) }

func (p *proxies) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// await waits until the way from one node to another is open.
func (p *proxies) await(from, to int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.shut[from][to] && !p.ended {
		p.changed.Wait()
	}
}

func (p *proxies) accept(l net.Listener, to int) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.over.Go(func() { p.pass(conn, to) })
	}
}

// pass passes a connection on to a node.
func (p *proxies) pass(caller net.Conn, to int) {
	defer caller.Close() //nolint:errcheck // it is over
	from, err := p.owner(caller)
	if err != nil {
		return // the caller is gone
	}
	p.await(from, to)
	p.await(to, from)
	called, err := net.DialTimeout("tcp", p.c.ports[to], patience)
	if err != nil {
		return
	}
	defer called.Close() //nolint:errcheck // it is over
	over := make(chan struct{}, 2)
	for _, way := range []struct {
		in, out  net.Conn
		from, to int
	}{{caller, called, from, to}, {called, caller, to, from}} {
		p.over.Go(func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := way.in.Read(buf)
				p.await(way.from, way.to) // also the end of a connection is something that is sent
				if _, werr := way.out.Write(buf[:n]); err != nil || werr != nil {
					break
				}
			}
			over <- struct{}{}
		})
	}
	<-over
}

// owner returns the node at the other end of a connection.
func (p *proxies) owner(conn net.Conn) (int, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	port := func(a net.Addr) string { return fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port) }
	socket := ""
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && strings.HasSuffix(f[1], port(conn.RemoteAddr())) &&
			strings.HasSuffix(f[2], port(conn.LocalAddr())) {
			socket = "socket:[" + f[9] + "]"
		}
	}
	for i, process := range p.look() {
		if holds(process, socket) {
			return i, nil
		}
	}
	return 0, fs.ErrNotExist
}

// look returns the processes of the nodes. It looks for them if one of those that it knows has ended.
func (p *proxies) look() [3]string {
	p.looking.Lock()
	defer p.looking.Unlock()
	ended := false
	for _, process := range p.processes {
		_, err := os.Stat(process)
		ended = ended || err != nil
	}
	if !ended {
		return p.processes
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, _ := os.ReadFile(path) // it may have ended
		for i := range p.c.names {
			if strings.Contains(string(command), "--data-dir\x00"+p.c.data(i)+"\x00") {
				p.processes[i] = filepath.Dir(path)
			}
		}
	}
	return p.processes
}

// holds reports whether a process has a file open.
func holds(process, file string) bool {
	list, _ := filepath.Glob(process + "/fd/*")
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil && to == file {
			return true
		}
	}
	return false
}

// TestClusterWires shows that what is cut is cut, nothing else is, and that it can be mended.
func TestClusterWires(t *testing.T) {
	t.Parallel()
	wires := map[string]func(*nodes){"what there is": (*nodes).wire}
	if tier.Full() {
		wires["proxy"] = (*nodes).proxies
	}
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newNodes(t)
			wire(c)
			c.start()
			c.level()
			c.cut(0, 1)
			// Whoever asks must be heard and hear the answer: so neither of them reaches the other.
			want := [3][3]bool{{true, false, true}, {false, true, true}, {true, true, true}}
			for cut := range 2 {
				for i := range want {
					c.reaches(i, want[i])
				}
				if cut == 0 {
					c.mend()
					want[0][1], want[1][0] = true, true
				}
			}
		})
	}
}

// reaches waits until a node reaches those others that it should, and no more.
func (c *nodes) reaches(i int, want [3]bool) {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		st, err := c.status(i)
		var got [3]bool
		for k, n := range st.Nodes {
			got[k] = n.Reachable
		}
		if err == nil && got == want {
			return
		}
		if time.Now().After(until) {
			c.t.Fatalf("node %s reaches %v, want %v: %v", c.names[i], got, want, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
