package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/auth"
	"millrace/internal/job"
)

// HandlerOptions are what is served besides the operator API. What is nil is not there.
type HandlerOptions struct {
	Login *auth.Login
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

// route is one call of the API.
type route struct {
	method string
	path   string
	role   auth.Role
	params []string // of the query
	handle func(*call) error
}

// listParams are the parameters of every list.
var listParams = []string{"cursor", "limit"}

// The parts of paths.
const (
	pathAPI   = "/api/v1"
	pathQueue = pathAPI + "/namespaces/{namespace}/queues/{queue}"
	pathJob   = pathAPI + "/namespaces/{namespace}/jobs/{id}"
	pathToken = pathAPI + "/tokens/{token}"
)

// routes are all calls of the API, in the order of its document.
var routes = append([]route{
	{http.MethodGet, pathAPI + "/server", auth.RoleRead, nil, (*call).getServer},
	{http.MethodGet, pathAPI + "/namespaces", auth.RoleRead, listParams, (*call).listNamespaces},
	{http.MethodGet, pathAPI + "/queues", auth.RoleRead, append([]string{"namespace", "name"}, listParams...), (*call).listQueues},
	{http.MethodGet, pathQueue, auth.RoleRead, nil, (*call).getQueue},
	{http.MethodDelete, pathQueue, auth.RoleOperator, []string{"if_idle", "keep"}, (*call).removeQueue},
	{http.MethodPost, pathQueue + "/pause", auth.RoleOperator, nil, (*call).pauseQueue},
	{http.MethodPost, pathQueue + "/resume", auth.RoleOperator, nil, (*call).resumeQueue},
	{http.MethodGet, pathQueue + "/limits", auth.RoleRead, nil, (*call).getLimits},
	{http.MethodPut, pathQueue + "/limits", auth.RoleOperator, nil, (*call).setLimits},
	{http.MethodGet, pathQueue + "/fairness", auth.RoleRead, nil, (*call).getFairness},
	{http.MethodPut, pathQueue + "/fairness", auth.RoleOperator, nil, (*call).setFairness},
	{http.MethodPost, pathQueue + "/purge", auth.RoleOperator, nil, (*call).purgeQueue},
	{http.MethodPost, pathQueue + "/respawn", auth.RoleOperator, nil, (*call).respawnQueue},
	{http.MethodGet, pathAPI + "/jobs", auth.RoleRead, append(slices.Clone(filterNames), listParams...), (*call).listJobs},
	{http.MethodGet, pathJob, auth.RoleRead, []string{"queue"}, (*call).getJob},
	{http.MethodGet, pathJob + "/body", auth.RoleRead, []string{"queue"}, (*call).getBody},
	{http.MethodPost, pathJob + "/actions", auth.RoleOperator, nil, (*call).actOnJob},
	{http.MethodPost, pathAPI + "/actions", auth.RoleOperator, nil, (*call).actOnJobs},
	{http.MethodGet, pathAPI + "/bulk", auth.RoleRead, listParams, (*call).listBulk},
	{http.MethodPost, pathAPI + "/bulk", auth.RoleOperator, nil, (*call).startBulk},
	{http.MethodGet, pathAPI + "/bulk/{bulk}", auth.RoleRead, nil, (*call).getBulk},
	{http.MethodPost, pathAPI + "/bulk/{bulk}/cancel", auth.RoleOperator, nil, (*call).cancelBulk},
	{http.MethodDelete, pathAPI + "/bulk/{bulk}", auth.RoleOperator, nil, (*call).forgetBulk},
	{http.MethodGet, pathAPI + "/workers", auth.RoleRead, listParams, (*call).listWorkers},
	{http.MethodPost, pathAPI + "/workers/signal", auth.RoleOperator, nil, (*call).signalWorkers},
	{http.MethodGet, pathAPI + "/connections", auth.RoleRead, nil, (*call).listConnections},
	{http.MethodGet, pathAPI + "/batches", auth.RoleRead, append([]string{"namespace"}, listParams...), (*call).listBatches},
	{http.MethodGet, pathAPI + "/namespaces/{namespace}/batches/{batch}", auth.RoleRead, nil, (*call).getBatch},
	{http.MethodGet, pathAPI + "/tokens", auth.RoleRead, append([]string{"namespace", "pool"}, listParams...), (*call).listTokens},
	{http.MethodPost, pathAPI + "/tokens", auth.RoleOperator, nil, (*call).addToken},
	{http.MethodGet, pathToken, auth.RoleRead, nil, (*call).getToken},
	{http.MethodDelete, pathToken, auth.RoleOperator, nil, (*call).dropToken},
	{http.MethodPut, pathToken + "/limits", auth.RoleOperator, nil, (*call).setTokenLimits},
	{http.MethodDelete, pathToken + "/limits", auth.RoleOperator, nil, (*call).dropTokenLimits},
	{http.MethodGet, pathAPI + "/storage", auth.RoleRead, nil, (*call).getStorage},
	{http.MethodGet, pathAPI + "/settings", auth.RoleRead, nil, (*call).getSettings},
	{http.MethodGet, pathAPI + "/live", auth.RoleRead, nil, (*call).getLive},
	{http.MethodGet, pathAPI + "/events", auth.RoleRead, nil, (*call).streamEvents},
	{http.MethodGet, pathAPI + "/history", auth.RoleRead, []string{"resolution"}, (*call).getHistory},
	{http.MethodGet, pathAPI + "/history/parts", auth.RoleRead, []string{"period"}, (*call).getParts},
	{http.MethodGet, "/openapi.json", auth.RoleNone, nil, (*call).getDocument},
	{http.MethodGet, "/livez", auth.RoleNone, nil, (*call).getLivez},
	{http.MethodGet, "/readyz", auth.RoleNone, []string{"verbose"}, (*call).getReadyz},
	{http.MethodGet, "/healthz", auth.RoleNone, []string{"verbose"}, (*call).getReadyz},
}, slices.Concat(viewRoutes, clusterRoutes, cronRoutes, hookRoutes, workRoutes)...)

// call is one request.
type call struct {
	*Service
	w    http.ResponseWriter
	r    *http.Request
	role auth.Role
}

// bodyMax bounds what a request may carry.
const bodyMax = 1 << 20

// Handler returns what serves the API.
func (s *Service) Handler(o HandlerOptions) http.Handler {
	if o.Login == nil {
		o.Login = auth.NewLogin(auth.LoginOptions{})
	}
	mux := http.NewServeMux()
	for i := range routes {
		rt := &routes[i]
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, o.Login, w, r) })
	}
	s.more(mux, &o)
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.dispatch(mux, o.UI, w, r) })
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
			writeProblem(w, problemCrossSite.problem("%s", refused.Text))
		default:
			writeProblem(w, problemHost.problem("%s", refused.Text))
		}
	})
}

