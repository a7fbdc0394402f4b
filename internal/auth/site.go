package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// SiteOptions say under which names an HTTP listener may be asked.
type SiteOptions struct {
	// Hosts are names besides those of loopback and the address that a connection has come to. One that begins with
	// "*." stands for all names below it.
	Hosts []string
	// Setting is what sets Hosts, for messages.
	Setting string
	// AnyHost takes every name: a login keeps out those who come by a name of their own.
	AnyHost bool
	// Open are paths that may be asked by every name, because they tell nothing about jobs: those of probes.
	Open []string
	// Strict refuses a browser that follows a link of another site, because a GET changes something here.
	Strict bool
}

// Site tells requests of browsers that web pages of other sites have asked for from all others. Two things are looked
// at: the name that the request is for, which is a stranger's if a page has its own name lead to this machine (DNS
// rebinding), and what the browser says about the page. A nil Site refuses nothing.
type Site struct {
	opts  SiteOptions
	exact map[string]bool
	below []string // with the dot before them
	open  map[string]bool
}

// NewSite returns a Site.
func NewSite(o SiteOptions) *Site {
	s := &Site{
		opts: o, exact: map[string]bool{"localhost": true}, below: []string{".localhost"},
		open: make(map[string]bool),
	}
	for _, path := range o.Open {
		s.open[path] = true
	}
	for _, name := range o.Hosts {
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		if rest, ok := strings.CutPrefix(name, "*"); ok {
			s.below = append(s.below, rest)
		} else {
			s.exact[name] = true
		}
	}
	return s
}

// Refusal is why a request is not answered.
type Refusal struct {
	Status int // of HTTP
	Text   string
}

// Check returns why a request must not be answered; nil if it may.
func (s *Site) Check(r *http.Request) *Refusal {
	switch {
	case s == nil:
		return nil
	case !s.opts.AnyHost && !s.known(r) && !s.open[r.URL.Path]:
		return &Refusal{http.StatusMisdirectedRequest, fmt.Sprintf(
			"%q is no name of this server: ask it as localhost or by its address, add the name to %s, or set a "+
				"login", hostOf(r.Host), s.opts.Setting)}
	case s.crossSite(r):
		return &Refusal{http.StatusForbidden, fmt.Sprintf("the browser says that this %s comes from another site "+
			"than ours", r.Method)}
	default:
		return nil
	}
}

// Handler lets only those requests through to h that may be answered.
func (s *Site) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := s.Check(r); refused != nil {
			http.Error(w, refused.Text, refused.Status)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// known reports whether a request is for a name of this server. Browsers always send one; what sends none is no
// browser.
func (s *Site) known(r *http.Request) bool {
	host := hostOf(r.Host)
	if host == "" || s.exact[host] {
		return true
	}
	for _, name := range s.below {
		if strings.HasSuffix(host, name) {
			return true
		}
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.Unmap() == localAddr(r))
}

// hostOf returns a host without its port, in lower case and without a dot at its end.
func hostOf(text string) string {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// localAddr returns the address that the connection of a request has come to.
func localAddr(r *http.Request) netip.Addr {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}

// crossSite reports whether a browser says that a page of another origin has asked for this. A page of the same site
// has another port or another name below the same domain, so it is none of ours either.
func (s *Site) crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin := r.Header.Get("Origin")
		if origin == "" {
			return false
		}
		u, err := url.Parse(origin)
		return err != nil || !strings.EqualFold(u.Host, r.Host)
	default:
		return s.opts.Strict || !followsLink(r)
	}
}

// followsLink reports whether a browser asks for a page to show in a window of its own.
func followsLink(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
