package lmstfy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strings"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// adminRoute is one of the calls of the admin API.
type adminRoute struct {
	id      string // its name in the document
	method  string // empty: any
	path    string // segments that begin with a colon stand for anything but a slash
	guarded bool   // asks for an account, if there are accounts
	serve   func(*adminCall)
}

// adminRoutes are all of them.
var adminRoutes = []adminRoute{
	{"addToken", http.MethodPost, "/token/:namespace", true, (*adminCall).addToken},
	{"listTokens", http.MethodGet, "/token/:namespace", true, (*adminCall).listTokens},
	{"deleteToken", http.MethodDelete, "/token/:namespace/:token", true, (*adminCall).dropToken},
	{"addLimits", http.MethodPost, "/token/:namespace/:token/limit", true, (*adminCall).addLimits},
	{"setLimits", http.MethodPut, "/token/:namespace/:token/limit", true, (*adminCall).setLimits},
	{"getLimits", http.MethodGet, "/token/:namespace/:token/limit", true, (*adminCall).getLimits},
	{"deleteLimits", http.MethodDelete, "/token/:namespace/:token/limit", true, (*adminCall).dropLimits},
	{"listLimits", http.MethodGet, "/limits", true, (*adminCall).listLimits},
	{"listPools", http.MethodGet, "/pools", false, (*adminCall).listPools},
	{"info", http.MethodGet, "/info", false, (*adminCall).info},
	{"version", http.MethodGet, "/version", false, (*adminCall).version},
	{"metrics", http.MethodGet, "/metrics", false, (*adminCall).metrics},
	{"accessLog", http.MethodGet, "/accesslog", false, (*adminCall).accessLog},
	{"setAccessLog", http.MethodPost, "/accesslog", true, (*adminCall).setAccessLog},
	{"openapi", http.MethodGet, openapiPath, false, (*adminCall).openapi},
	{"openapiAdmin", http.MethodGet, openapiAdminPath, false, (*adminCall).openapiAdmin},
	{"profile", "", "/debug/pprof/:profile", true, (*adminCall).profile},
	{"profiles", "", "/debug/pprof/", true, (*adminCall).profile},
}

// match reports whether a path is of the route's pattern, and what stands for the
// segments with a colon.
func (r *adminRoute) match(method, path string) (params [2]string, ok bool) {
	if r.method != "" && r.method != method {
		return params, false
	}
	n := 0
	for pattern := r.path; ; {
		var want, got string
		var more, deeper bool
		want, pattern, more = strings.Cut(pattern, "/")
		got, path, deeper = strings.Cut(path, "/")
		switch {
		case more != deeper:
			return params, false
		case strings.HasPrefix(want, ":") && got != "" && n < len(params):
			params[n] = got
			n++
		case want != got:
			return params, false
		}
		if !more {
			return params, true
		}
	}
}

// adminServer answers the calls of the admin API.
type adminServer struct {
	d        *Dialect
	metrics  http.Handler
	document func() []byte // of the API
}

// AdminHandler returns what serves the admin API.
func (d *Dialect) AdminHandler() http.Handler {
	return &adminServer{d: d, metrics: d.metricsHandler(), document: openapiAdmin}
}

// adminCall is one request of the admin API.
type adminCall struct {
	*adminServer
	w      http.ResponseWriter
	r      *http.Request
	params [2]string
	status int
}

func (c *adminCall) namespace() string { return c.params[0] }
func (c *adminCall) token() string     { return c.params[1] }

// adminBodyMax bounds the bodies of admin requests, which are a few words.
const adminBodyMax = 64 << 10

// ServeHTTP answers one request.
func (a *adminServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := newRequestID(began)
	w.Header()[headerRequestID] = []string{id}
	r.Body = http.MaxBytesReader(w, r.Body, adminBodyMax)
	c := &adminCall{adminServer: a, w: w, r: r}
	c.route()
	a.d.logAccess(r, "", maskPath(r.URL.Path), id, c.status, time.Since(began))
}

// maskPath hides the token in a path.
func maskPath(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 3 && parts[1] == "token" {
		parts[3] = mask
	}
	return strings.Join(parts, "/")
}

func (c *adminCall) route() {
	if refused := c.d.opts.AdminSite.Check(c.r); refused != nil {
		c.fail(refused.Status, refused.Text)
		return
	}
	for i := range adminRoutes {
		r := &adminRoutes[i]
		params, ok := r.match(c.r.Method, c.r.URL.Path)
		if !ok {
			continue
		}
		c.params = params
		if r.guarded && !c.admit() {
			return
		}
		if err := c.d.load(); err != nil {
			c.internal(err)
			return
		}
		r.serve(c)
		return
	}
	c.w.Header().Set(headerContentType, "text/plain")
	c.status = http.StatusNotFound
	c.w.WriteHeader(c.status)
	_, _ = c.w.Write([]byte("404 page not found")) // nobody to tell
}