// dispatch finds the handler, and answers itself where there is none.
func (s *Service) dispatch(mux *http.ServeMux, ui http.Handler, w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") && hasDots(r.URL.EscapedPath()) {
		writeProblem(w, notFound("nothing is served at %s: in a path the names . and .. are written ~. and ~..", r.URL.Path))
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
		writeProblem(w, problemMethod.problem("%s: use %s", r.Method, verdict.Header().Get("Allow")))
		return
	}
	writeProblem(w, notFound("nothing is served at %s: /openapi.json lists what is", r.URL.Path))
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
func (s *Service) serve(rt *route, login *auth.Login, w http.ResponseWriter, r *http.Request) {
	role, verdict := login.Of(r)
	c := &call{Service: s, w: w, r: WithActor(r, ""), role: role}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p := allow(role, verdict, rt.role); p != nil {
		refuse(w, p)
		return
	}
	c.r.Body = http.MaxBytesReader(w, r.Body, rt.sizeMax())
	err := c.checkParams(rt)
	if err == nil {
		err = rt.handle(c)
	}
	if err != nil {
		c.fail(err)
	}
	if rt.role == auth.RoleOperator && !rt.routine() {
		s.log.Info("operator request", slog.String("method", rt.method), slog.String("path", r.URL.Path),
			slog.String("remote", r.RemoteAddr), slog.Bool("accepted", err == nil))
	}
}

// allow compares a role with what is needed.
func allow(has auth.Role, verdict auth.Verdict, needs auth.Role) *Problem {
	switch {
	case has >= needs:
		return nil
	case verdict == auth.Limited:
		return problemTooMany.problem("too many wrong passwords or tokens came from this address: wait %d seconds", retryAfter)
	case has == auth.RoleNone:
		return problemLogin.problem("send a password with basic authentication, or a bearer token")
	default:
		return problemForbidden.problem("the role is %s", has)
	}
}

// retryAfter is when somebody who was wrong too often may try again, in seconds.
const retryAfter = int(auth.RetryAfter / time.Second)

// refuse answers who has not proved enough.
func refuse(w http.ResponseWriter, p *Problem) {
	switch p.Status {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="Millrace", charset="UTF-8"`)
	}
	writeProblem(w, p)
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
	p, fault := asProblem(err)
	if fault {
		c.logFault(err)
	}
	writeProblem(c.w, p)
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	text, err := json.Marshal(p)
	if err != nil {
		panic("admin: a problem cannot be written: " + err.Error()) // it holds texts and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // nobody to tell
}

// answer answers with a value as JSON.
func (c *call) answer(status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text) // nobody to tell
	return nil
}

// result answers with a value, unless there is an error.
func (c *call) result(value any, err error) error {
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, value)
}

// checkParams refuses a query with parameters that mean nothing here.
func (c *call) checkParams(rt *route) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("the query cannot be read: %s", err)
	}
	for name := range query {
		if !slices.Contains(rt.params, name) {
			return invalid("there is no parameter %q here", name)
		}
	}
	return nil
}

func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// flag reads a parameter that is there or not, or true or false.
func (c *call) flag(name string) (bool, error) {
	if !c.r.URL.Query().Has(name) {
		return false, nil
	}
	switch text := c.query(name); text {
	case "", "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, invalid("%s: %q is neither true nor false", name, text)
	}
}

func (c *call) page() (PageOf, error) {
	p := PageOf{Cursor: c.query("cursor")}
	if text := c.query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return p, invalid("limit: %q: choose 1 to %d", text, PageMax)
		}
		p.Limit = n
	}
	return p, nil
}

func (c *call) id() (job.ID, error) {
	text := c.r.PathValue("id")
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil || n == 0 {
		return 0, notFound("%q is no id of a job: ids are numbers; search with ref= for a key", text)
	}
	return job.ID(n), nil
}

// decode reads the JSON of a request. An empty request leaves the value alone.
func (c *call) decode(value any) error {
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		return c.cutShort(err)
	}
	if len(body) == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return problemMedia.problem("send Content-Type: application/json")
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return invalid("the JSON cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("the JSON is followed by something else")
	}
	return nil
}

// secondsMax is the longest time that a request may name.
const secondsMax = float64(pauseMax / time.Second)

// seconds reads a time in seconds.
func seconds(name string, n float64) (time.Duration, error) {
	if n < 0 || n > secondsMax {
		return 0, invalid("%s: choose 0 to %.0f", name, secondsMax)
	}
	return time.Duration(n * float64(time.Second)), nil
}
