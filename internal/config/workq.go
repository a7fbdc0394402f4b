package config

import "time"

// Workq is the configuration of the Workq protocol.
type Workq struct {
	Protocol
	MaxLine    uint64
	MaxPayload uint64
	DefaultTTR time.Duration
}

var workqCommon = protocol{"workq", func(c *Config) *Protocol { return &c.Workq.Protocol }}

func workqBlock() block {
	keys := []Key{
		workqCommon.addr(9922, 9923),
		workqCommon.namespace(""),
		workqCommon.connections(10000, perNamespace),
		sizeKey("workq.max_line", "1MiB", limits[uint64]{64 << 10, 16 << 20},
			"Longest command line; a longer one ends the connection.",
			func(c *Config) *uint64 { return &c.Workq.MaxLine }),
		sizeKey("workq.max_payload", "1MiB", limits[uint64]{1 << 10, 64 << 20},
			"Largest payload and largest result of a job; a larger one is refused.",
			func(c *Config) *uint64 { return &c.Workq.MaxPayload }),
		durationKey("workq.default_ttr", "30m", limits[time.Duration]{time.Second, 24 * time.Hour},
			"Time to run of a job that another protocol pushed without one: after it the job is leased again to somebody else.",
			func(c *Config) *time.Duration { return &c.Workq.DefaultTTR }),
		workqCommon.writeTimeout("replies"),
	}
	keys = append(keys, workqCommon.tls()...)
	return block{keys: keys, listeners: workqListeners}
}

func workqListeners(c *Config) []Listener {
	return workqCommon.listeners(c, false, "")
}
