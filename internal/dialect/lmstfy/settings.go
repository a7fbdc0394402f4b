package lmstfy

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"millrace/internal/auth"
	"millrace/internal/config"
	"millrace/internal/dialect"
)

// name is that of the protocol in settings, metrics and logs.
const name = "lmstfy"

// Settings are what an operator can set.
type Settings struct {
	config.Protocol
	Options
	AdminAddr config.Addresses
	AuthBy    string
	Original  string // path of a configuration file of the original server

	// Ignored are the keys of the original's file that mean nothing here.
	Ignored []string
}

func settings(c *config.Config) *Settings { return config.Of[Settings](c, name) }

// Spec describes the protocol to the server.
func Spec() dialect.Spec {
	return dialect.Spec{New: serve, Spec: config.Spec{
		Name: name, Settings: func() any { return new(Settings) }, Keys: settingKeys(), Listeners: listeners,
		Original: original,
		Decisive: []string{
			"lmstfy.auth", "lmstfy.pools", "lmstfy.default_ttl", "lmstfy.default_delay", "lmstfy.default_tries",
			"lmstfy.default_ttr", "lmstfy.max_body",
		},
		Alike: []string{
			"lmstfy.max_connections", "lmstfy.default_timeout", "lmstfy.admin_accounts",
			"lmstfy.max_header",
		},
	}}
}

// serve makes what serves all listeners: namespaces are in the requests.
func serve(h *dialect.Host) (dialect.Service, error) {
	s := settings(h.Config)
	for _, key := range s.Ignored {
		h.Logger.Warn("setting of the original server ignored", slog.String("file", s.Original),
			slog.String("key", key))
	}
	o := s.Options
	o.Options, o.Throttle, o.Version = h.Common(&s.Protocol), h.Logins, h.Version
	o.Auth = s.AuthBy == authToken
	o.Site = h.Site(auth.SiteOptions{AnyHost: o.Auth || s.TLS.ClientCA != "", Strict: true})
	o.AdminSite = h.Site(auth.SiteOptions{AnyHost: len(o.Accounts) > 0, Strict: true})
	d := New(o)
	return dialect.Service{Dialect: d, HTTP: map[string]http.Handler{config.RoleAdmin: d.AdminHandler()}}, nil
}

// The ways to tell clients apart.
const (
	authOff   = "off"
	authToken = "token"
)

var common = config.Common{Name: name, At: func(c *config.Config) *config.Protocol { return &settings(c).Protocol }}

func settingKeys() []config.Key {
	keys := []config.Key{
		config.WithoutNamespace(config.AddressesKey("lmstfy.addr", "127.0.0.1:7777",
			`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas. The namespace is in the path of a request.`,
			func(c *config.Config) *config.Addresses { return &settings(c).Addr })),
		config.WithoutNamespace(config.AddressesKey("lmstfy.admin_addr", "127.0.0.1:7778",
			"Address of the admin API: tokens, limits, metrics, profiler. It has no TLS.",
			func(c *config.Config) *config.Addresses { return &settings(c).AdminAddr })),
		config.ChoiceKey("lmstfy.auth", authOff, []string{authOff, authToken},
			"Whether clients need a token, which the admin API gives out. Without tokens every namespace is open to "+
				"everybody, which is allowed on loopback only.",
			func(c *config.Config) *string { return &settings(c).AuthBy }),
		config.PathKey("lmstfy.config", "",
			"TOML file of the original server. What it sets holds unless it is set here, too; it also turns tokens on.",
			func(c *config.Config) *string { return &settings(c).Original }),
		config.NamesKey("lmstfy.pools",
			`Names of key spaces besides "default", separated by commas. The token "cold:t" is the token t of the pool cold.`,
			checkPool, func(c *config.Config) *[]string { return &settings(c).Pools }),
	}
	keys = append(keys, config.AccountsKeys("lmstfy.admin_accounts",
		"Accounts of the admin API as user:password, separated by blanks or line ends. With any, tokens and limits "+
			"are only for them.",
		func(c *config.Config) *map[string]string { return &settings(c).Accounts })...)
	keys = append(keys,
		config.SecondsKey("lmstfy.default_ttl", "24h",
			"Time to live of a job that is published without one; 0s is for ever.",
			func(c *config.Config) *uint32 { return &settings(c).Defaults.TTL }),
		config.SecondsKey("lmstfy.default_delay", "0s", "Delay of a job that is published without one.",
			func(c *config.Config) *uint32 { return &settings(c).Defaults.Delay }),
		config.IntKey("lmstfy.default_tries", 1, 1, 1<<16-1,
			"Tries of a job that is published without a number of them.",
			func(c *config.Config) *uint16 { return &settings(c).Defaults.Tries }),
		config.SecondsKey("lmstfy.default_ttr", "2m", "Time to run of a job that is consumed without one.",
			func(c *config.Config) *uint32 { return &settings(c).Defaults.TTR }),
		config.SecondsKey("lmstfy.default_timeout", "0s", "How long a consumer waits that does not say so.",
			func(c *config.Config) *uint32 { return &settings(c).Defaults.Timeout }),
		config.BoolKey("lmstfy.access_log", "Log every request. The admin API turns it on and off, too.",
			func(c *config.Config) *bool { return &settings(c).AccessLog }),
		common.Connections(20000, ""),
		config.SizeKey("lmstfy.max_body", "65535", 1, 64<<20,
			"Largest job; a larger one is refused. 1MiB is what the newest original servers allow.",
			func(c *config.Config) *int { return &settings(c).MaxBody }),
		config.SizeKey("lmstfy.max_header", "32KiB", 4<<10, 1<<20,
			"Largest head of a request, path and headers together.",
			func(c *config.Config) *int { return &settings(c).MaxHeader }),
		config.DurationKey("lmstfy.read_timeout", "30s", time.Second, time.Hour,
			"A request that has not arrived in this time ends its connection.",
			func(c *config.Config) *time.Duration { return &settings(c).ReadTimeout }),
		common.WriteTimeout("answer"),
		config.DurationKey("lmstfy.idle_timeout", "5m", time.Second, 24*time.Hour,
			"A connection without a request for this long is closed.",
			func(c *config.Config) *time.Duration { return &settings(c).IdleTimeout }),
	)
	return append(keys, common.TLS()...)
}

// checkPool refuses what cannot be the name of a pool.
func checkPool(name string) error {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" ||
		len(name) > poolNameMax {
		return fmt.Errorf("%q is not the name of a pool: use letters, digits, '-' and '_'", name)
	}
	return nil
}

// poolNameMax is the length of the longest name of a pool in bytes.
const poolNameMax = 255

func listeners(c *config.Config) []config.Listener {
	m := settings(c)
	admin := config.Listener{
		Protocol: name, Role: config.RoleAdmin, Key: config.Key{Name: "lmstfy.admin_addr"},
		Authenticated: len(m.Accounts) > 0,
		Remedy:        "ask for passwords with lmstfy.admin_accounts",
	}
	return append(common.Listeners(c, m.AuthBy == authToken, "ask for tokens with lmstfy.auth = token"),
		admin.At(m.AdminAddr, "")...)
}
