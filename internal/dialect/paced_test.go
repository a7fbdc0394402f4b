package dialect_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
)

// pipes is a listener of connections within the process, whose time a test can stop.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	nc, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return nc, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// around is a listener whose connections are around others, as those of a protocol may be.
type around struct{ net.Listener }

type aroundConn struct{ net.Conn }

func (c aroundConn) NetConn() net.Conn { return c.Conn }

func (l around) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return aroundConn{nc}, err
}

const pacedRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// askPaced sends groups of requests to a server that works a millisecond for each, one group after the other is
// answered, and returns when the last was.
func askPaced(t *testing.T, groups ...int) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hs := &http.Server{
			ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				<-time.After(time.Millisecond)
			}),
		}
		l := make(pipes, 1)
		ended := make(chan error, 1)
		go func() { ended <- hs.Serve(around{dialect.NewShared(0, 0).Paced(hs, l)}) }()
		client, server := net.Pipe()
		l <- server
		r, began := bufio.NewReader(client), time.Now()
		for _, n := range groups {
			go func() { _, _ = io.WriteString(client, strings.Repeat(pacedRequest, n)) }() // the answers tell
			for range n {
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("%v, %v", res, err)
				}
				if err := res.Body.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		took = time.Since(began)
		close(l)
		if err := hs.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		_ = client.Close() // the server has closed it already
	})
	return took
}

// Who waits for each answer is served at once; who does not waits for the next in proportion to what it has had, up to
// a bound.
func TestPaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		groups []int
		want   time.Duration
	}{
		{"one at a time", []int{1, 1, 1, 1}, 4 * time.Millisecond},
		{"two, then one", []int{2, 1}, (2 + 6 + 1) * time.Millisecond},
		{"two, then one at a time", []int{2, 1, 1}, (2 + 6 + 1 + 1) * time.Millisecond},
		{"many, then one", []int{30, 1}, (30 + 20 + 1) * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if took := askPaced(t, test.groups...); took != test.want {
				t.Errorf("took %v, want %v", took, test.want)
			}
		})
	}
}

// What comes behind a body of which both a length and chunks are told is not answered: who reads the length takes
// something else for the next request.
func TestChunksEndConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var paths []string
		hs := &http.Server{
			ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
			}),
		}
		l := make(pipes, 1)
		go hs.Serve(dialect.NewShared(0, 0).Paced(hs, l)) //nolint:errcheck // it ends with the test
		client, server := net.Pipe()
		l <- server
		go func() { // the answers tell
			_, _ = io.WriteString(client, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"+
				"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
				"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
		}()
		if err := client.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(client)
		if strings.Count(string(all), "HTTP/1.1 200") != 2 || strings.Count(string(all), "Connection: close") != 1 ||
			strings.Join(paths, " ") != "/a /b" {
			t.Errorf("%v after %q: %q", err, paths, all)
		}
		close(l)
		if err := hs.Close(); err != nil {
			t.Error(err)
		}
		_ = client.Close() // the server has closed it already
	})
}

// A connection is found under what is around it, and can still end its sending alone.
func TestPacedConn(t *testing.T) {
	t.Parallel()
	tl, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{ReadHeaderTimeout: time.Minute}
	l := dialect.NewShared(0, 0).Paced(hs, tl)
	defer l.Close() //nolint:errcheck // nothing depends on it
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", tl.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // nothing depends on it
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close() //nolint:errcheck // nothing depends on it
	for name, c := range map[string]net.Conn{
		"alone": nc,
		"TLS":   tls.Server(nc, &tls.Config{MinVersion: tls.VersionTLS13}),
	} {
		if hs.ConnContext(t.Context(), c) == t.Context() {
			t.Errorf("%s: not found", name)
		}
	}
	if hs.ConnContext(t.Context(), client) != t.Context() {
		t.Error("found a connection that is not paced")
	}
	cw, ok := nc.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("no CloseWrite")
	}
	if err := cw.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(client); err != nil || len(rest) != 0 {
		t.Errorf("the peer read %q, %v, want the end", rest, err)
	}
}

// Connections whose heads are long take turns only while these are read: neither those that wait in the handler nor
// those that never send the rest keep others from being served.
func TestPacedLongHeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 64 // more than there are turns
		began, end := make(chan struct{}, 2*many), make(chan struct{})
		hs := &http.Server{
			ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 1 << 20,
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				began <- struct{}{}
				<-end
			}),
		}
		l := make(pipes, 1)
		ended := make(chan error, 1)
		go func() { ended <- hs.Serve(dialect.NewShared(0, 0).Paced(hs, l)) }()
		head := "GET /" + strings.Repeat("x", 10<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n"
		var clients []net.Conn
		send := func(text string) {
			client, server := net.Pipe()
			clients = append(clients, client)
			l <- server
			if _, err := io.WriteString(client, text); err != nil {
				t.Error(err)
			}
		}
		for range many {
			send(head[:6<<10])
		}
		for range many {
			send(head)
		}
		for range many {
			<-began
		}
		close(end)
		for _, c := range clients {
			_ = c.Close() // it cannot fail
		}
		close(l)
		<-ended
	})
}
