package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
	"millrace/internal/dialect/lmstfy"
)

const lmstfyOriginalFile = `
Host = "0.0.0.0"
Port = 7000
AdminPort = 7001
LogLevel = "Warning"
LogFormat = "text"
LogDir = "/var/log/lmstfy"
EnableAccessLog = true
TTLSecond = 3600
DelaySecond = 1
TriesNum = 3
TTRSecond = 30
TimeoutSecond = 5
NewKey = 1

[Accounts]
ann = "a b:c"

[AdminRedis]
Addr = "localhost:6379"

[Pool.default]
Addr = "localhost:6379"

[Pool.cold]
Addr = "localhost:6380"
MigrateTo = "default"

[Pool.archive]
`

// A file of the original server sets what it knows, below our own file, and what has no
// meaning here is told.
func TestLmstfyOriginalFile(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "lmstfy.toml", lmstfyOriginalFile)
	own := writeFile(t, "m.toml", "[lmstfy]\nconfig = '"+path+"'\ndefault_ttr = \"1m\"\n")
	c := mustLoad(t, Input{
		File: own, Environ: []string{"MILLRACE_LMSTFY_DEFAULT_TRIES=9"},
		Flags: map[string]string{"lmstfy.addr": "127.0.0.1:1"},
	})
	want := &lmstfy.Settings{
		Protocol: Protocol{
			Addr: Addresses{{HostPort: "127.0.0.1:1"}}, MaxConnections: 20000,
			WriteTimeout: 30 * time.Second,
		},
		AdminAddr: Addresses{{HostPort: "127.0.0.1:7001"}}, AuthBy: "token", Original: path,
		Options: lmstfy.Options{
			Pools: []string{"archive", "cold"}, Accounts: map[string]string{"ann": "a b:c"},
			Defaults:  lmstfy.Defaults{TTL: 3600, Delay: 1, Tries: 9, TTR: 60, Timeout: 5},
			AccessLog: true, MaxBody: 65535, MaxHeader: 32 << 10, ReadTimeout: 30 * time.Second,
			IdleTimeout: 5 * time.Minute,
		},
		Ignored: []string{"AdminRedis", "LogDir", "NewKey", "Pool.cold.*", "Pool.default.*"},
	}
	if diff := cmp.Diff(want, Of[lmstfy.Settings](c, "lmstfy")); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if c.Log.Level != "warn" || c.Log.Format != "text" {
		t.Errorf("log %+v", c.Log)
	}
	for name, source := range map[string]string{
		"lmstfy.default_ttl": path + ", TTLSecond", "lmstfy.default_ttr": own + ":3",
		"lmstfy.default_tries": "MILLRACE_LMSTFY_DEFAULT_TRIES",
		"lmstfy.addr":          "--lmstfy-addr", "lmstfy.admin_accounts": path + ", Accounts",
	} {
		if got := setting(t, c, name).Source.String(); got != source {
			t.Errorf("%s comes from %q, want %q", name, got, source)
		}
	}
	if text := setting(t, c, "lmstfy.admin_accounts").Text(); strings.Contains(text, "b:c") {
		t.Errorf("the accounts are shown as %q", text)
	}
}

// The path may come from the environment or a flag as well; without it nothing changes.
func TestLmstfyOriginalPath(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "a.toml", "Host = \"127.0.0.1\"\n")
	other := writeFile(t, "b.toml", "Port = 1\nHost = \"127.0.0.1\"\n")
	for name, in := range map[string]Input{
		"environment": {Environ: []string{"MILLRACE_LMSTFY_CONFIG=" + other}},
		"flag": {
			Environ: []string{"MILLRACE_LMSTFY_CONFIG=" + path},
			Flags:   map[string]string{"lmstfy.config": other},
		},
	} {
		if c := mustLoad(t, in); Of[lmstfy.Settings](c, "lmstfy").Addr[0].HostPort != "127.0.0.1:1" ||
			Of[lmstfy.Settings](c, "lmstfy").AuthBy != "token" {
			t.Errorf("%s: %v, %s", name, Of[lmstfy.Settings](c, "lmstfy").Addr, Of[lmstfy.Settings](c, "lmstfy").AuthBy)
		}
	}
	in := Input{Environ: []string{"MILLRACE_LMSTFY_CONFIG=" + path, "MILLRACE_LMSTFY_AUTH=off"}}
	if c := mustLoad(t, in); Of[lmstfy.Settings](c, "lmstfy").Addr[0].HostPort != "127.0.0.1:7777" ||
		Of[lmstfy.Settings](c, "lmstfy").AuthBy != "off" {
		t.Errorf("%v, %s", Of[lmstfy.Settings](c, "lmstfy").Addr, Of[lmstfy.Settings](c, "lmstfy").AuthBy)
	}
}

