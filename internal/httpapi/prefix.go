package httpapi

import (
	"context"
	"net/http"
	"strings"
)

// prefixHeaders are the headers by which a proxy tells under which path it serves us.
var prefixHeaders = []string{"X-Forwarded-Prefix", "X-Script-Name"}

// prefixKey is where the prefix of a request is kept.
type prefixKey struct{}

// Prefix returns the path that links must begin with: empty, or with a slash at its beginning and none
// at its end.
func Prefix(r *http.Request) string {
	prefix, _ := r.Context().Value(prefixKey{}).(string)
	return prefix
}

// underPrefix takes the prefix that a proxy tells from the path, where the proxy has not.
func underPrefix(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prefix := prefixOf(r)
		if prefix == "" {
			h.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), prefixKey{}, prefix))
		if rest, ok := strings.CutPrefix(r.URL.Path, prefix); ok && (rest == "" || rest[0] == '/') {
			http.StripPrefix(prefix, h).ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// prefixMax bounds a prefix.
const prefixMax = 200

// prefixOf reads the headers. What could be anything but a plain path is not taken for one: it becomes
// part of links.
func prefixOf(r *http.Request) string {
	for _, name := range prefixHeaders {
		text := strings.TrimRight(r.Header.Get(name), "/")
		if text == "" {
			continue
		}
		plain := len(text) <= prefixMax && text[0] == '/' && !strings.Contains(text, "//") &&
			!strings.Contains(text, "..")
		for _, c := range []byte(text) {
			plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
				strings.IndexByte("/-_.~", c) >= 0)
		}
		if plain {
			return text
		}
	}
	return ""
}
