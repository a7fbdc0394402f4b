package config

import (
	"fmt"
	"strconv"
	"time"
)

// Masenko is the configuration of the Masenko protocol.
type Masenko struct {
	Protocol
	Heartbeat   time.Duration
	MetricsAddr Addresses
	MaxLine     uint64
	MaxPayload  uint64
	MaxAtomic   uint64
}

// RoleMetrics is the role of a listener that serves metrics over HTTP.
const RoleMetrics = "metrics"

var masenkoCommon = protocol{"masenko", func(c *Config) *Protocol { return &c.Masenko.Protocol }}

func masenkoBlock() block {
	keys := []Key{
		masenkoCommon.addr(12345, 12346),
		masenkoCommon.namespace(""),
		durationKey("masenko.heartbeat", "45s", limits[time.Duration]{time.Millisecond, 24 * time.Hour},
			"A client that sends nothing for this long is disconnected and its tasks fail. Also the longest FETCH timeout.",
			func(c *Config) *time.Duration { return &c.Masenko.Heartbeat }),
		addressesKey("masenko.metrics_addr", AddressOff,
			"Address of the HTTP side interface that serves Masenko's own Prometheus metrics. It has neither TLS nor authentication.",
			func(c *Config) *Addresses { return &c.Masenko.MetricsAddr }),
		masenkoCommon.connections(10000, perNamespace),
		sizeKey("masenko.max_line", "16MiB", limits[uint64]{64 << 10, 256 << 20},
			"Longest request line; a longer one ends the connection.",
			func(c *Config) *uint64 { return &c.Masenko.MaxLine }),
		sizeKey("masenko.max_payload", "8MiB", limits[uint64]{64 << 10, 256 << 20},
			"Largest payload of a task; a push of a larger one is refused.",
			func(c *Config) *uint64 { return &c.Masenko.MaxPayload }),
		sizeKey("masenko.max_atomic", "32MiB", limits[uint64]{64 << 10, 1 << 30},
			"Largest transaction, all its lines together.",
			func(c *Config) *uint64 { return &c.Masenko.MaxAtomic }),
		masenkoCommon.writeTimeout("replies"),
	}
	keys = append(keys, masenkoCommon.tls()...)
	return block{keys: keys, listeners: masenkoListeners, originals: masenkoOriginals()}
}

func masenkoListeners(c *Config) []Listener {
	metrics := Listener{Protocol: "masenko", Role: RoleMetrics, Key: Key{Name: "masenko.metrics_addr"}}
	return append(masenkoCommon.listeners(c, false, ""), metrics.at(c.Masenko.MetricsAddr, c.Masenko.Namespace)...)
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
