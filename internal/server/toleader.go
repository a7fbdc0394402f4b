package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"millrace/internal/httpapi"
)

// Requests that are passed on wait for the leader, which knows how long each may take. This node only bounds what a
// client may keep it waiting for.
const (
	passedReadTimeout  = 10 * time.Second // for the rest of a request that was answered before its end
	passedWriteTimeout = 30 * time.Second // for a part of an answer
)

// linkIdleMax is how long a connection to the leader may be idle and still be used. The leader closes it after twice
// that time: a request that meets the closing would be lost, and nobody would know whether it was done.
const linkIdleMax = 30 * time.Second

// links are the connections to the leader on which requests are passed on.
type links struct {
	leader func() string                                // the id of the node that leads, as far as this one knows
	reach  func(client, local string) (net.Conn, error) // a new connection to it
	open   sync.Map                                     // *link by the client's net.Conn
}

type linkKey struct{}

// begin gives a client's connection its link. It is for http.Server.ConnContext.
func (l *links) begin(ctx context.Context, c net.Conn) context.Context {
	k := &link{of: l, client: c.RemoteAddr().String(), local: c.LocalAddr().String()}
	l.open.Store(c, k)
	return context.WithValue(ctx, linkKey{}, k)
}

// state closes the link of a client's connection that has ended. It is for http.Server.ConnState.
func (l *links) state(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	v, _ := l.open.LoadAndDelete(c)
	if k, ok := v.(*link); ok {
		k.close()
	}
}

// handler passes requests on to the leader.
func (l *links) handler() http.Handler {
	buffers := &bufferPool{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k, _ := r.Context().Value(linkKey{}).(*link)
		p := passedWriter{w, http.NewResponseController(w)}
		_ = p.control.SetReadDeadline(time.Time{}) // whoever reads or writes next finds that the connection is gone
		defer func() {
			k.used = time.Now()
			_ = p.control.SetReadDeadline(k.used.Add(passedReadTimeout))
			p.allow() // the end of an answer has its time, too
		}()
		proxy := httputil.ReverseProxy{Rewrite: passOn, Transport: k, BufferPool: buffers, ErrorHandler: notAnswered}
		proxy.ServeHTTP(p, r)
	})
}

// passOn makes the request that the leader gets.
func passOn(r *httputil.ProxyRequest) {
	r.SetURL(&url.URL{Scheme: "http", Host: "leader"})
	r.Out.Host = r.In.Host
	// What a proxy before us says still holds.
	for _, name := range []string{"X-Forwarded-For", forwardedProto} {
		r.Out.Header[name] = r.In.Header[name]
	}
	if r.In.TLS != nil {
		r.Out.Header.Set(forwardedProto, "https")
	}
}

// notAnswered ends a request that the leader has not answered. What may have been done gets no answer: the client must
// not take it for refused.
func notAnswered(w http.ResponseWriter, r *http.Request, err error) {
	_, unsent := errors.AsType[*notPassedError](err)
	if !unsent && r.Method != http.MethodGet && r.Method != http.MethodHead {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	httpapi.NoLeader(w, fmt.Sprintf("the leader does not answer, or another node is about to lead: try "+
		"again in a moment (%s)", err))
}

// link is the connection to the leader for the requests of one connection of a client, whose address it carries. One
// goroutine at a time uses it.
type link struct {
	of            *links
	client, local string
	leader        string           // the id of the node at its other end
	conn          *http.ClientConn // nil: there is none. It sends a request once, whatever happens
	used          time.Time        // when the last request ended
}

// RoundTrip implements http.RoundTripper.
func (k *link) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := k.reserve(r.Context()); err != nil {
		return nil, &notPassedError{err}
	}
	return k.conn.RoundTrip(r)
}

// reserve makes sure that there is a connection to the leader on which the next request can be sent. One that leads
// again in another term has closed those of the term before.
func (k *link) reserve(ctx context.Context) error {
	leader := k.of.leader()
	if k.conn != nil && k.leader == leader && time.Since(k.used) < linkIdleMax && k.conn.Reserve() == nil {
		return nil
	}
	k.close()
	c, err := k.of.reach(k.client, k.local)
	if err != nil {
		return err
	}
	t := http.Transport{
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}
	conn, err := t.NewClientConn(ctx, "http", "leader:80")
	if err != nil {
		return errors.Join(err, c.Close())
	}
	k.conn, k.leader = conn, leader
	return nil
}

// close closes the connection, if there is one.
func (k *link) close() {
	if k.conn != nil {
		_ = k.conn.Close() // never fails
		k.conn = nil
	}
}

// notPassedError tells that a request has not reached the leader: nothing has been done.
type notPassedError struct{ err error }

func (n *notPassedError) Error() string { return n.err.Error() }
func (n *notPassedError) Unwrap() error { return n.err }

// forwardedProto is how a proxy says whether the browser speaks TLS.
const forwardedProto = "X-Forwarded-Proto"

// passedWriter gives each part of an answer its time, so that an answer may be long in coming, or be a stream.
type passedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// WriteHeader begins the answer.
func (w passedWriter) WriteHeader(status int) {
	w.allow()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer.
func (w passedWriter) Write(b []byte) (int, error) {
	w.allow()
	return w.ResponseWriter.Write(b)
}

func (w passedWriter) allow() {
	_ = w.control.SetWriteDeadline(time.Now().Add(passedWriteTimeout)) // a write finds that the connection is gone
}

// Unwrap is for http.ResponseController.
func (w passedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// bufferPool has the memory that answers are copied through.
type bufferPool struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return b[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[bufferSize]byte)(b)) }
