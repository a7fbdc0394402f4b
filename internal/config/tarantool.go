package config

import "time"

// Tarantool is the configuration of the Tarantool protocols.
type Tarantool struct {
	Addr           Addresses
	Addr15         Addresses
	Namespace      string
	Auth           string
	Users          map[string]string // passwords by user
	SessionTTR     time.Duration
	MaxConnections int
	MaxPacket      uint64
	MaxInFlight    int
	MaxWaiting     int
	WriteTimeout   time.Duration
	TLS            TLS
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

func tarantoolBlock() block {
	keys := []Key{
		addressesKey("tarantool.addr", "127.0.0.1:3301",
			`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas, `+
				`and "=name" behind one binds it to another namespace: "127.0.0.1:3301, 127.0.0.1:3302=tenant-b".`,
			func(c *Config) *Addresses { return &c.Tarantool.Addr }),
		namespaceKey("tarantool.namespace",
			"Namespace of the addresses that do not name one. Legacy calls with a space number N other than 0 go to the namespace space-N.",
			func(c *Config) *string { return &c.Tarantool.Namespace }),
		choiceKey("tarantool.auth", authGuest, []string{authGuest, authLogin},
			"Who may call procedures: everybody, or only who has logged in as one of tarantool.users.",
			func(c *Config) *string { return &c.Tarantool.Auth }),
	}
	keys = append(keys, usersKeys("tarantool.users",
		"Who may log in, as user:password, separated by blanks or line ends.")...)
	keys = append(keys,
		durationKey("tarantool.session_ttr", "0s", limits[time.Duration]{0, 24 * time.Hour},
			"How long the tasks of a queue session stay taken after its last connection has ended, until a client sets it with queue.cfg.",
			func(c *Config) *time.Duration { return &c.Tarantool.SessionTTR }),
		intKey("tarantool.max_connections", 20000, limits[int]{1, 1 << 20},
			"Open connections at a time, per namespace and protocol; more are refused.",
			func(c *Config) *int { return &c.Tarantool.MaxConnections }),
		sizeKey("tarantool.max_packet", "64MiB", limits[uint64]{64 << 10, 1 << 30},
			"Largest request; a larger one ends the connection.",
			func(c *Config) *uint64 { return &c.Tarantool.MaxPacket }),
		intKey("tarantool.max_in_flight", 768, limits[int]{1, 1 << 16},
			"Requests of one connection in progress at a time; the next ones are read when these are answered.",
			func(c *Config) *int { return &c.Tarantool.MaxInFlight }),
		intKey("tarantool.max_waiting", 10000, limits[int]{1, 1 << 24},
			"Calls of one connection that wait for a task or for room at a time, besides those in work; more are refused. server.max_waiting bounds those of all connections.",
			func(c *Config) *int { return &c.Tarantool.MaxWaiting }),
		durationKey("tarantool.write_timeout", "30s", limits[time.Duration]{time.Second, time.Hour},
			"A client that does not take its replies for this long is disconnected.",
			func(c *Config) *time.Duration { return &c.Tarantool.WriteTimeout }),
	)
	keys = append(keys, tlsKeys("tarantool", func(c *Config) *TLS { return &c.Tarantool.TLS })...)
	keys = append(keys, addressesKey("tarantool15.addr", AddressOff,
		"Address for clients of Tarantool 1.5, which speak another protocol; the port was 33013. It has neither TLS nor authentication.",
		func(c *Config) *Addresses { return &c.Tarantool.Addr15 }))
	return block{keys: keys, listeners: tarantoolListeners}
}

// usersKeys are a secret and its file, whose text is parsed.
func usersKeys(name, doc string) []Key {
	keys := secretKeys(name, doc, nil)
	keys[0].value = func(c *Config) any { return c.Tarantool.Users }
	keys[0].set = func(c *Config, text string) (err error) {
		c.Tarantool.Users, err = parseAccounts(text)
		return err
	}
	keys[1].set = func(c *Config, path string) error {
		if path == "" {
			return nil
		}
		text, err := readSecret(path)
		if err == nil {
			c.Tarantool.Users, err = parseAccounts(text)
		}
		return err
	}
	return keys
}

func tarantoolListeners(c *Config) []Listener {
	t := &c.Tarantool
	var out []Listener
	for _, a := range t.Addr {
		out = append(out, Listener{
			Protocol: "tarantool", Key: Key{Name: "tarantool.addr"}, Addr: a.HostPort, Namespace: or(a.Namespace, t.Namespace),
			TLS: t.TLS, Authenticated: t.TLS.ClientCA != "" || t.LoginRequired(),
			Remedy: "ask for passwords with tarantool.auth = login and tarantool.users",
		})
	}
	for _, a := range t.Addr15 {
		out = append(out, Listener{
			Protocol: "tarantool", Role: RoleTarantool15, Key: Key{Name: "tarantool15.addr"}, Addr: a.HostPort,
			Namespace: or(a.Namespace, t.Namespace),
		})
	}
	return out
}
