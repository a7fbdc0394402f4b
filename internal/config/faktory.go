package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Faktory is the configuration of the Faktory work protocol.
type Faktory struct {
	Protocol
	Password     string
	Environment  string
	SkipPassword bool
	ConfigDir    string
	MaxLine      uint64
	DeadMax      int

	// Ignored are what the original's files say that has no meaning here.
	Ignored []string
}

const (
	faktoryPassword = "faktory.password"
	// faktoryDir is the configuration directory of the original in production.
	faktoryDir = "/etc/faktory"
	// faktoryOpen is the environment that needs no password.
	faktoryOpen = "development"
)

var faktoryCommon = protocol{"faktory", func(c *Config) *Protocol { return &c.Faktory.Protocol }}

func faktoryBlock() block {
	keys := []Key{
		faktoryCommon.addr(7419, 7421),
		faktoryCommon.namespace(""),
	}
	keys = append(keys, faktoryPasswordKeys()...)
	keys = append(keys,
		choiceKey("faktory.environment", faktoryOpen, []string{faktoryOpen, "staging", "production"},
			"What the server is for. Staging and production need a password.",
			func(c *Config) *string { return &c.Faktory.Environment }),
		boolKey("faktory.skip_password",
			"Allow no password in staging and production.",
			func(c *Config) *bool { return &c.Faktory.SkipPassword }),
		pathKey("faktory.config_dir", "",
			"Configuration directory of the original server: password, binding and cron entries in its conf.d/*.toml are taken over, and private.key.pem with public.cert.pem turn TLS on.",
			func(c *Config) *string { return &c.Faktory.ConfigDir }),
		faktoryCommon.connections(10000, perNamespace),
		sizeKey("faktory.max_line", "64MiB", limits[uint64]{64 << 10, 1 << 30},
			"Longest command line, and so the largest job; a longer one ends the connection.",
			func(c *Config) *uint64 { return &c.Faktory.MaxLine }),
		intKey("faktory.dead_max", 1000000, limits[int]{1, 1<<31 - 1},
			"Dead jobs that are kept of a queue; beyond it the oldest are dropped.",
			func(c *Config) *int { return &c.Faktory.DeadMax }),
		faktoryCommon.writeTimeout("replies"),
	)
	keys = append(keys, faktoryCommon.tls()...)
	return block{
		keys: keys, listeners: faktoryListeners, original: faktoryOriginal, check: checkFaktory,
		originals: []original{
			{variable: "FAKTORY_PASSWORD", key: faktoryPassword},
			{variable: "FAKTORY_ENV", key: "faktory.environment"},
			{variable: "FAKTORY_SKIP_PASSWORD", key: "faktory.skip_password"},
		},
	}
}

// faktoryPasswordKeys are a secret and its file. As in the original, a secret that begins
// with a slash names a file, too.
func faktoryPasswordKeys() []Key {
	at := func(c *Config) *string { return &c.Faktory.Password }
	keys := secretKeys(faktoryPassword,
		"Password that clients must know; empty lets everybody in. One that begins with a slash is the path of a file that holds it.", at)
	keys[0].set = func(c *Config, text string) error {
		if strings.HasPrefix(text, "/") {
			secret, err := readSecret(text)
			if err != nil {
				return err
			}
			text = strings.TrimSpace(secret)
		}
		*at(c) = text
		return nil
	}
	return keys
}

func faktoryListeners(c *Config) []Listener {
	return faktoryCommon.listeners(c, c.Faktory.Password != "", "set a password with "+faktoryPassword)
}

// checkFaktory makes sure that there is a password where there must be one.
func checkFaktory(l *loader) {
	f := &l.config.Faktory
	if f.Environment == faktoryOpen || f.Password != "" || f.SkipPassword || len(f.Addr) == 0 {
		return
	}
	path := filepath.Join(or(f.ConfigDir, faktoryDir), "password")
	secret, err := readSecret(path)
	switch {
	case err == nil:
		f.Password = strings.TrimSpace(secret)
		k, _ := l.table.byName(faktoryPassword)
		l.settings[faktoryPassword] = Setting{Key: k, Source: Source{Layer: LayerOriginal, Name: path}, text: secretMask}
	case errors.Is(err, fs.ErrNotExist):
		l.problem("faktory requires a password to be set in staging or production: set %s, write it to %s, or allow none with faktory.skip_password = true", faktoryPassword, path)
	default:
		l.problem("%s: %s", faktoryPassword, fmt.Errorf("read %s: %w", path, err))
	}
}
