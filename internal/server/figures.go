package server

import (
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/dialect"
	"millrace/internal/metrics"
)

// figures are what a dialect counts of one of its wire protocols.
type figures interface {
	Stats() dialect.ServerStats
	Commands() []dialect.CommandFigures
}

// builtDialect is a dialect in a namespace, under the name of its wire protocol.
type builtDialect struct {
	protocol, namespace string
	figures
}

// built notes a dialect, so that the operator's side can tell about it.
func (s *server) built(protocol, namespace string, f figures) {
	s.dialects = append(s.dialects, builtDialect{protocol, namespace, f})
}

// protocolOf returns the name under which the wire protocol of a listener is counted.
func protocolOf(listener string) string {
	if _, role, _ := strings.Cut(listener, " "); role != "" && role != config.RoleMetrics && role != config.RoleAdmin {
		return role
	}
	return listener
}

// connections tells about the connections of each protocol in each namespace.
func (s *server) connections() []api.Connections {
	out := []api.Connections{}
	for _, g := range s.gates {
		name := g.config.Name()
		i := slices.IndexFunc(out, func(c api.Connections) bool {
			return c.Protocol == name && c.Namespace == g.config.Namespace
		})
		if i < 0 {
			i = len(out)
			out = append(out, api.Connections{
				Protocol: name, Namespace: g.config.Namespace,
				TLS: g.config.TLS.Enabled(),
			})
			for _, d := range s.dialects {
				if d.protocol == protocolOf(name) && d.namespace == g.config.Namespace {
					out[i].Rejected += d.Stats().Rejected
				}
			}
		}
		open, total, refused, unseated := g.counts()
		out[i].Addresses = append(out[i].Addresses, g.Addr().String())
		out[i].Open += open
		out[i].Total += total
		out[i].Rejected += refused + unseated
	}
	return out
}

// protocolConnections tells the same by protocol, for metrics.
func (s *server) protocolConnections() []metrics.Connections {
	var out []metrics.Connections
	for _, c := range s.connections() {
		name := protocolOf(c.Protocol)
		i := slices.IndexFunc(out, func(m metrics.Connections) bool { return m.Protocol == name })
		if i < 0 {
			i = len(out)
			out = append(out, metrics.Connections{Protocol: name, Rejected: map[string]int64{}})
			for _, d := range s.dialects {
				if d.protocol == name {
					out[i].Rejected["tls"] += d.Stats().Handshakes
					out[i].Rejected["input"] += d.Stats().Unfinished
					out[i].Rejected["slow"] += d.Stats().Slow
					out[i].Rejected["foreign"] += d.Stats().Foreign
				}
			}
		}
		out[i].Open += c.Open
		out[i].Total += c.Total
		out[i].Rejected["limit"] += c.Rejected
	}
	for _, g := range s.gates {
		_, _, _, unseated := g.counts()
		i := slices.IndexFunc(out, func(m metrics.Connections) bool {
			return m.Protocol == protocolOf(g.config.Name())
		})
		out[i].Rejected["files"] += unseated
		out[i].Rejected["limit"] -= unseated
	}
	return out
}

// protocolCommands adds up what the dialects of each protocol were asked for.
func (s *server) protocolCommands() []metrics.Command {
	type key struct{ protocol, command string }
	at := map[key]int{}
	var out []metrics.Command
	for _, d := range s.dialects {
		for _, f := range d.Commands() {
			k := key{d.protocol, f.Name}
			i, ok := at[k]
			if !ok {
				i = len(out)
				at[k] = i
				out = append(out, metrics.Command{Protocol: d.protocol, Command: f.Name})
			}
			out[i].OK += f.OK
			out[i].Errors += f.Errors
			out[i].Times.Add(&f.Times)
		}
	}
	return out
}
