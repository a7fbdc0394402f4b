package faktory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"millrace/internal/config"
	"millrace/internal/dialect"
)

// name is that of the protocol in settings, metrics and logs.
const name = "faktory"

// Settings are what an operator can set.
type Settings struct {
	config.Protocol
	Options
	Environment  string
	SkipPassword bool
	ConfigDir    string

	// Ignored are what the original's files say that has no meaning here.
	Ignored []string
}

// SettingsOf returns those of a configuration.
func SettingsOf(c *config.Config) *Settings { return config.Of[Settings](c, name) }

func settings(c *config.Config) *Settings { return SettingsOf(c) }

// Spec describes the protocol to the server.
func Spec() dialect.Spec {
	return dialect.Spec{New: serve, Spec: config.Spec{
		Name: name, Settings: func() any { return new(Settings) }, Keys: settingKeys(), Listeners: listeners,
		Decisive: []string{"faktory.namespace", "faktory.environment", "faktory.max_line", "faktory.dead_max"},
		Alike:    []string{"faktory.max_connections", "faktory.password", "faktory.skip_password"},
		Original: original, Check: check, Password: passwordKey,
		Originals: []config.Original{
			{Variable: "FAKTORY_PASSWORD", Key: passwordKey},
			{Variable: "FAKTORY_ENV", Key: "faktory.environment"},
			{Variable: "FAKTORY_SKIP_PASSWORD", Key: "faktory.skip_password"},
			{Variable: "DD_DOGSTATSD_URL", Key: "statsd.addr"},
		},
	}}
}

// serve makes what serves the listeners of a namespace.
func serve(h *dialect.Host) (dialect.Service, error) {
	s := settings(h.Config)
	for _, key := range s.Ignored {
		h.Logger.Warn("setting of the original server ignored", slog.String("dialect", name), slog.String("key", key))
	}
	o := s.Options
	o.Options, o.Throttle, o.Version = h.Common(&s.Protocol), h.Logins, h.Version
	return dialect.Service{Dialect: New(o)}, nil
}

const (
	passwordKey = "faktory.password"
	// originalDir is the configuration directory of the original in production.
	originalDir = "/etc/faktory"
	// environmentOpen is the environment that needs no password.
	environmentOpen = "development"
)

var common = config.Common{Name: name, At: func(c *config.Config) *config.Protocol { return &settings(c).Protocol }}

func settingKeys() []config.Key {
	keys := []config.Key{
		common.Addr(7419, 7421),
		common.Namespace(""),
	}
	keys = append(keys, passwordKeys()...)
	keys = append(keys,
		config.ChoiceKey("faktory.environment", environmentOpen, []string{environmentOpen, "staging", "production"},
			"What the server is for. Staging and production need a password.",
			func(c *config.Config) *string { return &settings(c).Environment }),
		config.BoolKey("faktory.skip_password",
			"Allow no password in staging and production.",
			func(c *config.Config) *bool { return &settings(c).SkipPassword }),
		config.PathKey("faktory.config_dir", "",
			"Configuration directory of the original server: password, binding, cron entries, throttles and statsd "+
				"in its conf.d/*.toml are taken over, and private.key.pem with public.cert.pem turn TLS on.",
			func(c *config.Config) *string { return &settings(c).ConfigDir }),
		common.Connections(10000, config.PerNamespace),
		config.SizeKey("faktory.max_line", "64MiB", 64<<10, 1<<30,
			"Longest command line, and so the largest job; a longer one ends the connection.",
			func(c *config.Config) *int { return &settings(c).MaxLine }),
		config.IntKey("faktory.dead_max", 1000000, 1, 1<<31-1,
			"Dead jobs that are kept of a queue; beyond it the oldest are dropped.",
			func(c *config.Config) *uint32 { return &settings(c).DeadMax }),
		common.WriteTimeout("replies"),
	)
	return append(keys, common.TLS()...)
}

// passwordKeys are a secret and its file. As in the original, a secret that begins
// with a slash names a file, too.
func passwordKeys() []config.Key {
	keys := config.SecretKeys(passwordKey,
		"Password that clients must know; empty lets everybody in. One that begins with a slash is the path of a "+
			"file that holds it.",
		func(c *config.Config) *string { return &settings(c).Password })
	keys[0] = config.Parsed(keys[0], func(text string) (string, error) {
		if !strings.HasPrefix(text, "/") {
			return text, nil
		}
		secret, err := config.ReadSecret(text)
		return strings.TrimSpace(secret), err
	})
	return keys
}

func listeners(c *config.Config) []config.Listener {
	return common.Listeners(c, settings(c).Password != "", "set a password with "+passwordKey)
}

// check makes sure that there is a password where there must be one.
func check(l *config.Loader) {
	f := settings(l.Config())
	if f.Environment == environmentOpen || f.Password != "" || f.SkipPassword || len(f.Addr) == 0 {
		return
	}
	path := filepath.Join(cmp.Or(f.ConfigDir, originalDir), "password")
	secret, err := config.ReadSecret(path)
	switch {
	case err == nil:
		f.Password = strings.TrimSpace(secret)
		l.SetSecret(passwordKey, config.Source{Layer: config.LayerOriginal, Name: path})
	case errors.Is(err, fs.ErrNotExist):
		l.Problem("faktory requires a password to be set in staging or production: set %s, write it to %s, or allow "+
			"none with faktory.skip_password = true", passwordKey, path)
	default:
		l.Problem("%s: %s", passwordKey, fmt.Errorf("read %s: %w", path, err))
	}
}
