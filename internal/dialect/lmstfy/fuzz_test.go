package lmstfy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/testkit"
)

// The naive reader below works as the protocol's document says, with the standard
// library and without regard to speed: a second opinion.

var naiveRoutes = []struct {
	method  string
	pattern *regexp.Regexp
	route   route
}{
	{"PUT", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]+)$`), routePublish},
	{"GET", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]+)$`), routeConsume},
	{"DELETE", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]+)$`), routeDestroy},
	{"PUT", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/bulk$`), routeBulk},
	{"GET", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/peek$`), routePeek},
	{"GET", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/size$`), routeSize},
	{"GET", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/deadletter$`), routeDead},
	{"PUT", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/deadletter$`), routeRespawn},
	{"DELETE", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/deadletter$`), routeDropDead},
	{"GET", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/deadletter/size$`), routeDeadSize},
	{"PUT", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/job/([^/]+)$`), routeRepublish},
	{"GET", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/job/([^/]+)$`), routePeekJob},
	{"DELETE", regexp.MustCompile(`(?s)^/api/([^/]*)/([^/]*)/job/([^/]+)$`), routeDelete},
}

func naivePath(method, path string) target {
	for _, r := range naiveRoutes {
		if m := r.pattern.FindStringSubmatch(path); r.method == method && m != nil {
			return target{route: r.route, namespace: m[1], queue: m[2], id: strings.Join(m[3:], "")}
		}
	}
	return target{}
}

var (
	naiveNamespace = regexp.MustCompile(`^[-_0-9A-Za-z]+$`)
	naiveQueue     = regexp.MustCompile(`^[-0-9A-Za-z][-_0-9A-Za-z]*$`)
	naiveList      = regexp.MustCompile(`^[-_,0-9A-Za-z]+$`)
)

func naiveNames(t target) string {
	names := []string{t.queue}
	if t.route == routeConsume {
		names = strings.Split(t.queue, ",")
	}
	for _, name := range append(names, t.namespace) {
		if len(name) > 255 {
			return textNameTooLong
		}
	}
	queue := naiveQueue
	if t.route == routeConsume {
		queue = naiveList
	}
	switch {
	case !naiveNamespace.MatchString(t.namespace):
		return textNamespace
	case !queue.MatchString(t.queue):
		return textQueue
	}
	return ""
}

var requestSeeds = []struct{ method, path, query, token string }{
	{"PUT", "/api/ns/q", "delay=1&ttl=2&tries=3", "abc"},
	{"GET", "/api/ns/a,b,,c", "ttr=1&timeout=2&count=3&count=4", "pool:abc"},
	{"GET", "/api/ns/_q", "ttr=%31&%74imeout=+2&count=%zz", ":abc"},
	{"DELETE", "/api/ns/q/job/01ARZ3NDEKTSV4RRFFQ69G5FAV", "token=a%3Ab&token=c", ""},
	{"PUT", "/api/ns/q/bulk", "a;b=1&delay=1;ttl=2&limit=18446744073709551616", "a:b:c"},
	{"GET", "/api//q/deadletter/size", "=1&delay&ttl=&&", "default:"},
	{"GET", "/api/" + strings.Repeat("n", 256) + "/q", "limit=9223372036854775807", ":"},
	{
		"GET", "/api/ns/" + strings.Repeat("q", 255) + "," + strings.Repeat("r", 256),
		"limit=0000000000000000000000000000001", "",
	},
	{"PUT", "/api/ns/q\n/peek", "count=٣", "\x00"},
	{"GET", "/api/ns/q/job/a/b", "", ""},
	{"PATCH", "/api/ns/q", "", ""},
}

