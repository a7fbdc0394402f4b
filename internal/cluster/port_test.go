package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// passed is a connection that was passed on.
type passed struct {
	net.Conn
	listener string
}

// listen opens a port.
func listen(t *testing.T, o Options) (*Port, chan passed) {
	t.Helper()
	conns := make(chan passed, 1)
	o.Addr, o.Logger = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	o.Ping = func() Pong { return Pong{Node: "a", Term: 7} }
	o.Confirm = func() Pong { return Pong{Node: "a", Term: 8} }
	o.Forwarded = func(c net.Conn, listener, _ string) { conns <- passed{c, listener} }
	p, err := Listen(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		p.Serve()
	}()
	t.Cleanup(func() {
		_ = p.Close() // never fails
		<-served
	})
	return p, conns
}

func (p *Port) addr() string { return p.listener.Addr().String() }

// pair are two nodes, with and without certificates.
func pairs(t *testing.T) map[string]Options {
	t.Helper()
	cert, key := testkit.NewCertificate(t, "a").Files(t)
	secure, err := LoadTLS(cert, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Options{"plain": {}, "TLS": {TLS: secure}}
}

func TestPing(t *testing.T) {
	for name, o := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			p, _ := listen(t, o)
			other, _ := listen(t, o)
			if pong, err := other.Ping(p.addr()); err != nil || pong.Node != "a" || pong.Term != 7 {
				t.Errorf("%+v, %v", pong, err)
			}
			if pong, err := other.Confirm(p.addr()); err != nil || pong.Term != 8 {
				t.Errorf("%+v, %v", pong, err)
			}
			addr := p.addr()
			_ = p.Close() // never fails
			if _, err := other.Ping(addr); err == nil {
				t.Error("a closed port answers")
			}
		})
	}
}

// What a client sends arrives with the addresses of its connection, and what it is answered comes back.
func TestForward(t *testing.T) {
	for name, o := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			p, conns := listen(t, o)
			other, _ := listen(t, o)
			c, err := other.Forward(p.addr(), "masenko", "192.0.2.1:99", "192.0.2.2:1")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			got := <-conns
			if got.listener != "masenko" || got.RemoteAddr().String() != "192.0.2.1:99" ||
				got.LocalAddr().String() != "192.0.2.2:1" {
				t.Errorf("for %s, from %s to %s", got.listener, got.RemoteAddr(), got.LocalAddr())
			}
			go func() { _, _ = io.WriteString(c, "PING\n") }()
			if _, err := io.CopyN(got, io.LimitReader(got, 5), 5); err != nil {
				t.Fatal(err)
			}
			back := make([]byte, 5)
			if _, err := io.ReadFull(c, back); err != nil || string(back) != "PING\n" {
				t.Errorf("%q, %v", back, err)
			}
			_ = p.Close() // never fails
			if _, err := c.Read(back); err == nil {
				t.Error("the connection outlives the port")
			}
		})
	}
}

// Who does not speak as a node is not heard, and hurts nobody.
func TestStrangers(t *testing.T) {
	p, _ := listen(t, Options{})
	tooLong := binary.BigEndian.AppendUint32([]byte{forForward}, headerMax+1)
	for name, text := range map[string][]byte{
		"another kind": []byte("GET / HTTP/1.1\r\n\r\n"), "a long header": tooLong,
		"no header": append(binary.BigEndian.AppendUint32([]byte{forForward}, 5), "hello"...),
	} {
		c, err := net.Dial("tcp", p.addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		_ = c.Close()
	}
	if _, err := p.Ping(p.addr()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Those who say nothing are bounded.
func TestSilent(t *testing.T) {
	p, _ := listen(t, Options{})
	for range cap(p.hellos) {
		p.hellos <- struct{}{}
	}
	if _, err := p.Ping(p.addr()); err == nil {
		t.Error("one more is heard")
	}
	for range cap(p.hellos) {
		<-p.hellos
	}
	if _, err := p.Ping(p.addr()); err != nil || len(p.hellos) > 0 {
		t.Errorf("there is room again: %v, and who was heard counts as silent: %d", err, len(p.hellos))
	}
}

// A node proves who it is, to who it calls and to who is called.
func TestCertificates(t *testing.T) {
	load := func(c, ca *testkit.Certificate) Options {
		cert, key := c.Files(t)
		authority, _ := ca.Files(t)
		secure, err := LoadTLS(cert, key, authority)
		if err != nil {
			t.Fatal(err)
		}
		return Options{TLS: secure}
	}
	ours, theirs := testkit.NewCertificate(t, "a"), testkit.NewCertificate(t, "b")
	p, _ := listen(t, load(ours, ours))
	for name, o := range map[string]Options{
		"a certificate of others": load(theirs, ours), "an authority of others": load(ours, theirs), "none": {},
	} {
		other, _ := listen(t, o)
		if pong, err := other.Ping(p.addr()); err == nil {
			t.Errorf("%s: %+v", name, pong)
		}
	}
}

func TestLoadTLS(t *testing.T) {
	cert, key := testkit.NewCertificate(t, "a").Files(t)
	if c, err := LoadTLS("", "", ""); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
	for _, files := range [][3]string{{cert, cert, cert}, {cert, key, "missing"}, {cert, key, key}} {
		if _, err := LoadTLS(files[0], files[1], files[2]); err == nil ||
			!strings.HasPrefix(err.Error(), "cluster.tls") {
			t.Errorf("%v: %v", files, err)
		}
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	if err := writeFrame(&b, header{"l", "c", "h", "n"}); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for n := range whole {
		var h header
		if err := readFrame(bytes.NewReader(whole[:n]), &h, headerMax); err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(whole))
		}
	}
	var h header
	if err := readFrame(bytes.NewReader(whole), &h, headerMax); err != nil || h != (header{"l", "c", "h", "n"}) {
		t.Errorf("%+v, %v", h, err)
	}
}

// What is meant for another id is not taken: at the address of a node there may be one that has lost the data of it.
// What is taken tells of which cluster it comes.
func TestRaftMeansAnID(t *testing.T) {
	from := make(chan string, 1)
	p, _ := listen(t, Options{ID: "a/1", Join: func(cluster string) error {
		from <- cluster
		return nil
	}})
	other, _ := listen(t, Options{ID: "b/1", Cluster: func() string { return "ours" }})
	c, err := stream{other}.Dial(to("a/1", raft.ServerAddress(p.addr())), patience)
	if err != nil {
		t.Fatal(err)
	}
	got, err := stream{p}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = errors.Join(c.Close(), got.Close())
	if cluster := <-from; cluster != "ours" {
		t.Errorf("it comes from cluster %q", cluster)
	}

	c, err = stream{other}.Dial(to("a/2", raft.ServerAddress(p.addr())), patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection for another id is kept: %d bytes, %v", n, err)
	}
	_ = c.Close()
}