// admit checks the account. It has answered if it reports false.
func (c *adminCall) admit() bool {
	if len(c.d.opts.Accounts) == 0 {
		return true
	}
	verdict := auth.Wrong
	if user, password, ok := c.r.BasicAuth(); ok {
		account := user
		if _, known := c.d.opts.Accounts[user]; !known {
			account = "" // one for all
		}
		attempt := auth.AttemptOf(c.r, c.d.Name()+" admin", account, user+":"+password)
		verdict = c.d.opts.Throttle.Check(attempt, func() bool { return c.allowed(user, password) })
	}
	switch verdict {
	case auth.Right:
		return true
	case auth.Limited:
		c.fail(http.StatusTooManyRequests, textManyAccounts)
	case auth.Wrong:
		c.w.Header().Set("WWW-Authenticate", `Basic realm="Authorization Required"`)
		c.empty(http.StatusUnauthorized)
	}
	return false
}

// allowed reports whether there is such an account. Every account is looked at for as long, so that the
// time tells nothing.
func (c *adminCall) allowed(user, password string) bool {
	given := sha256.Sum256([]byte(user + ":" + password))
	found := 0
	for name, secret := range c.d.opts.Accounts {
		want := sha256.Sum256([]byte(name + ":" + secret))
		found |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	return found == 1
}

// answer answers with a JSON text.
func (c *adminCall) answer(status int, body []byte) {
	c.status = status
	c.w.Header()[headerContentType] = valuesJSON
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // nobody to tell
}

// json answers with a value as compact JSON.
func (c *adminCall) json(status int, value any) { c.marshal(status, value, json.Marshal) }

// indented answers with a value as JSON for people, which some calls have.
func (c *adminCall) indented(status int, value any) {
	c.marshal(status, value, func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "    ") })
}

func (c *adminCall) marshal(status int, value any, marshal func(any) ([]byte, error)) {
	body, err := marshal(value)
	if err != nil {
		c.internal(err)
		return
	}
	c.answer(status, body)
}

func (c *adminCall) fail(status int, text string) { c.answer(status, appendError(nil, text)) }

func (c *adminCall) empty(status int) {
	c.status = status
	c.w.WriteHeader(status)
}

// internal answers a failure of the server, which only the log explains.
func (c *adminCall) internal(err error) {
	c.d.opts.Logger.Error("admin call failed", slog.String("dialect", c.d.Name()), slog.String("method", c.r.Method),
		slog.String("path", maskPath(c.r.URL.Path)), slog.Any("error", err))
	c.fail(http.StatusInternalServerError, textInternal)
}

func (c *adminCall) listPools() { c.indented(http.StatusOK, c.d.Pools()) }

// info lists the queues of a pool by namespace.
func (c *adminCall) info() {
	name := c.poolParam()
	if c.d.pools[name] == nil {
		c.empty(http.StatusOK)
		return
	}
	list, err := c.d.listQueues(name)
	if err != nil {
		c.internal(err)
		return
	}
	c.json(http.StatusOK, list)
}

// listQueues returns the queues of a pool by namespace, if they are very many the first of them.
func (d *Dialect) listQueues(pool string) (list map[string][]string, err error) {
	defer d.opts.Shared.TakeAlone()()
	list = make(map[string][]string)
	err = d.opts.Engine.Read(func(v *engine.View) error {
		return dialect.EachShownBelow(v, d.pools[pool].prefix, func(q *job.QueueInfo) {
			if at, namespace, ok := d.place(q.Namespace); ok && at == pool {
				list[namespace] = append(list[namespace], q.Name)
			}
		})
	})
	return list, err
}

// version tells which server this is.
func (c *adminCall) version() {
	var commit, built string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				built = s.Value
			}
		}
	}
	c.indented(http.StatusOK, map[string]string{
		"version": c.d.opts.Version, "build_commit": commit,
		"build_date": built,
	})
}

func (c *adminCall) openapi()      { c.answer(http.StatusOK, openapiPublic()) }
func (c *adminCall) openapiAdmin() { c.answer(http.StatusOK, c.document()) }

func (c *adminCall) metrics() {
	c.status = http.StatusOK
	c.adminServer.metrics.ServeHTTP(c.w, c.r)
}

// statusText is what the two calls about the access log answer.
func statusText(enabled bool) map[string]string {
	if enabled {
		return map[string]string{"status": "enabled"}
	}
	return map[string]string{"status": "disabled"}
}

func (c *adminCall) accessLog() { c.json(http.StatusOK, statusText(c.d.accessLog.Load())) }

func (c *adminCall) setAccessLog() {
	switch c.r.URL.Query().Get("status") {
	case "enable":
		c.d.accessLog.Store(true)
	case "disable":
		c.d.accessLog.Store(false)
	default:
		c.fail(http.StatusBadRequest, "invalid status")
		return
	}
	c.accessLog()
}

// profile serves Go's profiler.
func (c *adminCall) profile() {
	c.status = http.StatusOK
	switch c.params[0] {
	case "profile":
		pprof.Profile(c.w, c.r)
	case "trace":
		pprof.Trace(c.w, c.r)
	default:
		pprof.Index(c.w, c.r)
	}
}
