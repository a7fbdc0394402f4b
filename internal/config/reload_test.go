package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "millrace/internal/config"
	"millrace/internal/server"
)

// Every key can be compared, except those that say where another one has its value from.
func TestEveryKeyCanBeCompared(t *testing.T) {
	t.Parallel()
	for _, k := range server.Settings().Keys() {
		if k.HasValue() == strings.HasSuffix(k.Name, SecretSuffix) {
			t.Errorf("%s: it has a value: %v", k.Name, k.HasValue())
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	secret := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(flags map[string]string) *Config {
		t.Helper()
		c, err := load(Input{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	secret("one")
	plain := read(nil)
	filed := read(map[string]string{"web.token_file": file, "tarantool.users_file": ""})
	fromFaktory := read(map[string]string{"faktory.password_file": file})
	secret("two")
	tests := []struct {
		name          string
		old, next     *Config
		live, restart []string
	}{
		{"nothing", plain, read(nil), nil, nil},
		{"level", plain, read(map[string]string{"log.level": "debug"}), []string{"log.level"}, nil},
		{"the same in other words", plain, read(map[string]string{"store.cache": "32768KiB"}), nil, nil},
		{"a secret in a file", filed, read(map[string]string{"web.token_file": file}), []string{"web.token"}, nil},
		{
			"a secret that clients know", fromFaktory, read(map[string]string{"faktory.password_file": file}),
			[]string{"web.password"},
			[]string{"faktory.password"},
		},
		{"users", plain, read(map[string]string{"tarantool.users": "a:b"}), nil, []string{"tarantool.users"}},
		{
			"address", plain, read(map[string]string{
				"workq.addr": "127.0.0.1:1", "server.max_waiting": "7",
				"web.password": "x",
			}),
			[]string{"web.password"},
			[]string{"server.max_waiting", "workq.addr"},
		},
	}
	for _, tt := range tests {
		if live, restart := tt.old.Changes(tt.next); !slices.Equal(live, tt.live) ||
			!slices.Equal(restart, tt.restart) {
			t.Errorf("%s: %q live, %q with a restart", tt.name, live, restart)
		}
	}
}
