package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"millrace/internal/api"
)

// Options say which server is asked, and who asks.
type Options struct {
	// URL is where the server is, such as http://127.0.0.1:7420. A path is kept: a proxy may serve us under one.
	URL string
	// Token, else Password, proves who asks. Both may be empty.
	Token    string
	Password string
	// TLS is for https addresses; nil trusts what the system trusts.
	TLS *tls.Config
	// Agent is the name of the program that asks.
	Agent string
}

// Client asks one server. It may be used by several goroutines at a time.
type Client struct {
	o    Options
	base *url.URL
	http *http.Client
}

// dialTimeout bounds how long a server may take to accept a connection.
const dialTimeout = 5 * time.Second

// New returns a Client. Nothing is sent yet.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a server: write for example http://127.0.0.1:7420", o.URL)
	}
	base.RawQuery, base.Fragment, base.User = "", "", nil
	base.Path = strings.TrimRight(base.Path, "/")
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     o.TLS,
		MaxIdleConnsPerHost: 100,
		IdleConnTimeout:     30 * time.Second, // before the server closes them
		ForceAttemptHTTP2:   false,
	}
	return &Client{o: o, base: base, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// URL returns where the server is.
func (c *Client) URL() string { return c.base.String() }

// Close closes connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Unreachable tells that there was no answer, or one that is not a Millrace server's.
type Unreachable struct { //nolint:errname // reads better where it is used
	URL string
	Err error
}

// Error says what happened.
func (u *Unreachable) Error() string {
	err := u.Err
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // it names the whole address again
	}
	return fmt.Sprintf("no answer from %s: %s", u.URL, err)
}

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// request is one call of the API.
type request struct {
	method string
	path   string // below the address, escaped
	query  url.Values
	body   any    // sent as JSON; a []byte as it is
	media  string // of a []byte
}

// How long a request is sent again while no node of a cluster leads, and how long it waits in between.
const (
	leaderPatience = 10 * time.Second
	leaderPause    = 250 * time.Millisecond
)

// send sends a request and returns the answer, if it is not a problem. Whoever gets it closes its body. While no node
// of a cluster leads it is sent again for a while, unless it may have been done and is not safe to repeat.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	for until := time.Now().Add(leaderPatience); ; {
		resp, again, err := c.sendOnce(ctx, r)
		if err == nil || !again {
			return resp, err
		}
		if time.Now().After(until) {
			if p, ok := errors.AsType[*api.Problem](err); ok {
				p.Detail += fmt.Sprintf(": asked again for %s", leaderPatience)
			}
			return nil, err
		}
		select {
		case <-time.After(leaderPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sendOnce sends a request. Again reports that there was no leader to do it, and that it may be sent again.
func (c *Client) sendOnce(ctx context.Context, r request) (_ *http.Response, again bool, _ error) {
	u := *c.base
	u.RawPath = u.EscapedPath() + r.path
	path, err := url.PathUnescape(u.RawPath)
	if err != nil {
		return nil, false, fmt.Errorf("path %q: %w", r.path, err)
	}
	u.Path, u.RawQuery = path, r.query.Encode()
	var body io.Reader
	media := r.media
	switch b := r.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, false, fmt.Errorf("write a request: %w", err)
		}
		body, media = bytes.NewReader(text), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, false, fmt.Errorf("make a request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("User-Agent", c.o.Agent)
	switch {
	case c.o.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	case c.o.Password != "":
		req.SetBasicAuth("", c.o.Password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		return nil, false, &Unreachable{URL: c.URL(), Err: err}
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return resp, false, nil
	}
	defer func() { _ = resp.Body.Close() }()
	err = c.problem(resp)
	p, ok := errors.AsType[*api.Problem](err)
	again = ok && p.IsNoLeader() && (resp.Header.Get("Retry-After") != "" || r.method == http.MethodGet)
	return nil, again, err
}

// problemSizeMax bounds what is read of a refusal.
const problemSizeMax = 64 << 10

// problem reads a refusal.
func (c *Client) problem(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, problemSizeMax))
	if err != nil {
		return &Unreachable{URL: c.URL(), Err: err}
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	p := new(api.Problem)
	if kind == "application/problem+json" && json.Unmarshal(text, p) == nil {
		return p
	}
	return &Unreachable{URL: c.URL(), Err: fmt.Errorf("%s, which is no answer of a Millrace server", resp.Status)}
}

// call sends a request and reads the answer into out, which may be nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Unreachable{URL: c.URL(), Err: fmt.Errorf("the answer cannot be read: %w", err)}
	}
	return nil
}

// get asks for something.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return answer[T](ctx, c, request{method: http.MethodGet, path: path, query: query})
}

// post has something done.
func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return answer[T](ctx, c, request{method: http.MethodPost, path: path, body: body})
}

// put sets something.
func put[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return answer[T](ctx, c, request{method: http.MethodPut, path: path, body: body})
}

// answer makes a request and reads its answer.
func answer[T any](ctx context.Context, c *Client, r request) (T, error) {
	var out T
	err := c.call(ctx, r, &out)
	return out, err
}
