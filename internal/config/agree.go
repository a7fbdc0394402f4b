package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Listening is the name under which Agreement has which listeners there are, wherever they listen.
const Listening = "listeners"

// decisive returns the settings that change what becomes of jobs, or who may do what with them: nodes of a cluster must
// have the same.
func (t Table) decisive() []string {
	names := []string{Listening, "server.max_queues"}
	for _, s := range t.specs {
		names = append(names, s.Decisive...)
	}
	return names
}

// alike returns settings that nodes of a cluster should have the same: otherwise clients and operators notice which
// node leads.
func (t Table) alike() []string {
	names := []string{
		"cluster.election", "listen.hosts", "server.max_waiting", "server.max_waiting_memory",
		"server.max_waiting_names",
		"statsd.namespace", "statsd.latency_queues", "hooks.secret", "hooks.allow",
	}
	for _, s := range t.specs {
		names = append(names, s.Alike...)
	}
	return names
}

// Decisive reports whether a setting that Agreement has changes what becomes of jobs.
func (c *Config) Decisive(name string) bool { return slices.Contains(c.table.decisive(), name) }

// Agreement returns a short digest of each setting that nodes of a cluster compare.
func (c *Config) Agreement() map[string]string {
	out := map[string]string{}
	note := func(name, text string) {
		sum := sha256.Sum256([]byte(name + "\x00" + text))
		out[name] = hex.EncodeToString(sum[:6])
	}
	compared := append(c.table.decisive(), c.table.alike()...)
	for _, s := range c.settings {
		if slices.Contains(compared, s.Key.Name) {
			note(s.Key.Name, s.text)
		}
	}
	var list []string
	for _, l := range c.listeners {
		list = append(list, l.Name()+" "+l.Namespace)
	}
	slices.Sort(list)
	note(Listening, strings.Join(list, "\n"))
	return out
}
