package workq

import (
	"time"

	"millrace/internal/config"
	"millrace/internal/dialect"
)

// name is that of the protocol in settings, metrics and logs.
const name = "workq"

// Settings are what an operator can set.
type Settings struct {
	config.Protocol
	Options
}

func settings(c *config.Config) *Settings { return config.Of[Settings](c, name) }

// Spec describes the protocol to the server.
func Spec() dialect.Spec {
	return dialect.Spec{New: serve, Spec: config.Spec{
		Name: name, Settings: func() any { return new(Settings) }, Keys: settingKeys(), Listeners: listeners,
		Decisive: []string{"workq.namespace", "workq.max_line", "workq.max_payload", "workq.default_ttr"},
		Alike:    []string{"workq.max_connections"},
	}}
}

// serve makes what serves the listeners of a namespace.
func serve(h *dialect.Host) (dialect.Service, error) {
	s := settings(h.Config)
	o := s.Options
	o.Options = h.Common(&s.Protocol)
	return dialect.Service{Dialect: New(o)}, nil
}

var common = config.Common{Name: name, At: func(c *config.Config) *config.Protocol { return &settings(c).Protocol }}

func settingKeys() []config.Key {
	keys := []config.Key{
		common.Addr(9922, 9923),
		common.Namespace(""),
		common.Connections(10000, config.PerNamespace),
		config.SizeKey("workq.max_line", "1MiB", 64<<10, 16<<20,
			"Longest command line; a longer one ends the connection.",
			func(c *config.Config) *int { return &settings(c).MaxLine }),
		config.SizeKey("workq.max_payload", "1MiB", 1<<10, 64<<20,
			"Largest payload and largest result of a job; a larger one is refused.",
			func(c *config.Config) *int { return &settings(c).MaxPayload }),
		config.DurationKey("workq.default_ttr", "30m", time.Second, 24*time.Hour,
			"Time to run of a job that another protocol pushed without one: after it the job is leased again "+
				"to somebody else.",
			func(c *config.Config) *time.Duration { return &settings(c).DefaultTTR }),
		common.WriteTimeout("replies"),
	}
	return append(keys, common.TLS()...)
}

func listeners(c *config.Config) []config.Listener {
	return common.Listeners(c, false, "")
}
