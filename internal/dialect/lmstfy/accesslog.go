package lmstfy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"millrace/internal/dialect"
)

// logAccess writes a line of the access log, if there is one.
func (d *Dialect) logAccess(r *http.Request, pool, path, requestID string, code int, latency time.Duration) {
	if !d.accessLog.Load() {
		return
	}
	level := slog.LevelInfo
	switch {
	case code >= http.StatusInternalServerError:
		level = slog.LevelError
	case code >= http.StatusBadRequest && code != http.StatusNotFound:
		level = slog.LevelWarn
	}
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	d.opts.Logger.LogAttrs(context.Background(), level, "request",
		slog.String("pool", pool), slog.String("path", path), slog.String("query", maskTokens(r.URL.RawQuery)),
		slog.Duration("latency", latency), slog.String("ip", ip), slog.String("method", r.Method),
		slog.Int("code", code), slog.String("req_id", requestID))
}

// mask stands for a secret.
const mask = "***"

// maskTokens hides the tokens in a query, however their names are escaped.
func maskTokens(query string) string {
	if query == "" {
		return ""
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		key, _, _ := strings.Cut(pair, "=")
		if name, ok := unescape(key); !ok || paramOf(name) == paramToken {
			pairs[i] = key + "=" + mask
		}
	}
	return strings.Join(pairs, "&")
}

// maskToken shows enough of a token to recognize it: of one that was
// made here the time, which tells nothing, of one that people have chosen less.
func maskToken(token string) string {
	const timeLen, hint = 10, 4
	if _, ok := dialect.ParseULID(token); ok {
		return token[:timeLen] + mask
	}
	if len(token) < userTokenMin {
		return mask
	}
	return token[:hint] + mask
}
