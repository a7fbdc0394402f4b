package lmstfy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
)

// sink is the writer of a request that goes nowhere, so that the benchmarks count what
// is done here and in the engine but nothing of net/http.
type sink struct {
	header http.Header
	code   int
	body   []byte
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(c int)   { s.code = c }
func (s *sink) FlushError() error   { return nil }

func (s *sink) Write(b []byte) (int, error) {
	s.body = append(s.body[:0], b...)
	return len(b), nil
}

func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// rig is a dialect with requests that can be made again and again.
type rig struct {
	d    *Dialect
	w    sink
	body bytes.Reader
	req  *http.Request
}

func newRig(b *testing.B) *rig {
	b.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() }) // nothing is kept
	r := &rig{d: New(Options{Options: dialect.Options{Engine: e}, Auth: true}), w: sink{header: http.Header{}}}
	if err := r.d.registry.addToken(tokenKey{poolDefault, "ns", "token"}, "d"); err != nil {
		b.Fatal(err)
	}
	r.req = (&http.Request{
		Header: http.Header{"X-Token": {"token"}},
		URL:    new(url.URL),
	}).WithContext(context.Background())
	return r
}

// do sends a request and checks its code.
func (r *rig) do(b *testing.B, method, path, query string, body []byte, code int) {
	b.Helper()
	clear(r.w.header)
	r.req.Method, r.req.URL.Path, r.req.URL.RawQuery = method, path, query
	r.req.Body, r.req.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		r.body.Reset(body)
		r.req.Body = io.NopCloser(&r.body)
	}
	r.d.serveHTTP(&r.w, r.req)
	if r.w.code != code {
		b.Fatalf("%s %s: %d %s", method, path, r.w.code, r.w.body)
	}
}

var benchBody = []byte(strings.Repeat("x", 100))

// BenchmarkPublish is one publish, its job in the engine included.
func BenchmarkPublish(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	for b.Loop() {
		r.do(b, http.MethodPut, "/api/ns/q", "tries=3", benchBody, http.StatusCreated)
	}
}

// BenchmarkRefused is a publish that never reaches the engine: what a request costs here.
func BenchmarkRefused(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	for b.Loop() {
		r.do(b, http.MethodPut, "/api/ns/q", "tries=0", benchBody, http.StatusBadRequest)
	}
}

// BenchmarkJob is the whole life of a job: publish, consume, delete.
func BenchmarkJob(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	for b.Loop() {
		r.do(b, http.MethodPut, "/api/ns/q", "tries=3", benchBody, http.StatusCreated)
		r.do(b, http.MethodGet, "/api/ns/q", "ttr=60&timeout=5", nil, http.StatusOK)
		_, rest, _ := strings.Cut(string(r.w.body), `"job_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		r.do(b, http.MethodDelete, "/api/ns/q/job/"+id, "", nil, http.StatusNoContent)
	}
}

// BenchmarkEmpty is a consumer that finds nothing.
func BenchmarkEmpty(b *testing.B) {
	r := newRig(b)
	b.ReportAllocs()
	for b.Loop() {
		r.do(b, http.MethodGet, "/api/ns/q", "", nil, http.StatusNotFound)
	}
}

// BenchmarkHTTP compares publishing over loopback with a handler that answers 201 with a
// constant, client included.
func BenchmarkHTTP(b *testing.B) {
	r := newRig(b)
	constant := func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // it is in memory
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"msg":"published","job_id":"01M7E8YCVASWJNQAQJN8000000"}`) // nobody to tell
	}
	for name, h := range map[string]http.HandlerFunc{"constant": constant, "publish": r.d.serveHTTP} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			hs := r.d.httpServer()
			hs.Handler = h
			go func() { _ = hs.Serve(l) }() // ended below
			defer func() { _ = hs.Close() }()
			b.ReportAllocs()
			b.SetParallelism(16)
			target := "http://" + l.Addr().String() + "/api/ns/q?tries=3"
			b.RunParallel(func(pb *testing.PB) {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for pb.Next() {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodPut, target,
						bytes.NewReader(benchBody))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header.Set("X-Token", "token")
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body) // only the code counts
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusCreated {
						b.Errorf("status %d", resp.StatusCode)
						return
					}
				}
			})
		})
	}
}
