package config

import "time"

// Beanstalkd is the configuration of the beanstalkd protocol.
type Beanstalkd struct {
	Addr           Addresses
	Namespace      string
	MaxConnections int
	MaxJobSize     uint64
	WriteTimeout   time.Duration
	TLS            TLS
}

func beanstalkdBlock() block {
	keys := []Key{
		addressesKey("beanstalkd.addr", "127.0.0.1:11300",
			`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas, `+
				`and "=name" behind one binds it to another namespace: "127.0.0.1:11300, 127.0.0.1:11301=tenant-b".`,
			func(c *Config) *Addresses { return &c.Beanstalkd.Addr }),
		namespaceKey("beanstalkd.namespace",
			"Namespace of the addresses that do not name one.",
			func(c *Config) *string { return &c.Beanstalkd.Namespace }),
		intKey("beanstalkd.max_connections", 10000, limits[int]{1, 1 << 20},
			"Open connections at a time, per namespace; more are refused.",
			func(c *Config) *int { return &c.Beanstalkd.MaxConnections }),
		sizeKey("beanstalkd.max_job_size", "65535", limits[uint64]{1, 64 << 20},
			"Largest body of a job; a larger one is refused.",
			func(c *Config) *uint64 { return &c.Beanstalkd.MaxJobSize }),
		durationKey("beanstalkd.write_timeout", "30s", limits[time.Duration]{time.Second, time.Hour},
			"A client that does not take its replies for this long is disconnected.",
			func(c *Config) *time.Duration { return &c.Beanstalkd.WriteTimeout }),
	}
	keys = append(keys, tlsKeys("beanstalkd", func(c *Config) *TLS { return &c.Beanstalkd.TLS })...)
	return block{keys: keys, listeners: beanstalkdListeners}
}

func beanstalkdListeners(c *Config) []Listener {
	b := &c.Beanstalkd
	var out []Listener
	for _, a := range b.Addr {
		out = append(out, Listener{
			Protocol: "beanstalkd", Key: Key{Name: "beanstalkd.addr"}, Addr: a.HostPort, Namespace: or(a.Namespace, b.Namespace),
			TLS: b.TLS, Authenticated: b.TLS.ClientCA != "",
		})
	}
	return out
}
