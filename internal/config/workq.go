package config

import "time"

// Workq is the configuration of the Workq protocol.
type Workq struct {
	Addr           Addresses
	Namespace      string
	MaxConnections int
	MaxLine        uint64
	MaxPayload     uint64
	DefaultTTR     time.Duration
	WriteTimeout   time.Duration
	TLS            TLS
}

func workqBlock() block {
	keys := []Key{
		addressesKey("workq.addr", "127.0.0.1:9922",
			`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas, `+
				`and "=name" behind one binds it to another namespace: "127.0.0.1:9922, 127.0.0.1:9923=tenant-b".`,
			func(c *Config) *Addresses { return &c.Workq.Addr }),
		namespaceKey("workq.namespace",
			"Namespace of the addresses that do not name one.",
			func(c *Config) *string { return &c.Workq.Namespace }),
		intKey("workq.max_connections", 10000, limits[int]{1, 1 << 20},
			"Open connections at a time, per namespace; more are refused.",
			func(c *Config) *int { return &c.Workq.MaxConnections }),
		sizeKey("workq.max_line", "1MiB", limits[uint64]{64 << 10, 16 << 20},
			"Longest command line; a longer one ends the connection.",
			func(c *Config) *uint64 { return &c.Workq.MaxLine }),
		sizeKey("workq.max_payload", "1MiB", limits[uint64]{1 << 10, 64 << 20},
			"Largest payload and largest result of a job; a larger one is refused.",
			func(c *Config) *uint64 { return &c.Workq.MaxPayload }),
		durationKey("workq.default_ttr", "30m", limits[time.Duration]{time.Second, 24 * time.Hour},
			"Time to run of a job that another protocol pushed without one: after it the job is leased again to somebody else.",
			func(c *Config) *time.Duration { return &c.Workq.DefaultTTR }),
		durationKey("workq.write_timeout", "30s", limits[time.Duration]{time.Second, time.Hour},
			"A client that does not take its replies for this long is disconnected.",
			func(c *Config) *time.Duration { return &c.Workq.WriteTimeout }),
	}
	keys = append(keys, tlsKeys("workq", func(c *Config) *TLS { return &c.Workq.TLS })...)
	return block{keys: keys, listeners: workqListeners}
}

func workqListeners(c *Config) []Listener {
	w := &c.Workq
	var out []Listener
	for _, a := range w.Addr {
		out = append(out, Listener{
			Protocol: "workq", Key: Key{Name: "workq.addr"}, Addr: a.HostPort, Namespace: or(a.Namespace, w.Namespace),
			TLS: w.TLS, Authenticated: w.TLS.ClientCA != "",
		})
	}
	return out
}
