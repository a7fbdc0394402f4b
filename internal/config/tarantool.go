package config

import "time"

// Tarantool is the configuration of the Tarantool protocols.
type Tarantool struct {
	Protocol
	Addr15      Addresses
	Auth        string
	Users       map[string]string // passwords by user
	SessionTTR  time.Duration
	MaxPacket   uint64
	MaxInFlight int
	MaxWaiting  int
}

// RoleTarantool15 is the role of a listener that speaks the protocol of Tarantool 1.5.
const RoleTarantool15 = "tarantool15"

// Whom procedures are for.
const (
	authGuest = "guest"
	authLogin = "login"
)

// LoginRequired reports whether procedures are only for those who have logged in.
func (t *Tarantool) LoginRequired() bool { return t.Auth == authLogin }

var tarantoolCommon = protocol{"tarantool", func(c *Config) *Protocol { return &c.Tarantool.Protocol }}

func tarantoolBlock() block {
	keys := []Key{
		tarantoolCommon.addr(3301, 3302),
		tarantoolCommon.namespace(" Legacy calls with a space number N other than 0 go to the namespace space-N."),
		choiceKey("tarantool.auth", authGuest, []string{authGuest, authLogin},
			"Who may call procedures: everybody, or only who has logged in as one of tarantool.users.",
			func(c *Config) *string { return &c.Tarantool.Auth }),
	}
	keys = append(keys, parsedSecretKeys("tarantool.users",
		"Who may log in, as user:password, separated by blanks or line ends.",
		func(c *Config) *map[string]string { return &c.Tarantool.Users }, parseAccounts)...)
	keys = append(keys,
		durationKey("tarantool.session_ttr", "0s", limits[time.Duration]{0, 24 * time.Hour},
			"How long the tasks of a queue session stay taken after its last connection has ended, until a client sets it with queue.cfg.",
			func(c *Config) *time.Duration { return &c.Tarantool.SessionTTR }),
		tarantoolCommon.connections(20000, ", per namespace and protocol"),
		sizeKey("tarantool.max_packet", "64MiB", limits[uint64]{64 << 10, 1 << 30},
			"Largest request; a larger one ends the connection.",
			func(c *Config) *uint64 { return &c.Tarantool.MaxPacket }),
		intKey("tarantool.max_in_flight", 768, limits[int]{1, 1 << 16},
			"Requests of one connection in progress at a time; the next ones are read when these are answered.",
			func(c *Config) *int { return &c.Tarantool.MaxInFlight }),
		intKey("tarantool.max_waiting", 10000, limits[int]{1, 1 << 24},
			"Calls of one connection that wait for a task or for room at a time, besides those in work; more are refused. server.max_waiting bounds those of all connections.",
			func(c *Config) *int { return &c.Tarantool.MaxWaiting }),
		tarantoolCommon.writeTimeout("replies"),
	)
	keys = append(keys, tarantoolCommon.tls()...)
	keys = append(keys, addressesKey("tarantool15.addr", AddressOff,
		"Address for clients of Tarantool 1.5, which speak another protocol; the port was 33013. It has neither TLS nor authentication.",
		func(c *Config) *Addresses { return &c.Tarantool.Addr15 }))
	return block{keys: keys, listeners: tarantoolListeners}
}

func tarantoolListeners(c *Config) []Listener {
	t := &c.Tarantool
	box15 := Listener{Protocol: "tarantool", Role: RoleTarantool15, Key: Key{Name: "tarantool15.addr"}}
	main := tarantoolCommon.listeners(c, t.LoginRequired(), "ask for passwords with tarantool.auth = login and tarantool.users")
	return append(main, box15.at(t.Addr15, t.Namespace)...)
}
