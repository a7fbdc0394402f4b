package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/operator"
)

// HandlerOptions are what is served besides the operator API. What is nil is not there.
type HandlerOptions struct {
	Login *auth.Login
	// Mounted handle the calls of those who push and fetch jobs.
	Mounted map[string]api.Handler
	// Site refuses what web pages of other sites ask for; nil takes every name of a host.
	Site *auth.Site
	// Metrics serves /metrics.
	Metrics http.Handler
	// Stats and Health serve /stats and /health as another server's users know them.
	Stats  http.Handler
	Health http.Handler
	// UI serves every other path. It looks after its own logins.
	UI http.Handler
}

// route is a call of the table, and what serves it.
type route struct {
	*api.Route
	params  []string // of the query
	maxBody int64    // bytes of a request
	handle  func(*call) error
}

// mount finds what handles the calls of the table. Those of others are mounted.
func mount(mounted map[string]api.Handler) []route {
	var list []route
	for i := range api.Routes {
		rt := route{Route: &api.Routes[i], maxBody: bodyMax, handle: handlers[api.Routes[i].ID]}
		if _, isLines := rt.In.(api.Lines); isLines {
			rt.maxBody = operator.ImportBodyMax
		}
		if m, ok := mounted[rt.ID]; ok {
			rt.maxBody, rt.handle = m.MaxBody, func(c *call) error { return m.Handle(&c.Call) }
		}
		if rt.handle == nil {
			continue
		}
		for _, p := range rt.Params() {
			rt.params = append(rt.params, p.Name)
		}
		list = append(list, rt)
	}
	return list
}

// call is one request.
type call struct {
	*operator.Service
	api.Call
	role auth.Role
}

// bodyMax bounds what a request may carry.
const bodyMax = 1 << 20

// NewHandler returns what serves the API, for a service.
func NewHandler(s *operator.Service, o HandlerOptions) http.Handler {
	if o.Login == nil {
		o.Login = auth.NewLogin(auth.LoginOptions{})
	}
	mux := http.NewServeMux()
	for _, rt := range mount(o.Mounted) {
		mux.HandleFunc(rt.Method+" "+rt.Path,
			func(w http.ResponseWriter, r *http.Request) { serve(s, &rt, o.Login, w, r) })
	}
	more(mux, &o)
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { dispatch(mux, o.UI, w, r) })
	if o.Site == nil {
		o.Site = auth.NewSite(auth.SiteOptions{AnyHost: true})
	}
	return underPrefix(ofSite(o.Site, h))
}

// ProbePaths are the paths of those who ask whether the server is there and can take work.
func ProbePaths() []string { return []string{"/livez", "/readyz", "/healthz", "/health"} }

// ofSite refuses what pages of other sites ask for.
func ofSite(site *auth.Site, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch refused := site.Check(r); {
		case refused == nil:
			h.ServeHTTP(w, r)
		case refused.Status == http.StatusForbidden:
			api.WriteProblem(w, api.ProblemCrossSite.New("%s", refused.Text))
		default:
			api.WriteProblem(w, api.ProblemHost.New("%s", refused.Text))
		}
	})
}

// dispatch finds the handler, and answers itself where there is none.
func dispatch(mux *http.ServeMux, ui http.Handler, w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") && api.HasDots(r.URL.EscapedPath()) {
		api.WriteProblem(w, api.NotFound("nothing is served at %s: in a path the names . and .. are written ~. and ~..",
			r.URL.Path))
		return
	}
	h, pattern := mux.Handler(r)
	if pattern != "" {
		mux.ServeHTTP(w, r)
		return
	}
	if ui != nil && !strings.HasPrefix(r.URL.Path, "/api/") {
		ui.ServeHTTP(w, r)
		return
	}
	var verdict verdict
	h.ServeHTTP(&verdict, r)
	if verdict.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", verdict.Header().Get("Allow"))
		api.WriteProblem(w, api.ProblemMethod.New("%s: use %s", r.Method, verdict.Header().Get("Allow")))
		return
	}
	api.WriteProblem(w, api.NotFound("nothing is served at %s: /openapi.json lists what is", r.URL.Path))
}

