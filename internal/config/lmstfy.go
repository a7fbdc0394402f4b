package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Lmstfy is the configuration of the LMSTFY protocol.
type Lmstfy struct {
	Protocol
	AdminAddr      Addresses
	Auth           string
	Original       string // path of a configuration file of the original server
	Pools          []string
	Accounts       map[string]string // passwords by user
	DefaultTTL     time.Duration
	DefaultDelay   time.Duration
	DefaultTries   int
	DefaultTTR     time.Duration
	DefaultTimeout time.Duration
	AccessLog      bool
	MaxBody        uint64
	MaxHeader      uint64
	ReadTimeout    time.Duration
	IdleTimeout    time.Duration

	// Ignored are the keys of the original's file that mean nothing here.
	Ignored []string
}

// RoleAdmin is the role of a listener that serves a protocol's own admin API over
// HTTP.
const RoleAdmin = "admin"

// The ways to tell LMSTFY clients apart.
const (
	authOff   = "off"
	authToken = "token"
)

// lmstfySecondsMax is the longest time that the protocol has a number for.
const lmstfySecondsMax = (1<<32 - 1) * time.Second

var lmstfyCommon = protocol{"lmstfy", func(c *Config) *Protocol { return &c.Lmstfy.Protocol }}

func lmstfyBlock() block {
	keys := []Key{
		withoutNamespace(addressesKey("lmstfy.addr", "127.0.0.1:7777",
			`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas. The namespace is in the path of a request.`,
			func(c *Config) *Addresses { return &c.Lmstfy.Addr })),
		withoutNamespace(addressesKey("lmstfy.admin_addr", "127.0.0.1:7778",
			"Address of the admin API: tokens, limits, metrics, profiler. It has no TLS.",
			func(c *Config) *Addresses { return &c.Lmstfy.AdminAddr })),
		choiceKey("lmstfy.auth", authOff, []string{authOff, authToken},
			"Whether clients need a token, which the admin API gives out. Without tokens every namespace is open to everybody, which is allowed on loopback only.",
			func(c *Config) *string { return &c.Lmstfy.Auth }),
		pathKey("lmstfy.config", "",
			"TOML file of the original server. What it sets holds unless it is set here, too; it also turns tokens on.",
			func(c *Config) *string { return &c.Lmstfy.Original }),
		poolsKey("lmstfy.pools",
			`Names of key spaces besides "default", separated by commas. The token "cold:t" is the token t of the pool cold.`),
	}
	keys = append(keys, parsedSecretKeys("lmstfy.admin_accounts",
		"Accounts of the admin API as user:password, separated by blanks or line ends. With any, tokens and limits are only for them.",
		func(c *Config) *map[string]string { return &c.Lmstfy.Accounts }, parseAccounts)...)
	keys = append(keys,
		secondsKey("lmstfy.default_ttl", "24h", "Time to live of a job that is published without one; 0s is for ever.",
			func(c *Config) *time.Duration { return &c.Lmstfy.DefaultTTL }),
		secondsKey("lmstfy.default_delay", "0s", "Delay of a job that is published without one.",
			func(c *Config) *time.Duration { return &c.Lmstfy.DefaultDelay }),
		intKey("lmstfy.default_tries", 1, limits[int]{1, 1<<16 - 1}, "Tries of a job that is published without a number of them.",
			func(c *Config) *int { return &c.Lmstfy.DefaultTries }),
		secondsKey("lmstfy.default_ttr", "2m", "Time to run of a job that is consumed without one.",
			func(c *Config) *time.Duration { return &c.Lmstfy.DefaultTTR }),
		secondsKey("lmstfy.default_timeout", "0s", "How long a consumer waits that does not say so.",
			func(c *Config) *time.Duration { return &c.Lmstfy.DefaultTimeout }),
		boolKey("lmstfy.access_log", "Log every request. The admin API turns it on and off, too.",
			func(c *Config) *bool { return &c.Lmstfy.AccessLog }),
		lmstfyCommon.connections(20000, ""),
		sizeKey("lmstfy.max_body", "65535", limits[uint64]{1, 64 << 20},
			"Largest job; a larger one is refused. 1MiB is what the newest original servers allow.",
			func(c *Config) *uint64 { return &c.Lmstfy.MaxBody }),
		sizeKey("lmstfy.max_header", "32KiB", limits[uint64]{4 << 10, 1 << 20}, "Largest head of a request, path and headers together.",
			func(c *Config) *uint64 { return &c.Lmstfy.MaxHeader }),
		durationKey("lmstfy.read_timeout", "30s", limits[time.Duration]{time.Second, time.Hour}, "A request that has not arrived in this time ends its connection.",
			func(c *Config) *time.Duration { return &c.Lmstfy.ReadTimeout }),
		lmstfyCommon.writeTimeout("answer"),
		durationKey("lmstfy.idle_timeout", "5m", limits[time.Duration]{time.Second, 24 * time.Hour}, "A connection without a request for this long is closed.",
			func(c *Config) *time.Duration { return &c.Lmstfy.IdleTimeout }),
	)
	keys = append(keys, lmstfyCommon.tls()...)
	return block{keys: keys, listeners: lmstfyListeners, original: lmstfyOriginal}
}

