package tarantool

import (
	"errors"
	"time"

	"millrace/internal/config"
	"millrace/internal/dialect"
)

// name is that of the protocol in settings, metrics and logs.
const name = "tarantool"

// Settings are what an operator can set.
type Settings struct {
	config.Protocol
	Options
	Addr15 config.Addresses
	Auth   string
}

func settings(c *config.Config) *Settings { return config.Of[Settings](c, name) }

// Spec describes the protocol to the server.
func Spec() dialect.Spec {
	return dialect.Spec{New: serve, Spec: config.Spec{
		Name: name, Settings: func() any { return new(Settings) }, Keys: settingKeys(), Listeners: listeners,
		Decisive: []string{"tarantool.namespace", "tarantool.auth", "tarantool.session_ttr", "tarantool.max_packet"},
		Alike: []string{
			"tarantool.max_connections", "tarantool.max_in_flight", "tarantool.max_waiting",
			"tarantool.users",
		},
	}}
}

// serve makes what serves the listeners of a namespace, of both wire protocols.
func serve(h *dialect.Host) (dialect.Service, error) {
	s := settings(h.Config)
	o := s.Options
	o.RequireLogin = s.Auth == authLogin
	if o.RequireLogin && len(o.Users) == 0 {
		return dialect.Service{}, errors.New("tarantool.auth is login, but tarantool.users is empty: " +
			"nobody could log in")
	}
	o.Options, o.Throttle = h.Common(&s.Protocol), h.Logins
	d := New(o)
	return dialect.Service{Dialect: d, Wires: map[string]*dialect.Server{name15: d.Box15()}}, nil
}

// Whom procedures are for.
const (
	authGuest = "guest"
	authLogin = "login"
)

var common = config.Common{Name: name, At: func(c *config.Config) *config.Protocol { return &settings(c).Protocol }}

func settingKeys() []config.Key {
	keys := []config.Key{
		common.Addr(3301, 3302),
		common.Namespace(" Legacy calls with a space number N other than 0 go to the namespace space-N."),
		config.ChoiceKey("tarantool.auth", authGuest, []string{authGuest, authLogin},
			"Who may call procedures: everybody, or only who has logged in as one of tarantool.users.",
			func(c *config.Config) *string { return &settings(c).Auth }),
	}
	keys = append(keys, config.AccountsKeys("tarantool.users",
		"Who may log in, as user:password, separated by blanks or line ends.",
		func(c *config.Config) *map[string]string { return &settings(c).Users })...)
	keys = append(keys,
		config.DurationKey("tarantool.session_ttr", "0s", 0, 24*time.Hour,
			"How long the tasks of a queue session stay taken after its last connection has ended, until a client "+
				"sets it with queue.cfg.",
			func(c *config.Config) *time.Duration { return &settings(c).SessionTTR }),
		common.Connections(20000, ", per namespace and protocol"),
		config.SizeKey("tarantool.max_packet", "64MiB", 64<<10, 1<<30,
			"Largest request; a larger one ends the connection.",
			func(c *config.Config) *int { return &settings(c).MaxPacket }),
		config.IntKey("tarantool.max_in_flight", 768, 1, 1<<16,
			"Requests of one connection in progress at a time; the next ones are read when these are answered.",
			func(c *config.Config) *int { return &settings(c).MaxInFlight }),
		config.IntKey("tarantool.max_waiting", 10000, 1, 1<<24,
			"Calls of one connection that wait for a task or for room at a time, besides those in work; more are "+
				"refused. server.max_waiting bounds those of all connections.",
			func(c *config.Config) *int { return &settings(c).MaxWaiting }),
		common.WriteTimeout("replies"),
	)
	keys = append(keys, common.TLS()...)
	keys = append(keys, config.AddressesKey("tarantool15.addr", config.AddressOff,
		"Address for clients of Tarantool 1.5, which speak another protocol; the port was 33013. It has neither TLS "+
			"nor authentication.",
		func(c *config.Config) *config.Addresses { return &settings(c).Addr15 }))
	return keys
}

func listeners(c *config.Config) []config.Listener {
	t := settings(c)
	box15 := config.Listener{Protocol: name, Role: name15, Key: config.Key{Name: "tarantool15.addr"}}
	main := common.Listeners(c, t.Auth == authLogin,
		"ask for passwords with tarantool.auth = login and tarantool.users")
	return append(main, box15.At(t.Addr15, t.Namespace)...)
}
