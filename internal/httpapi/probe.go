package httpapi

import (
	_ "embed" // the document below
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
)

//go:embed openapi.json
var document []byte

// Document returns the OpenAPI document.
func Document() []byte { return document }

func (c *call) getDocument() error {
	c.W.Header().Set("Content-Type", "application/json")
	_, _ = c.W.Write(document) // nobody to tell
	return nil
}

func (c *call) plain(status int, text string) {
	c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.W.WriteHeader(status)
	_, _ = c.W.Write([]byte(text)) // nobody to tell
}

// getLivez tells that the process answers.
func (c *call) getLivez() error {
	c.plain(http.StatusOK, "ok\n")
	return nil
}

// getReadyz tells whether the server can take work.
func (c *call) getReadyz() error {
	verbose, err := c.flag("verbose")
	if err != nil {
		return err
	}
	ready, checks := c.Health()
	status, text := http.StatusOK, "ok\n"
	if !ready {
		status, text = http.StatusServiceUnavailable, "not ready\n"
		if c.IsStandby() { // of a cluster the reason is what everybody needs
			text = "not ready: " + checks[0].About + "\n"
		}
	}
	if verbose {
		var b strings.Builder
		for _, check := range checks {
			if check.OK {
				fmt.Fprintf(&b, "[+]%s ok\n", check.Name)
			} else {
				fmt.Fprintf(&b, "[-]%s: %s\n", check.Name, check.About)
			}
		}
		text = b.String() + text
	}
	c.plain(status, text)
	return nil
}

const (
	// eventTimeout bounds a write to a client that does not read.
	eventTimeout = 10 * time.Second
	// eventRetry is when a client should come back, in milliseconds.
	eventRetry = "retry: 2000\n\n"
)

// streamEvents sends each sample as a server-sent event, until the client goes or the server
// stops.
func (c *call) streamEvents() error {
	control := http.NewResponseController(c.W)
	// The times of the listener are for short answers. A transport that has none needs no change.
	_ = control.SetReadDeadline(time.Time{})
	begun := false
	write := func(parts ...string) error {
		_ = control.SetWriteDeadline(time.Now().Add(eventTimeout))
		for _, part := range parts {
			if _, err := c.W.Write([]byte(part)); err != nil {
				return err
			}
		}
		return control.Flush()
	}
	err := c.Watch(c.R.Context(), func(sample []byte) error {
		if !begun {
			begun = true
			c.W.Header().Set("Content-Type", "text/event-stream")
			c.W.Header().Set("X-Accel-Buffering", "no")
			if err := write(eventRetry); err != nil {
				return err
			}
		}
		return write("event: sample\ndata: ", string(sample), "\n\n")
	})
	if begun {
		return nil // the stream has ended, and whoever read it is gone
	}
	return err
}

// more adds what is served besides the API.
func more(mux *http.ServeMux, o *HandlerOptions) {
	if o.Metrics != nil {
		mux.Handle("GET /metrics", Guard(o.Login, auth.RoleRead, o.Metrics))
	}
	if o.Stats != nil {
		mux.Handle("GET /stats", Guard(o.Login, auth.RoleRead, o.Stats))
	}
	if o.Health != nil {
		mux.Handle("GET /health", o.Health)
	}
	profiler := http.NewServeMux()
	profiler.HandleFunc("/debug/pprof/", pprof.Index)
	profiler.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiler.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiler.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /debug/pprof/", localOnly(Guard(o.Login, auth.RoleOperator, profiler)))
}

// localOnly lets only those through who come from this machine themselves, not through a proxy
// on it.
func localOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		proxied := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
		if local == nil || !isLoopback(local.String()) || !isLoopback(r.RemoteAddr) || proxied {
			api.WriteProblem(w, api.ProblemLocalOnly.New("the profiler answers on the loopback address"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