// FuzzRequest feeds the path, the query and the token of a request to the parsers:
// nothing panics, and the naive reader agrees.
func FuzzRequest(f *testing.F) {
	for _, s := range requestSeeds {
		f.Add(s.method, s.path, s.query, s.token)
	}
	f.Fuzz(func(t *testing.T, method, path, rawQuery, token string) {
		var got target
		var q query
		testkit.Bounded(t, len(method)+len(path)+len(rawQuery), func() {
			got = parsePath(method, path)
			q.parse(rawQuery)
		})
		want := naivePath(method, path)
		if got.route != want.route || got.route != routeNone && got != want {
			t.Fatalf("%s %q is %+v, want %+v", method, path, got, want)
		}
		if got.route != routeNone {
			if g, w := checkNames(&got), naiveNames(got); g != w {
				t.Fatalf("names of %q: %q, want %q", path, g, w)
			}
		}
		values, _ := url.ParseQuery(rawQuery) // it leaves out what is malformed
		for p, name := range paramNames {
			first, given := "", len(values[name]) > 0
			if given {
				first = values[name][0]
			}
			if q.given[p] != given || q.values[p] != first {
				t.Fatalf("%q of %q: %q, %v; want %q, %v", name, rawQuery, q.values[p], q.given[p], first, given)
			}
			n, ok := q.uint(p, 7, secondsMax)
			w, err := strconv.ParseUint(first, 10, 32)
			if digits := strings.Trim(first, "0123456789") == ""; !given {
				w, err = 7, nil
			} else if !digits {
				err = strconv.ErrSyntax
			}
			if ok != (err == nil) || ok && n != w {
				t.Fatalf("%q of %q is %d, %v; want %d, %v", name, rawQuery, n, ok, w, err)
			}
		}
		pool, rest := splitToken(token)
		if i := strings.Index(token, ":"); i > 0 && (pool != token[:i] || rest != token[i+1:]) || i == 0 &&
			rest != token[1:] || i < 0 && rest != token {
			t.Fatalf("token %q is %q of pool %q", token, rest, pool)
		}
		if masked := maskTokens(rawQuery); len(first(values["token"])) > 3 &&
			strings.Contains(masked, "="+first(values["token"])) {
			t.Fatalf("%q is masked as %q", rawQuery, masked)
		}
		_ = refTo("ns", "q", got.id) // whatever the id is
	})
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

//nolint:exhaustive // paramNone is none
var paramNames = map[param]string{
	paramDelay: "delay", paramTTL: "ttl", paramTries: "tries", paramTTR: "ttr", paramTimeout: "timeout",
	paramCount: "count",
	paramLimit: "limit", paramToken: "token", paramGroup: "group",
}

// FuzzBulk feeds a body to the parser of bulk requests: Go's decoder agrees about what is
// an array, and about its elements to the last byte.
func FuzzBulk(f *testing.F) {
	for _, s := range []string{
		"", "[]", "null", " [ 1 , \"a\" ,{} ] ", "[1,]", "[1] x", "{}", `["\u00e9"]`,
		"[" + strings.Repeat("1,", 64) + "1]", "[1.50,-0,1e5,null]",
		strings.Repeat("[", 200) + strings.Repeat("]", 200), "[\"" + strings.Repeat("x", 30) + "\"]",
		"\ufeff[1]", "[01]",
	} {
		f.Add([]byte(s))
	}
	const elementMax = 20
	f.Fuzz(func(t *testing.T, body []byte) {
		var k bulk
		var status int
		var text string
		testkit.Bounded(t, len(body), func() { status, text = k.parse(body, elementMax) })
		var want []json.RawMessage
		err := json.Unmarshal(body, &want)
		large := false
		for _, w := range want {
			large = large || len(w) > elementMax
		}
		switch {
		case err != nil && text == textNotArray, err == nil && len(want) == 0 && text == textNoJobs, err == nil &&
			len(want) > bulkMax && text == textManyJobs:
			return
		case err == nil && large && text == textBodyLarge && status == http.StatusRequestEntityTooLarge:
			return
		case err != nil || text != "" || len(want) != len(k.bodies) || large:
			t.Fatalf("%q: %d elements, %q; want %d, %v", body, len(k.bodies), text, len(want), err)
		}
		for i := range want {
			if !bytes.Equal(k.bodies[i], want[i]) {
				t.Fatalf("%q: element %d is %q, want %q", body, i, k.bodies[i], want[i])
			}
		}
	})
}

// FuzzBody reads bodies that come in pieces of any size and announce whatever
// length: never more than the limit is kept.
func FuzzBody(f *testing.F) {
	f.Add([]byte("hello"), int64(5), 3, 10)
	f.Add([]byte(strings.Repeat("x", 5000)), int64(-1), 700, 5000)
	f.Add([]byte("hello"), int64(1<<40), 1, 4)
	f.Fuzz(func(t *testing.T, body []byte, length int64, piece, limit int) {
		if limit < 0 || limit > 1<<20 || piece <= 0 {
			return
		}
		r := &http.Request{ContentLength: length, Body: io.NopCloser(&pieces{body, piece})}
		d := New(Options{})
		var got []byte
		var err error
		testkit.Bounded(t, len(body), func() { got, err = d.readBody(r, []byte("kept"), limit, new(dialect.Claim)) })
		if !bytes.HasPrefix(got, []byte("kept")) {
			t.Fatalf("what was there before is gone: %q", got)
		}
		got = got[len("kept"):]
		switch {
		case length == 0:
			if err != nil || len(got) != 0 {
				t.Fatalf("no body: %q, %v", got, err)
			}
		case length > int64(limit) || len(body) > limit:
			if !errors.Is(err, errTooLarge) {
				t.Fatalf("%d bytes, announced as %d, with a limit of %d: %v", len(body), length, limit, err)
			}
		case err != nil || !bytes.Equal(got, body):
			t.Fatalf("%q, %v, want %q", got, err, body)
		}
	})
}

// pieces is a reader of a few bytes at a time.
type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}
