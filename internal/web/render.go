package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"millrace/internal/auth"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates by name: each page with the layout and the parts that all share.
type pages map[string]*template.Template

// shared are the files whose parts every page may use.
var shared = []string{"templates/layout.html", "templates/parts.html", "templates/rows.html"}

// parsePages reads the templates that are embedded.
func parsePages(a assets) pages {
	funcs := template.FuncMap{
		"number": number, "rate": rate, "span": span, "size": anySize, "stamp": stamp, "clock": clock, "link": link,
		"asset":       a.link,
		"actionLabel": actionLabel, "target": targetText, "jobLink": jobLink, "queueLink": queueLink,
		"workerLink": workerLink, "sub": func(v *view, data any) sub { return sub{v, data} }, "about": about,
		"join": strings.Join, "failureAct": newFailureAct, "kinds": bodyKinds, "done": batchDone,
		"digits": func(n any) string { return fmt.Sprint(n) },
	}
	base := template.Must(template.New("layout").Funcs(funcs).ParseFS(templateFiles, shared...))
	all := make(pages)
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic("web: the templates cannot be listed: " + err.Error()) // the pattern is right
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, file))
	}
	return all
}

func anySize(n any) (string, error) {
	switch n := n.(type) {
	case uint64:
		return size(n), nil
	case *uint64:
		return size(*n), nil
	case int64:
		return size(uint64(max(0, n))), nil
	case int:
		return size(uint64(max(0, n))), nil
	}
	return "", fmt.Errorf("%T is no number of bytes", n)
}

// view is what a template is given: the frame, and in Data what the page itself shows.
type view struct {
	Base      string // links begin with it
	Path      string // of this page, for the menu
	Title     string
	Version   string
	Operator  bool // may change things
	LoggedIn  bool // and can log out
	Anonymous bool // must log in
	Notice    string
	Menu      []menuGroup
	Strip     *strip
	Theme     string // light or dark; empty: as the browser says
	Now       time.Time
	Data      any
}

// sub is what a part of a page is given: the view, and what the part is about.
type sub struct {
	View *view
	Of   any
}

// about is a view of the same page for a part that is about something else.
func about(v *view, data any) *view {
	other := *v
	other.Data = data
	return &other
}

// Ago tells how long ago an instant was.
func (v *view) Ago(at time.Time) string { return since(v.Now, at) }

// Self is this page's address without its query.
func (v *view) Self() string { return v.Base + v.Path }

type menuGroup struct {
	Title string
	Items []menuItem
}

type menuItem struct{ Path, Title string }

// menu are the pages that can be gone to from everywhere.
var menu = []menuGroup{
	{"Work", []menuItem{
		{"/", "Overview"},
		{"/queues", "Queues"},
		{"/failures", "Failures"},
		{"/jobs", "Jobs"},
		{"/types", "Types"},
		{"/batches", "Batches"},
		{"/cron", "Cron"},
	}},
	{"Jobs by state", []menuItem{
		{"/running", "Running"},
		{"/scheduled", "Scheduled"},
		{"/retries", "Retrying"},
		{"/dead", "Dead"},
	}},
	{"Clients", []menuItem{{"/workers", "Workers"}, {"/connections", "Connections"}, {"/tokens", "Tokens"}}},
	{"Server", []menuItem{
		{"/bulk", "Bulk actions"},
		{"/activity", "Activity"},
		{"/storage", "Storage"},
		{"/settings", "Settings"},
	}},
}

// menuFor returns the menu of a server, which has one page more in a cluster.
func menuFor(inCluster bool) []menuGroup {
	if !inCluster {
		return menu
	}
	groups := slices.Clone(menu)
	last := &groups[len(groups)-1]
	last.Items = append(slices.Clone(last.Items), menuItem{"/cluster", "Cluster"})
	return groups
}

// zipMin is the size from which a page is worth compressing.
const zipMin = 1 << 10

// show writes a page. If it cannot be made, nothing has been written.
func (v *visit) show(status int, name, title string, data any) error {
	return v.render(status, name, "layout", title, data)
}

// part writes a part of a page, for a request that replaces only that.
func (v *visit) part(name, part string, data any) error {
	return v.render(http.StatusOK, name, part, "", data)
}

func (v *visit) render(status int, name, part, title string, data any) error {
	model := &view{
		Base: v.base, Path: v.r.URL.Path, Title: title, Operator: v.role == auth.RoleOperator,
		Anonymous: v.role == auth.RoleNone,
		LoggedIn:  v.login.Required() && v.role != auth.RoleNone, Menu: menuFor(v.service.InCluster()), Now: v.now,
		Theme: v.theme(), Version: v.service.Server().Version, Data: data,
	}
	if part != "found" && !model.Anonymous {
		if model.Strip = v.stripOf(); model.Strip != nil {
			model.Strip.Overview = model.Path == "/" || v.r.URL.Query().Has("overview")
		}
	}
	if part == "layout" && v.r.Method == http.MethodGet {
		model.Notice = v.takeNotice()
	}
	var b bytes.Buffer
	if err := v.pages[name].ExecuteTemplate(&b, part, model); err != nil {
		return fmt.Errorf("make page %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var zipped []byte
	if b.Len() >= zipMin && acceptsGzip(v.r) {
		zipped = zip(b.Bytes(), gzip.BestSpeed)
	}
	write(v.w, v.r, status, b.Bytes(), zipped)
	return nil
}

// Active reports whether a page of the menu is this one or the one that this belongs to.
func (v *view) Active(p string) bool {
	here := v.Path
	switch {
	case here == "/queue":
		here = "/queues"
	case here == "/job" || here == "/push":
		here = "/jobs"
	case here == "/worker":
		here = "/workers"
	case here == "/type":
		here = "/types"
	case here == "/batch":
		here = "/batches"
	case strings.HasPrefix(here, "/cron/"):
		here = "/cron"
	case strings.HasPrefix(here, "/bulk/"):
		here = "/bulk"
	}
	return here == p
}