// withoutNamespace has a key refuse addresses with a namespace.
func withoutNamespace(k Key) Key {
	set := k.set
	k.set = func(c *Config, text string) error {
		if strings.ContainsRune(text, '=') {
			return errors.New(`the namespace is in the path of a request, not with the address: leave "=" and what follows out`)
		}
		return set(c, text)
	}
	return k
}

// secondsKey is a duration of whole seconds, because the protocol has no others.
func secondsKey(name, def, doc string, at func(*Config) *time.Duration) Key {
	k := durationKey(name, def, limits[time.Duration]{0, lmstfySecondsMax}, doc, at)
	set := k.set
	k.set = func(c *Config, text string) error {
		if err := set(c, text); err != nil {
			return err
		}
		if d := *at(c); d%time.Second != 0 {
			return fmt.Errorf("%s is not a whole number of seconds", d)
		}
		return nil
	}
	return k
}

func poolsKey(name, doc string) Key {
	value := func(c *Config) any { return c.Lmstfy.Pools }
	return Key{Name: name, Doc: doc, Kind: KindString, value: value, set: func(c *Config, text string) error {
		c.Lmstfy.Pools = nil
		for item := range strings.SplitSeq(text, ",") {
			item = strings.TrimSpace(item)
			if item == "" {
				continue
			}
			if err := checkNamespace(item); err != nil || strings.ContainsRune(item, '.') {
				return fmt.Errorf("%q is no name of a pool: use letters, digits, '-' and '_'", item)
			}
			c.Lmstfy.Pools = append(c.Lmstfy.Pools, item)
		}
		return nil
	}}
}

// parseAccounts reads user:password entries. What is wrong is not quoted: it may be a
// password.
func parseAccounts(text string) (map[string]string, error) {
	entries := strings.Fields(text)
	if len(entries) == 0 {
		return nil, nil
	}
	accounts := make(map[string]string, len(entries))
	for i, entry := range entries {
		user, password, ok := strings.Cut(entry, ":")
		if !ok || user == "" || password == "" {
			return nil, fmt.Errorf("entry %d is not user:password", i+1)
		}
		accounts[user] = password
	}
	return accounts, nil
}

func lmstfyListeners(c *Config) []Listener {
	m := &c.Lmstfy
	admin := Listener{
		Protocol: "lmstfy", Role: RoleAdmin, Key: Key{Name: "lmstfy.admin_addr"}, Authenticated: len(m.Accounts) > 0,
		Remedy: "ask for passwords with lmstfy.admin_accounts",
	}
	return append(lmstfyCommon.listeners(c, m.Auth == authToken, "ask for tokens with lmstfy.auth = token"), admin.at(m.AdminAddr, "")...)
}
