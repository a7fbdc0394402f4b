package server

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"millrace/internal/config"
)

// durabilityText says what an acknowledgement is worth.
func durabilityText(mode string, interval time.Duration) string {
	switch mode {
	case "fsync":
		return "fsync: what is acknowledged survives a power loss"
	case "interval":
		return fmt.Sprintf("interval: any crash, also of the process alone, may lose the last %s", interval)
	default:
		return fmt.Sprintf("%s: a crash of the process may lose the last %s, a crash of the machine much more", mode,
			interval)
	}
}

// announce prints what is served, one line per listener, and logs it.
func (s *server) announce() {
	durability := s.cfg.Store.Durability
	text := durabilityText(durability, s.cfg.Store.SyncInterval)
	var b strings.Builder
	fmt.Fprintf(&b, "millrace   %s\n", s.opts.Version)
	fmt.Fprintf(&b, "data       %s\n", s.dataDir())
	fmt.Fprintf(&b, "durability %s\n", text)
	for _, g := range s.gates {
		b.WriteString(g.line())
		s.log.Info("listening", slog.String("listener", g.config.Name()), slog.String("addr", g.Addr().String()),
			slog.String("namespace", g.config.Namespace), slog.Bool("tls", g.config.TLS.Enabled()))
	}
	if _, err := io.WriteString(s.opts.Out, b.String()); err != nil {
		s.log.Warn("cannot print the addresses", slog.Any("error", err))
	}
	if s.files.limit > 0 {
		s.log.Info("open files", slog.Int("limit", s.files.limit), slog.Int("connections_max", s.files.conns),
			slog.Int("tables_max", s.files.tables))
	}
	s.log.Info("ready", slog.String("version", s.opts.Version), slog.String("dir", s.dataDir()),
		slog.String("durability", durability))
}

// line announces one listener.
func (g *gate) line() string {
	if g.config.Role == config.RoleMetrics {
		return fmt.Sprintf("%-10s http://%s/ (%s, namespace %s)\n", g.config.Role, g.Addr(), g.config.Protocol,
			g.config.Namespace)
	}
	if g.config.Role == config.RoleAdmin {
		return fmt.Sprintf("%-10s http://%s/ (%s)\n", g.config.Role, g.Addr(), g.config.Protocol)
	}
	if g.config.Protocol == config.ProtocolWeb {
		return g.webLine()
	}
	extra := ""
	if g.config.TLS.Enabled() {
		extra = ", TLS"
	}
	switch {
	case g.config.TLS.ClientCA != "":
		extra = ", TLS with client certificates"
	case g.config.Authenticated:
		extra += ", authentication"
	}
	namespace := g.config.Namespace
	if namespace == "" {
		namespace = "in the request"
	}
	name := g.config.Protocol
	if g.config.Role != "" {
		name = g.config.Role
	}
	return fmt.Sprintf("%-10s %s (namespace %s%s)\n", name, g.Addr(), namespace, extra)
}

// webLine announces a listener of the operator's side.
func (g *gate) webLine() string {
	scheme, who := "http", "no login"
	if g.config.TLS.Enabled() {
		scheme = "https"
	}
	if g.config.Authenticated {
		who = "login"
	}
	return fmt.Sprintf("%-10s %s://%s/ (web UI, operator API, metrics; %s)\n", g.config.Protocol, scheme, g.Addr(), who)
}
