package config

import (
	"fmt"
	"strconv"
	"time"
)

// Masenko is the configuration of the Masenko protocol.
type Masenko struct {
	Addr           Addresses
	Namespace      string
	Heartbeat      time.Duration
	MetricsAddr    Addresses
	MaxConnections int
	MaxLine        uint64
	MaxPayload     uint64
	MaxAtomic      uint64
	WriteTimeout   time.Duration
	TLS            TLS
}

// RoleMetrics is the role of a listener that serves metrics over HTTP.
const RoleMetrics = "metrics"

func masenkoBlock() block {
	keys := []Key{
		addressesKey("masenko.addr", "127.0.0.1:12345",
			`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas, `+
				`and "=name" behind one binds it to another namespace: "127.0.0.1:12345, 127.0.0.1:12346=tenant-b".`,
			func(c *Config) *Addresses { return &c.Masenko.Addr }),
		namespaceKey("masenko.namespace",
			"Namespace of the addresses that do not name one.",
			func(c *Config) *string { return &c.Masenko.Namespace }),
		durationKey("masenko.heartbeat", "45s", limits[time.Duration]{time.Millisecond, 24 * time.Hour},
			"A client that sends nothing for this long is disconnected and its tasks fail. Also the longest FETCH timeout.",
			func(c *Config) *time.Duration { return &c.Masenko.Heartbeat }),
		addressesKey("masenko.metrics_addr", AddressOff,
			"Address of the HTTP side interface that serves Masenko's own Prometheus metrics. It has neither TLS nor authentication.",
			func(c *Config) *Addresses { return &c.Masenko.MetricsAddr }),
		intKey("masenko.max_connections", 10000, limits[int]{1, 1 << 20},
			"Open connections at a time, per namespace; more are refused.",
			func(c *Config) *int { return &c.Masenko.MaxConnections }),
		sizeKey("masenko.max_line", "16MiB", limits[uint64]{64 << 10, 256 << 20},
			"Longest request line; a longer one ends the connection.",
			func(c *Config) *uint64 { return &c.Masenko.MaxLine }),
		sizeKey("masenko.max_payload", "8MiB", limits[uint64]{64 << 10, 256 << 20},
			"Largest payload of a task; a push of a larger one is refused.",
			func(c *Config) *uint64 { return &c.Masenko.MaxPayload }),
		sizeKey("masenko.max_atomic", "32MiB", limits[uint64]{64 << 10, 1 << 30},
			"Largest transaction, all its lines together.",
			func(c *Config) *uint64 { return &c.Masenko.MaxAtomic }),
		durationKey("masenko.write_timeout", "30s", limits[time.Duration]{time.Second, time.Hour},
			"A client that does not take its replies for this long is disconnected.",
			func(c *Config) *time.Duration { return &c.Masenko.WriteTimeout }),
	}
	keys = append(keys, tlsKeys("masenko", func(c *Config) *TLS { return &c.Masenko.TLS })...)
	return block{keys: keys, listeners: masenkoListeners, originals: masenkoOriginals()}
}

func masenkoListeners(c *Config) []Listener {
	m := &c.Masenko
	var out []Listener
	for _, a := range m.Addr {
		out = append(out, Listener{
			Protocol: "masenko", Key: Key{Name: "masenko.addr"}, Addr: a.HostPort, Namespace: or(a.Namespace, m.Namespace),
			TLS: m.TLS, Authenticated: m.TLS.ClientCA != "",
		})
	}
	for _, a := range m.MetricsAddr {
		out = append(out, Listener{
			Protocol: "masenko", Role: RoleMetrics, Key: Key{Name: "masenko.metrics_addr"}, Addr: a.HostPort,
			Namespace: or(a.Namespace, m.Namespace),
		})
	}
	return out
}

// masenkoOriginals are the variables of the original server, so that a script
// that started it starts this one.
func masenkoOriginals() []original {
	return []original{
		{
			variable: "MASENKO_STORE_DIR", key: "data.dir",
			advice: "jobs of the original server are not read, and its files must not lie in that directory",
		},
		{variable: "MASENKO_LISTEN_TCP", key: "masenko.addr"},
		{variable: "MASENKO_LISTEN_PROMETHEUS", key: "masenko.metrics_addr"},
		{variable: "MASENKO_HEARTBEAT", key: "masenko.heartbeat"},
		{
			variable: "MASENKO_MAX_WAL_SIZE",
			check: func(text string) error {
				if _, err := strconv.ParseUint(text, 10, 64); err != nil {
					return fmt.Errorf("%q is not a whole number of bytes", text)
				}
				return nil
			},
			advice: "the store compacts itself; remove the variable",
		},
	}
}