// verdict notes how the router refuses a request.
type verdict struct {
	header http.Header
	status int
}

// Header returns the header.
func (v *verdict) Header() http.Header {
	if v.header == nil {
		v.header = make(http.Header)
	}
	return v.header
}

// WriteHeader notes the status.
func (v *verdict) WriteHeader(status int) { v.status = status }

// Write throws the text away.
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }

// serve answers one call of the API.
func serve(s *operator.Service, rt *route, login *auth.Login, w http.ResponseWriter, r *http.Request) {
	role, verdict := login.Of(r)
	c := &call{Service: s, Call: api.Call{W: w, R: operator.WithActor(r, "")}, role: role}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p := allow(role, verdict, rt.Role); p != nil {
		refuse(w, p)
		return
	}
	c.R.Body = http.MaxBytesReader(w, r.Body, rt.maxBody)
	err := c.checkParams(rt)
	if err == nil {
		err = rt.handle(c)
	}
	if err != nil {
		c.fail(err)
	}
	if rt.Role == auth.RoleOperator && !rt.Routine {
		s.Log().Info("operator request", slog.String("method", rt.Method), slog.String("path", r.URL.Path),
			slog.String("remote", r.RemoteAddr), slog.Bool("accepted", err == nil))
	}
}

// allow compares a role with what is needed.
func allow(has auth.Role, verdict auth.Verdict, needs auth.Role) *api.Problem {
	switch {
	case has >= needs:
		return nil
	case verdict == auth.Limited:
		return api.ProblemTooMany.New("too many wrong passwords or tokens came from this address: wait %d seconds",
			retryAfter)
	case has == auth.RoleNone:
		return api.ProblemLogin.New("send a password with basic authentication, or a bearer token")
	default:
		return api.ProblemForbidden.New("the role is %s", has)
	}
}

// retryAfter is when somebody who was wrong too often may try again, in seconds.
const retryAfter = int(auth.RetryAfter / time.Second)

// refuse answers who has not proved enough.
func refuse(w http.ResponseWriter, p *api.Problem) {
	switch p.Status {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="Millrace", charset="UTF-8"`)
	}
	api.WriteProblem(w, p)
}

// Guard lets only those through to h who have a role.
func Guard(login *auth.Login, needs auth.Role, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role, verdict := login.Of(r)
		if p := allow(role, verdict, needs); p != nil {
			refuse(w, p)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// fail answers with a problem. A fault of the server is logged.
func (c *call) fail(err error) {
	p, fault := api.AsProblem(err)
	if fault {
		c.logFault(err)
	}
	api.WriteProblem(c.W, p)
}

// checkParams refuses a query with parameters that mean nothing here.
func (c *call) checkParams(rt *route) error {
	query, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return api.Invalid("the query cannot be read: %s", err)
	}
	for name := range query {
		if !slices.Contains(rt.params, name) {
			return api.Invalid("there is no parameter %q here", name)
		}
	}
	return nil
}

func (c *call) query(name string) string { return c.R.URL.Query().Get(name) }

// flag reads a parameter that is there or not, or true or false.
func (c *call) flag(name string) (bool, error) {
	if !c.R.URL.Query().Has(name) {
		return false, nil
	}
	switch text := c.query(name); text {
	case "", "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, api.Invalid("%s: %q is neither true nor false", name, text)
	}
}

func (c *call) page() (api.PageOf, error) {
	p := api.PageOf{Cursor: c.query("cursor")}
	if text := c.query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return p, api.Invalid("limit: %q: choose 1 to %d", text, api.PageMax)
		}
		p.Limit = n
	}
	return p, nil
}
