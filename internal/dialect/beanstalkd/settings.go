package beanstalkd

import (
	"millrace/internal/config"
	"millrace/internal/dialect"
)

// name is that of the protocol in settings, metrics and logs.
const name = "beanstalkd"

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
		Decisive: []string{"beanstalkd.namespace", "beanstalkd.max_job_size"},
		Alike:    []string{"beanstalkd.max_connections"},
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
		common.Addr(11300, 11301),
		common.Namespace(""),
		common.Connections(10000, config.PerNamespace),
		config.SizeKey("beanstalkd.max_job_size", "65535", 1, 64<<20,
			"Largest body of a job; a larger one is refused.",
			func(c *config.Config) *int { return &settings(c).MaxJob }),
		common.WriteTimeout("replies"),
	}
	return append(keys, common.TLS()...)
}

func listeners(c *config.Config) []config.Listener {
	return common.Listeners(c, false, "")
}
