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

// access is what is logged about a request.
type access struct {
	pool, path, query, ip, method, requestID string
	latency                                  time.Duration
	code                                     int
}

// logAccess writes a line of the access log.
func logAccess(log *slog.Logger, a access) {
	level := slog.LevelInfo
	switch {
	case a.code >= http.StatusInternalServerError:
		level = slog.LevelError
	case a.code >= http.StatusBadRequest && a.code != http.StatusNotFound:
		level = slog.LevelWarn
	}
	ip, _, err := net.SplitHostPort(a.ip)
	if err != nil {
		ip = a.ip
	}
	log.LogAttrs(context.Background(), level, "request",
		slog.String("pool", a.pool), slog.String("path", a.path), slog.String("query", maskTokens(a.query)),
		slog.Duration("latency", a.latency),
		slog.String("ip", ip), slog.String("method", a.method), slog.Int("code",
			a.code), slog.String("req_id", a.requestID))
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

// maskToken shows so much of a token that people can tell which one it is: of one that was
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
