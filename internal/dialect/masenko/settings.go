package masenko

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"millrace/internal/auth"
	"millrace/internal/config"
	"millrace/internal/dialect"
)

// name is that of the protocol in settings, metrics and logs.
const name = "masenko"

// Settings are what an operator can set.
type Settings struct {
	config.Protocol
	Options
	MetricsAddr config.Addresses
}

func settings(c *config.Config) *Settings { return config.Of[Settings](c, name) }

// Spec describes the protocol to the server.
func Spec() dialect.Spec {
	return dialect.Spec{New: serve, Spec: config.Spec{
		Name: name, Settings: func() any { return new(Settings) }, Keys: settingKeys(), Listeners: listeners,
		Originals: originals(),
		Decisive: []string{
			"masenko.namespace", "masenko.heartbeat", "masenko.max_line", "masenko.max_payload",
			"masenko.max_atomic",
		},
		Alike: []string{"masenko.max_connections"},
	}}
}

// serve makes what serves the listeners of a namespace.
func serve(h *dialect.Host) (dialect.Service, error) {
	s := settings(h.Config)
	o := s.Options
	o.Options = h.Common(&s.Protocol)
	d := New(o)
	metrics := h.Site(auth.SiteOptions{}).Handler(d.MetricsHandler())
	return dialect.Service{Dialect: d, HTTP: map[string]http.Handler{config.RoleMetrics: metrics}}, nil
}

var common = config.Common{Name: name, At: func(c *config.Config) *config.Protocol { return &settings(c).Protocol }}

func settingKeys() []config.Key {
	keys := []config.Key{
		common.Addr(12345, 12346),
		common.Namespace(""),
		config.DurationKey("masenko.heartbeat", "45s", time.Millisecond, 24*time.Hour,
			"A client that sends nothing for this long is disconnected and its tasks fail. Also the "+
				"longest FETCH timeout.",
			func(c *config.Config) *time.Duration { return &settings(c).Heartbeat }),
		config.AddressesKey("masenko.metrics_addr", config.AddressOff,
			"Address of the HTTP side interface that serves Masenko's own Prometheus metrics. It has neither TLS "+
				"nor authentication.",
			func(c *config.Config) *config.Addresses { return &settings(c).MetricsAddr }),
		common.Connections(10000, config.PerNamespace),
		config.SizeKey("masenko.max_line", "16MiB", 64<<10, 256<<20,
			"Longest request line; a longer one ends the connection.",
			func(c *config.Config) *int { return &settings(c).MaxLine }),
		config.SizeKey("masenko.max_payload", "8MiB", 64<<10, 256<<20,
			"Largest payload of a task; a push of a larger one is refused.",
			func(c *config.Config) *int { return &settings(c).MaxPayload }),
		config.SizeKey("masenko.max_atomic", "32MiB", 64<<10, 1<<30,
			"Largest transaction, all its lines together.",
			func(c *config.Config) *int { return &settings(c).MaxAtomic }),
		common.WriteTimeout("replies"),
	}
	return append(keys, common.TLS()...)
}

func listeners(c *config.Config) []config.Listener {
	metrics := config.Listener{Protocol: name, Role: config.RoleMetrics, Key: config.Key{Name: "masenko.metrics_addr"}}
	return append(common.Listeners(c, false, ""), metrics.At(settings(c).MetricsAddr, settings(c).Namespace)...)
}

// originals are the variables of the original server, so that a script
// that started it starts this one.
func originals() []config.Original {
	return []config.Original{
		{
			Variable: "MASENKO_STORE_DIR", Key: "data.dir",
			Advice: "jobs of the original server are not read, and its files must not lie in that directory",
		},
		{Variable: "MASENKO_LISTEN_TCP", Key: "masenko.addr"},
		{Variable: "MASENKO_LISTEN_PROMETHEUS", Key: "masenko.metrics_addr"},
		{Variable: "MASENKO_HEARTBEAT", Key: "masenko.heartbeat"},
		{
			Variable: "MASENKO_MAX_WAL_SIZE",
			Check: func(text string) error {
				if _, err := strconv.ParseUint(text, 10, 64); err != nil {
					return fmt.Errorf("%q is not a whole number of bytes", text)
				}
				return nil
			},
			Advice: "the store compacts itself; remove the variable",
		},
	}
}