func TestLmstfyProblems(t *testing.T) {
	t.Parallel()
	broken := writeFile(t, "broken.toml", "Port = \"x\"\n")
	level := writeFile(t, "level.toml", "LogLevel = \"loud\"\nPort = 70000\n")
	accounts := writeFile(t, "accounts", "ann:secret\nbob\n")
	tests := map[string]struct {
		flags map[string]string
		want  []string
	}{
		"namespace": {
			map[string]string{"lmstfy.addr": "127.0.0.1:1=x"},
			[]string{"the namespace is in the path of a request"},
		},
		"seconds": {
			map[string]string{"lmstfy.default_ttr": "1500ms"},
			[]string{"1.5s is not a whole number of seconds"},
		},
		"range": {map[string]string{"lmstfy.default_ttl": "1193047h"}, []string{"out of range"}},
		"tries": {map[string]string{"lmstfy.default_tries": "0"}, []string{"choose 1 to 65535"}},
		"pool":  {map[string]string{"lmstfy.pools": "a, b.c"}, []string{`"b.c" is not the name of a pool`}},
		"accounts": {
			map[string]string{"lmstfy.admin_accounts": "ann:x bobsecret"},
			[]string{"entry 2 is not user:password"},
		},
		"accounts file": {
			map[string]string{"lmstfy.admin_accounts_file": accounts},
			[]string{"entry 2 is not user:password"},
		},
		"no file":     {map[string]string{"lmstfy.config": "/nowhere"}, []string{"lmstfy.config: ", "/nowhere"}},
		"broken file": {map[string]string{"lmstfy.config": broken}, []string{broken}},
		"bad values": {
			map[string]string{"lmstfy.config": level},
			[]string{level + ", LogLevel: log.level", level + ", Host, Port: lmstfy.addr"},
		},
		"open": {
			map[string]string{"lmstfy.addr": "0.0.0.0:1"},
			[]string{"without authentication", "ask for tokens with lmstfy.auth = token"},
		},
		"open admin": {
			map[string]string{"lmstfy.admin_addr": ":1"},
			[]string{"ask for passwords with lmstfy.admin_accounts"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(Input{Flags: test.flags})
			if err == nil {
				t.Fatal("no problem")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not tell %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q tells a password", err)
			}
		})
	}
}

func TestLmstfyListeners(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Input{Flags: map[string]string{
		"lmstfy.addr": "0.0.0.0:1, 127.0.0.1:2", "lmstfy.admin_addr": "0.0.0.0:3", "lmstfy.auth": "token",
		"lmstfy.admin_accounts": "ann:x bob:y:z",
	}})
	if want := map[string]string{"ann": "x", "bob": "y:z"}; !cmp.Equal(want,
		Of[lmstfy.Settings](c, "lmstfy").Accounts) {
		t.Errorf("accounts %v", Of[lmstfy.Settings](c, "lmstfy").Accounts)
	}
	var names []string
	for _, l := range c.Listeners() {
		if l.Protocol == "lmstfy" {
			names = append(names, l.Name()+" "+l.Addr)
		}
	}
	if want := []string{
		"lmstfy 0.0.0.0:1", "lmstfy 127.0.0.1:2",
		"lmstfy admin 0.0.0.0:3",
	}; !slices.Equal(names, want) {
		t.Errorf("listeners %q", names)
	}
}
