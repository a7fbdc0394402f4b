package config

// Beanstalkd is the configuration of the beanstalkd protocol.
type Beanstalkd struct {
	Protocol
	MaxJobSize uint64
}

var beanstalkdCommon = protocol{"beanstalkd", func(c *Config) *Protocol { return &c.Beanstalkd.Protocol }}

func beanstalkdBlock() block {
	keys := []Key{
		beanstalkdCommon.addr(11300, 11301),
		beanstalkdCommon.namespace(""),
		beanstalkdCommon.connections(10000, perNamespace),
		sizeKey("beanstalkd.max_job_size", "65535", limits[uint64]{1, 64 << 20},
			"Largest body of a job; a larger one is refused.",
			func(c *Config) *uint64 { return &c.Beanstalkd.MaxJobSize }),
		beanstalkdCommon.writeTimeout("replies"),
	}
	keys = append(keys, beanstalkdCommon.tls()...)
	return block{keys: keys, listeners: beanstalkdListeners}
}

func beanstalkdListeners(c *Config) []Listener {
	return beanstalkdCommon.listeners(c, false, "")
}
