package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/httpapi"
	"millrace/internal/operator"
)

// Options are what the handler needs.
type Options struct {
	Service *operator.Service
	// Push pushes jobs, as the call of the API does.
	Push func(ctx context.Context, namespace, queue string, jobs []*api.NewJob) (api.PushResult, error)
	// Login says who may do what. Without it everybody may do everything.
	Login  *auth.Login
	Logger *slog.Logger
}

// handler serves the pages.
type handler struct {
	service  *operator.Service
	pushJobs func(ctx context.Context, namespace, queue string, jobs []*api.NewJob) (api.PushResult, error)
	login    *auth.Login
	log      *slog.Logger
	pages    pages
	assets   assets
}

// New returns the handler of all pages. The handler of the API is to be mounted around it: that one
// refuses requests of other sites and knows the path that a proxy serves us under.
func New(o Options) http.Handler {
	h := &handler{service: o.Service, pushJobs: o.Push, login: o.Login, log: o.Logger, assets: loadAssets()}
	if h.login == nil {
		h.login = auth.NewLogin(auth.LoginOptions{})
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.pages = parsePages(h.assets)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{name...}", h.asset)
	mux.HandleFunc("GET /login", h.open(h.loginForm))
	mux.HandleFunc("POST /login", h.open(formed(h.logIn)))
	mux.HandleFunc("POST /logout", h.open(h.logOut))
	for pattern, f := range h.readers() {
		mux.HandleFunc("GET "+pattern, h.allowed(auth.RoleRead, f))
	}
	for pattern, f := range h.changers() {
		mux.HandleFunc("POST "+pattern, h.allowed(auth.RoleOperator, formed(f)))
	}
	mux.HandleFunc("/", h.allowed(auth.RoleRead, func(*visit) error {
		return refuse(http.StatusNotFound, "There is no such page",
			"The address may be mistyped, or a page of another version.")
	}))
	return secure(mux)
}

// page is the function of a page: it writes an answer, or returns an error and nothing is written.
type page func(v *visit) error

// readers are the pages that show something.
func (h *handler) readers() map[string]page {
	return map[string]page{
		"/{$}": h.overview, "/strip": h.strip, "/live": h.live, "/history": h.history,
		"/queues": h.queues, "/queue": h.queue, "/failures": h.failures,
		"/jobs": h.jobs(listAll), "/scheduled": h.jobs(listScheduled), "/retries": h.jobs(listRetries),
		"/dead": h.jobs(listDead), "/running": h.jobs(listRunning),
		"/job": h.job, "/job/body": h.jobBody,
		"/bulk": h.bulks, "/bulk/{id}": h.bulk,
		"/workers": h.workers, "/worker": h.worker, "/connections": h.connections, "/batches": h.batches,
		"/batch": h.batch,
		"/cron":  h.cronList, "/cron/entry": h.cronEntry,
		"/help": h.help, "/activity": h.activity, "/types": h.types, "/type": h.jobType, "/push": h.pushForm,
		"/tokens": h.tokens, "/storage": h.storage, "/settings": h.settings, "/cluster": h.cluster,
	}
}

// changers are the forms that do something.
func (h *handler) changers() map[string]page {
	return map[string]page{
		"/queues/act": h.actOnQueue, "/jobs/act": h.actOnJobs, "/bulk/{id}/stop": h.stopBulk,
		"/push": h.push, "/workers/act": h.signalWorkers, "/tokens/act": h.actOnTokens, "/cluster/act": h.transfer,
		"/cron/act": h.actOnCron,
	}
}

// formSizeMax bounds what a form may send: a page of jobs with long names.
const formSizeMax = 4 << 20

// policy is the content security policy: what is not of this site does not load, and nothing inline runs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers that every answer has.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, formSizeMax)
		next.ServeHTTP(w, r)
	})
}

// visit is one request for a page.
type visit struct {
	*handler
	w    http.ResponseWriter
	r    *http.Request
	base string // links begin with it
	role auth.Role
	// verdict is what became of the login that came with the request, if one did.
	verdict auth.Verdict
	now     time.Time
}

// open is a page that everybody may ask for.
func (h *handler) open(f page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r = operator.WithActor(r, "web UI")
		v := &visit{handler: h, w: w, r: r, base: httpapi.Prefix(r), now: time.Now()}
		v.role, v.verdict = h.roleOf(r)
		if err := f(v); err != nil {
			v.fail(err)
		}
	}
}

// allowed is a page for those who have a role.
func (h *handler) allowed(needs auth.Role, f page) http.HandlerFunc {
	return h.open(func(v *visit) error {
		switch {
		case v.role >= needs:
			err := f(v)
			if needs == auth.RoleOperator {
				h.log.Info("operator request", slog.String("method", v.r.Method), slog.String("path", v.r.URL.Path),
					slog.String("remote", v.r.RemoteAddr), slog.Bool("accepted", err == nil))
			}
			return err
		case v.verdict == auth.Limited:
			return tooMany()
		case v.role == auth.RoleNone && v.r.Method == http.MethodGet && v.r.Header.Get("Hx-Request") == "":
			return v.redirect(link("/login", "to", v.r.URL.RequestURI()))
		case v.role == auth.RoleNone:
			return refuse(http.StatusUnauthorized, "You are not logged in", "Nothing was done. Log in and try again.")
		default:
			return refuse(http.StatusForbidden, "This needs the operator role",
				"Nothing was done. With this password you may look, not change.")
		}
	})
}

// refuse is a refusal of the pages themselves.
func refuse(status int, title, detail string) error {
	return &api.Problem{Status: status, Title: title, Detail: detail}
}

// fail shows why a page could not be made.
func (v *visit) fail(err error) {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		p = &api.Problem{
			Status: http.StatusInternalServerError, Title: "The server is at fault",
			Detail: "Its log says why.",
		}
	}
	if p.Status == http.StatusInternalServerError {
		v.log.Error("page cannot be shown", slog.String("path", v.r.URL.Path), slog.Any("error", err))
	}
	if err := v.show(p.Status, "problem", p.Title, p); err != nil {
		v.log.Error("page cannot be shown", slog.String("path", v.r.URL.Path), slog.Any("error", err))
		http.Error(v.w, "internal error", http.StatusInternalServerError)
	}
}

// redirect answers a form: the browser asks for another page of this site.
func (v *visit) redirect(to string) error {
	http.Redirect(v.w, v.r, v.base+to, http.StatusSeeOther)
	return nil
}

// formed is a page that has read what a form has sent.
func formed(f page) page {
	return func(v *visit) error {
		err := v.r.ParseForm()
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return refuse(http.StatusRequestEntityTooLarge, "The form is too large",
				"Nothing was done. At most "+size(formSizeMax)+" are read.")
		}
		if err != nil {
			return refuse(http.StatusBadRequest, "The form cannot be read",
				"Nothing was done. Go back and send it again.")
		}
		return f(v)
	}
}
