package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Listening is the name under which Agreement has which listeners there are, wherever they listen.
const Listening = "listeners"

// decisive are the settings that change what becomes of jobs, or who may do what with them: nodes of a cluster must have the same.
var decisive = []string{
	Listening,
	"server.max_queues",
	"masenko.namespace", "masenko.heartbeat", "masenko.max_line", "masenko.max_payload", "masenko.max_atomic",
	"workq.namespace", "workq.max_line", "workq.max_payload", "workq.default_ttr",
	"lmstfy.auth", "lmstfy.pools", "lmstfy.default_ttl", "lmstfy.default_delay", "lmstfy.default_tries", "lmstfy.default_ttr", "lmstfy.max_body",
	"tarantool.namespace", "tarantool.auth", "tarantool.session_ttr", "tarantool.max_packet",
	"faktory.namespace", "faktory.environment", "faktory.max_line", "faktory.dead_max",
	"beanstalkd.namespace", "beanstalkd.max_job_size",
}

// alike are settings that nodes of a cluster should have the same: otherwise clients and operators notice which node leads.
var alike = []string{
	"cluster.election", "listen.hosts", "server.max_waiting", "server.max_waiting_memory", "server.max_waiting_names",
	"masenko.max_connections", "workq.max_connections", "lmstfy.max_connections", "lmstfy.default_timeout", "lmstfy.admin_accounts", "lmstfy.max_header",
	"tarantool.max_connections", "tarantool.max_in_flight", "tarantool.max_waiting", "tarantool.users",
	"faktory.max_connections", "faktory.password", "faktory.skip_password", "beanstalkd.max_connections",
	"web.password", "web.read_password", "web.token", "web.read_token", "web.metrics_queues", "web.metrics_types",
}

// Decisive reports whether a setting that Agreement has changes what becomes of jobs.
func Decisive(name string) bool { return slices.Contains(decisive, name) }

// Agreement returns a short digest of each setting that nodes of a cluster compare.
func (c *Config) Agreement() map[string]string {
	out := map[string]string{}
	note := func(name, text string) {
		sum := sha256.Sum256([]byte(name + "\x00" + text))
		out[name] = hex.EncodeToString(sum[:6])
	}
	for _, s := range c.settings {
		if slices.Contains(decisive, s.Key.Name) || slices.Contains(alike, s.Key.Name) {
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
