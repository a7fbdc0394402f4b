package web

import (
	"net/url"
	"strings"
)

// link makes the address of a page from a path and pairs of names and texts; empty texts are left out.
func link(path string, pairs ...string) string {
	return address(path, filled(pairs...))
}

// filled makes a query from pairs of names and texts; empty texts are left out.
func filled(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// localPath returns a path of this site, below the prefix, to go on to; the overview for anything
// that could lead elsewhere.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, "\\") {
		return "/"
	}
	return address(u.EscapedPath(), u.Query())
}
