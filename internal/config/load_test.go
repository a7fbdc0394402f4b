package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/workq"
	"millrace/internal/server"
)

// writeFile writes a configuration file and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(in Input) (*Config, error) { return server.Settings().Load(in) }

func mustLoad(t *testing.T, in Input) *Config {
	t.Helper()
	c, err := load(in)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// problems returns what Load finds wrong.
func problems(t *testing.T, load func(Input) (*Config, error), in Input) []string {
	t.Helper()
	_, err := load(in)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("Load: %v, want an *Error", err)
	}
	return e.Problems
}

func setting(t *testing.T, c *Config, name string) Setting {
	t.Helper()
	for _, s := range c.Settings() {
		if s.Key.Name == name {
			return s
		}
	}
	t.Fatalf("no setting %s", name)
	return Setting{}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Input{})
	want := Config{
		Data: Data{Dir: "./millrace-data"},
		Store: Store{
			Durability: "fsync", SyncInterval: 100 * time.Millisecond,
			FreeFloor: 256 << 20, CacheBytes: 32 << 20, MemtableBytes: 32 << 20,
		},
		Log: Log{Level: "info", Format: "auto"},
		Server: Server{
			DrainTimeout: 1500 * time.Millisecond, MaxWaiting: 100000, MaxWaitingMemory: 256 << 20,
			MaxWaitingNames: 1000000, MaxQueues: 250000,
		},
		Listen:  Listen{MaxUnfinished: 256 << 20, CommandTimeout: time.Minute},
		Cluster: Cluster{LogKeep: 256 << 20, CatchUpRate: 64 << 20, Election: 500 * time.Millisecond},
		Web:     Web{Addr: Addresses{{HostPort: "127.0.0.1:7420"}}, MetricsQueues: 500, MetricsTypes: 200},
		Statsd:  Statsd{Namespace: "faktory."},
		OTLP:    OTLP{Service: "millrace"},
	}
	wantProtocols := map[string]any{
		"masenko": &masenko.Settings{
			Protocol: Protocol{
				Addr: Addresses{{HostPort: "127.0.0.1:12345"}}, Namespace: "default",
				MaxConnections: 10000, WriteTimeout: 30 * time.Second,
			},
			Options: masenko.Options{
				Heartbeat: 45 * time.Second, MaxLine: 16 << 20, MaxPayload: 8 << 20,
				MaxAtomic: 32 << 20,
			},
		},
		"beanstalkd": &beanstalkd.Settings{
			Protocol: Protocol{
				Addr: Addresses{{HostPort: "127.0.0.1:11300"}}, Namespace: "default",
				MaxConnections: 10000, WriteTimeout: 30 * time.Second,
			},
			Options: beanstalkd.Options{MaxJob: 65535},
		},
		"workq": &workq.Settings{
			Protocol: Protocol{
				Addr: Addresses{{HostPort: "127.0.0.1:9922"}}, Namespace: "default",
				MaxConnections: 10000, WriteTimeout: 30 * time.Second,
			},
			Options: workq.Options{MaxLine: 1 << 20, MaxPayload: 1 << 20, DefaultTTR: 30 * time.Minute},
		},
		"tarantool": &tarantool.Settings{
			Protocol: Protocol{
				Addr: Addresses{{HostPort: "127.0.0.1:3301"}}, Namespace: "default",
				MaxConnections: 20000, WriteTimeout: 30 * time.Second,
			},
			Options: tarantool.Options{MaxPacket: 64 << 20, MaxInFlight: 768, MaxWaiting: 10000}, Auth: "guest",
		},
		"faktory": &faktory.Settings{
			Protocol: Protocol{
				Addr: Addresses{{HostPort: "127.0.0.1:7419"}}, Namespace: "default",
				MaxConnections: 10000, WriteTimeout: 30 * time.Second,
			},
			Options: faktory.Options{MaxLine: 64 << 20, DeadMax: 1000000}, Environment: "development",
		},
		"lmstfy": &lmstfy.Settings{
			Protocol: Protocol{
				Addr: Addresses{{HostPort: "127.0.0.1:7777"}}, MaxConnections: 20000,
				WriteTimeout: 30 * time.Second,
			},
			AdminAddr: Addresses{{HostPort: "127.0.0.1:7778"}}, AuthBy: "off",
			Options: lmstfy.Options{
				Defaults: lmstfy.Defaults{TTL: 86400, Tries: 1, TTR: 120}, MaxBody: 65535, MaxHeader: 32 << 10,
				ReadTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute,
			},
		},
	}
	got, protocols := c.General()
	if diff := cmp.Diff(wantProtocols, protocols); diff != "" {
		t.Errorf("defaults of protocols (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Config{}, Table{})); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	for _, s := range c.Settings() {
		if s.Source.String() != "default" || s.Text() != s.Key.Default {
			t.Errorf("%s: %q from %s, want its default", s.Key.Name, s.Text(), s.Source)
		}
	}
	if len(c.Settings()) != len(server.Settings().Keys()) {
		t.Errorf("%d settings for %d keys", len(c.Settings()), len(server.Settings().Keys()))
	}
}

// A higher layer wins, key by key, and the value remembers its layer.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "m.toml", "data.dir = \"file\"\n\n[masenko]\naddr = \"127.0.0.1:4\"\n")
	const key = "data.dir"
	original, env := "MASENKO_STORE_DIR=original", "MILLRACE_DATA_DIR=env"
	flags := map[string]string{key: "flag"}
	for _, c := range []struct {
		name         string
		in           Input
		want, source string
		layer        Layer
	}{
		{"default", Input{}, "./millrace-data", "default", LayerDefault},
		{"file", Input{File: path}, "file", path + ":1", LayerFile},
		{
			"file named by the environment",
			Input{Environ: []string{"MILLRACE_CONFIG=" + path}},
			"file",
			path + ":1", LayerFile,
		},
		{
			"original over file",
			Input{File: path, Environ: []string{original}},
			"original",
			"MASENKO_STORE_DIR", LayerOriginal,
		},
		{"environment over file", Input{File: path, Environ: []string{env}}, "env", "MILLRACE_DATA_DIR", LayerEnv},
		{"environment over original", Input{Environ: []string{env, original}}, "env", "MILLRACE_DATA_DIR", LayerEnv},
		{
			"flag over all",
			Input{File: path, Environ: []string{original, env}, Flags: flags},
			"flag",
			"--data-dir", LayerFlag,
		},
		{"flag over original", Input{Environ: []string{original}, Flags: flags}, "flag", "--data-dir", LayerFlag},
		{
			"empty variable is not set",
			Input{File: path, Environ: []string{"MILLRACE_DATA_DIR="}},
			"file",
			path + ":1", LayerFile,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mustLoad(t, c.in)
			s := setting(t, got, key)
			if got.Data.Dir != c.want || s.Text() != c.want {
				t.Errorf("data.dir = %q, shown as %q, want %q", got.Data.Dir, s.Text(), c.want)
			}
			if s.Source.String() != c.source || s.Source.Layer != c.layer {
				t.Errorf("source %s (layer %d), want %s (layer %d)", s.Source, s.Source.Layer, c.source, c.layer)
			}
		})
	}
	c := mustLoad(t, Input{File: path})
	if s := setting(t, c, "masenko.addr"); s.Source.Line != 4 ||
		Of[masenko.Settings](c, "masenko").Addr[0].HostPort != "127.0.0.1:4" {
		t.Errorf("masenko.addr = %v from %s, want line 4", Of[masenko.Settings](c, "masenko").Addr, s.Source)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		file  string // FILE stands for its path in want
		env   []string
		flags map[string]string
		want  []string
	}{
		{
			name: "unknown key", file: "\n[masenko]\nadr = \"127.0.0.1:1\"\n",
			want: []string{`FILE:3: unknown key "masenko.adr": did you mean "masenko.addr"?`},
		},
		{
			name: "unknown section", file: "[masenk]\naddr = \"off\"\n",
			want: []string{`FILE:1: unknown key "masenk": did you mean "masenko"?`},
		},
		{
			name: "nothing near", file: "zebra = 1\n",
			want: []string{`FILE:1: unknown key "zebra": "millrace config example" lists all keys`},
		},
		{
			name: "key below a key", file: "[masenko.addr]\nhost = \"x\"\n",
			want: []string{`FILE:1: masenko.addr: write text in quotes, for example "127.0.0.1:12345"`},
		},
		{
			name: "section as a value", file: "store = 3\n",
			want: []string{`FILE:1: store is a section with keys of its own, not a value: write [store]`},
		},
		{
			name: "syntax", file: "[data]\ndir = \n",
			want: []string{`FILE:2: expected value but found '\n' instead`},
		},
		{
			name: "types", file: "[listen]\ninsecure = \"true\"\n[masenko]\nmax_connections = 1.5\nheartbeat = 45\n",
			want: []string{
				`FILE:2: listen.insecure: "true" is text: write it without quotes`,
				`FILE:5: masenko.heartbeat: write text in quotes, for example "45s"`,
				`FILE:4: masenko.max_connections: write a whole number`,
			},
		},
		{
			name: "list of addresses", file: "[masenko]\naddr = [1]\n",
			want: []string{`FILE:2: masenko.addr: write a list of texts in quotes`},
		},
		{
			name: "unknown variables", env: []string{"MILLRACE_DATADIR=x", "MILLRACE_WHATEVER=1", "OTHER=1"},
			want: []string{
				`unknown environment variable MILLRACE_DATADIR: did you mean "MILLRACE_DATA_DIR"?`,
				`unknown environment variable MILLRACE_WHATEVER: "millrace config example" lists all keys`,
			},
		},
		{
			name: "unknown flag", flags: map[string]string{"data.dirr": "x"},
			want: []string{`unknown flag data.dirr: did you mean "data.dir"?`},
		},
		{
			name: "choice", env: []string{"MILLRACE_STORE_DURABILITY=fsnyc"},
			want: []string{`MILLRACE_STORE_DURABILITY: store.durability: "fsnyc" is not one of fsync, interval, none: did you mean "fsync"?`},
		},
		{
			name: "values", flags: map[string]string{
				"data.dir": "", "listen.insecure": "maybe", "masenko.heartbeat": "0s", "masenko.max_connections": "0",
				"masenko.max_line": "10 apples", "masenko.namespace": "a b", "store.cache": "x",
				"store.sync_interval": "100",
				"store.free_floor":    "99999999999TiB",
			},
			want: []string{
				`--data-dir: data.dir: the path is empty: name one, for example "./millrace-data"`,
				`--listen-insecure: listen.insecure: "maybe" is neither true nor false`,
				`--masenko-heartbeat: masenko.heartbeat: 0s is out of range: choose 1ms to 24h0m0s`,
				`--masenko-max-connections: masenko.max_connections: 0 is out of range: choose 1 to 1048576`,
				`--masenko-max-line: masenko.max_line: "10 apples" has an unknown unit: use KiB, MiB, GiB or TiB`,
				`--masenko-namespace: masenko.namespace: "a b" is not a namespace: use letters, digits, '-', '_' and '.'`,
				`--store-cache: store.cache: "x" is not a size: write a whole number with a unit, for example 64MiB`,
				`--store-free-floor: store.free_floor: "99999999999TiB" is larger than any disk`,
				`--store-sync-interval: store.sync_interval: "100" is not a duration: write a number with a unit (ms, s, m, h), for example "100ms"`,
			},
		},
		{
			name: "addresses", env: []string{"MILLRACE_MASENKO_ADDR=12345"},
			want: []string{`MILLRACE_MASENKO_ADDR: masenko.addr: "12345" is not host:port: write for example "127.0.0.1:12345", or "off" to disable the listener`},
		},
		{
			name: "port", env: []string{"MILLRACE_MASENKO_ADDR=127.0.0.1:70000"},
			want: []string{`MILLRACE_MASENKO_ADDR: masenko.addr: "127.0.0.1:70000" has no port number of 0 to 65535 (0 picks a free one)`},
		},
		{
			name: "off among others", env: []string{"MILLRACE_MASENKO_ADDR=127.0.0.1:1, off"},
			want: []string{`MILLRACE_MASENKO_ADDR: masenko.addr: "off" disables all listeners of the key and cannot stand among addresses`},
		},
		{
			name: "original with a bad value", env: []string{"MASENKO_HEARTBEAT=soon", "MASENKO_MAX_WAL_SIZE=-1"},
			want: []string{
				`MASENKO_HEARTBEAT: masenko.heartbeat: "soon" is not a duration: write a number with a unit (ms, s, m, h), for example "45s"`,
				`MASENKO_MAX_WAL_SIZE: "-1" is not a whole number of bytes`,
			},
		},
		{
			name: "same address", env: []string{"MILLRACE_MASENKO_METRICS_ADDR=127.0.0.1:12345"},
			want: []string{`masenko.addr and masenko.metrics_addr both want the address 127.0.0.1:12345: change one of them`},
		},
		{
			name: "certificate without key", env: []string{"MILLRACE_MASENKO_TLS_CERT=c.pem"},
			want: []string{`masenko.tls.cert is set but masenko.tls.key is not: TLS needs both`},
		},
		{
			name: "key without certificate", env: []string{"MILLRACE_MASENKO_TLS_KEY=k.pem"},
			want: []string{`masenko.tls.key is set but masenko.tls.cert is not: TLS needs both`},
		},
		{
			name: "client authority without certificate", env: []string{"MILLRACE_MASENKO_TLS_CLIENT_CA=ca.pem"},
			want: []string{`masenko.tls.client_ca is set but masenko.tls.cert and masenko.tls.key are not: client certificates need TLS`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := Input{Environ: c.env, Flags: c.flags}
			if c.file != "" {
				in.File = writeFile(t, "m.toml", c.file)
			}
			got := problems(t, load, in)
			for i := range got {
				if in.File != "" {
					got[i] = strings.ReplaceAll(got[i], in.File, "FILE")
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	if got := (&Error{Problems: []string{"one"}}).Error(); got != "one" {
		t.Errorf("one problem: %q", got)
	}
	if got, want := (&Error{Problems: []string{"one", "two"}}).Error(), "2 problems in the configuration:\n  one\n  "+
		"two"; got != want {
		t.Errorf("two problems: %q, want %q", got, want)
	}
}

func TestFileProblems(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.toml")
	if got := problems(t, load, Input{File: missing}); len(got) != 1 ||
		!strings.Contains(got[0], "missing.toml: no such file") {
		t.Errorf("missing file: %q", got)
	}
	huge := writeFile(t, "huge.toml", strings.Repeat("#", FileSizeMax+1))
	if got := problems(t, load, Input{File: huge}); len(got) != 1 ||
		!strings.Contains(got[0], "is larger than 256KiB") {
		t.Errorf("huge file: %q", got)
	}
	var b strings.Builder
	for i := range UnknownMax + 5 {
		b.WriteString("zebra" + strings.Repeat("z", i) + " = 1\n")
	}
	many := writeFile(t, "many.toml", b.String())
	if got := problems(t, load, Input{File: many}); len(got) != UnknownMax+1 ||
		!strings.HasSuffix(got[UnknownMax], "5 more unknown keys") {
		t.Errorf("many unknown keys: %d problems, the last %q", len(got), got[len(got)-1])
	}
}

// Who reaches a listener without authentication owns the jobs, so any address but
// loopback must be asked for.
func TestLoopbackRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr string
		env  []string
		ok   bool
		want string
	}{
		{addr: "127.0.0.1:1", ok: true},
		{addr: "127.8.8.8:1", ok: true},
		{addr: "localhost:1", ok: true},
		{addr: "LOCALHOST:1", ok: true},
		{addr: "[::1]:1", ok: true},
		{addr: "[::ffff:127.0.0.1]:1", ok: true},
		{addr: "off", ok: true},
		{addr: ":12345", want: "listens on every network interface"},
		{addr: "0.0.0.0:1", want: "listens on every network interface"},
		{addr: "[::]:1", want: "listens on every network interface"},
		{addr: "10.0.0.7:1", want: "can be reached from other machines"},
		{addr: "localhost.example.org:1", want: "can be reached from other machines"},
		{addr: "127.0.0.1:1, 10.0.0.7:2=b", want: `"10.0.0.7:2" can be reached from other machines`},
		{addr: ":12345", env: []string{"MILLRACE_LISTEN_INSECURE=true"}, ok: true},
		{addr: ":12345", env: []string{"MILLRACE_LISTEN_INSECURE=false"}, want: "without authentication"},
		{
			addr: ":12345", env: []string{"MILLRACE_MASENKO_TLS_CERT=c", "MILLRACE_MASENKO_TLS_KEY=k"},
			want: "without authentication",
		},
		{addr: ":12345", env: []string{
			"MILLRACE_MASENKO_TLS_CERT=c", "MILLRACE_MASENKO_TLS_KEY=k",
			"MILLRACE_MASENKO_TLS_CLIENT_CA=a",
		}, ok: true},
	} {
		t.Run(c.addr, func(t *testing.T) {
			t.Parallel()
			_, err := load(Input{Environ: append(c.env, "MILLRACE_MASENKO_ADDR="+c.addr)})
			if c.ok {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range []string{
				c.want, "MILLRACE_MASENKO_ADDR", "--masenko-addr", "masenko.tls.client_ca",
				"MILLRACE_LISTEN_INSECURE=true",
			} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("message lacks %q: %v", part, err)
				}
			}
		})
	}
	got := problems(t, load, Input{Environ: []string{"MASENKO_LISTEN_TCP=:12345", "MASENKO_LISTEN_PROMETHEUS=:1221"}})
	want := []string{
		`MASENKO_LISTEN_TCP: masenko.addr: ":12345" listens on every network interface without authentication: ` +
			`listen on 127.0.0.1 with masenko.addr (MILLRACE_MASENKO_ADDR, --masenko-addr), ` +
			`or require client certificates with masenko.tls.client_ca, ` +
			`or accept the risk with listen.insecure = true (MILLRACE_LISTEN_INSECURE=true, --listen-insecure)`,
		`MASENKO_LISTEN_PROMETHEUS: masenko.metrics_addr: ":1221" listens on every network interface without authentication: ` +
			`listen on 127.0.0.1 with masenko.metrics_addr (MILLRACE_MASENKO_METRICS_ADDR, --masenko-metrics-addr), ` +
			`or accept the risk with listen.insecure = true (MILLRACE_LISTEN_INSECURE=true, --listen-insecure)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestListeners(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "m.toml", `
		[masenko]
		addr = ["127.0.0.1:1", "127.0.0.1:2=tenant-b"]
		namespace = "main"
		metrics_addr = "127.0.0.1:3"
		tls = {cert = "c", key = "k", client_ca = "a"}
		[workq]
		addr = "127.0.0.1:4, 127.0.0.1:5=tenant-b"
	`)
	var got []Listener
	for _, l := range mustLoad(t, Input{File: path}).Listeners() {
		if l.Key.Env() == "" || l.Key.Doc == "" {
			t.Errorf("%s: key %+v is not the table's", l.Name(), l.Key)
		}
		l.Key = Key{Name: l.Key.Name}
		if l.Protocol == "masenko" || l.Protocol == "workq" {
			got = append(got, l)
		}
	}
	tls := TLS{Cert: "c", Key: "k", ClientCA: "a"}
	want := []Listener{
		{
			Protocol: "masenko", Key: Key{Name: "masenko.addr"}, Addr: "127.0.0.1:1", Namespace: "main", TLS: tls,
			Authenticated: true,
		},
		{
			Protocol: "masenko", Key: Key{Name: "masenko.addr"}, Addr: "127.0.0.1:2", Namespace: "tenant-b", TLS: tls,
			Authenticated: true,
		},
		{
			Protocol: "masenko", Role: "metrics", Key: Key{Name: "masenko.metrics_addr"}, Addr: "127.0.0.1:3",
			Namespace: "main",
		},
		{Protocol: "workq", Key: Key{Name: "workq.addr"}, Addr: "127.0.0.1:4", Namespace: "default"},
		{Protocol: "workq", Key: Key{Name: "workq.addr"}, Addr: "127.0.0.1:5", Namespace: "tenant-b"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Key{})); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
	flags := make(map[string]string)
	for _, k := range server.Settings().Keys() {
		if k.Kind == KindAddresses {
			flags[k.Name] = AddressOff
		}
	}
	if off := mustLoad(t, Input{Flags: flags}); len(off.Listeners()) != 0 {
		t.Errorf("listeners of a server that is off: %v", off.Listeners())
	}
}

func TestOriginalVariables(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Input{Environ: []string{
		"MASENKO_STORE_DIR=/d", "MASENKO_LISTEN_TCP=127.0.0.1:1", "MASENKO_LISTEN_PROMETHEUS=127.0.0.1:2",
		"MASENKO_HEARTBEAT=9s", "MASENKO_MAX_WAL_SIZE=0", "MILLRACE_MASENKO_HEARTBEAT=8s", "MASENKO_UNHEARD_OF=1",
	}})
	want := []Notice{
		{
			Variable: "MASENKO_STORE_DIR", Key: "data.dir", Used: true,
			Advice: "jobs of the original server are not read, and its files must not lie in that directory",
		},
		{Variable: "MASENKO_LISTEN_TCP", Key: "masenko.addr", Used: true, Advice: "set MILLRACE_MASENKO_ADDR instead"},
		{
			Variable: "MASENKO_LISTEN_PROMETHEUS", Key: "masenko.metrics_addr", Used: true,
			Advice: "set MILLRACE_MASENKO_METRICS_ADDR instead",
		},
		{
			Variable: "MASENKO_HEARTBEAT", Key: "masenko.heartbeat", Used: false,
			Advice: "set MILLRACE_MASENKO_HEARTBEAT instead",
		},
		{Variable: "MASENKO_MAX_WAL_SIZE", Advice: "the store compacts itself; remove the variable"},
	}
	if diff := cmp.Diff(want, c.Notices()); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if c.Data.Dir != "/d" || Of[masenko.Settings](c, "masenko").Addr[0].HostPort != "127.0.0.1:1" ||
		Of[masenko.Settings](c, "masenko").MetricsAddr[0].HostPort != "127.0.0.1:2" {
		t.Errorf("values: %+v %+v", c.Data, Of[masenko.Settings](c, "masenko"))
	}
	if Of[masenko.Settings](c, "masenko").Heartbeat != 8*time.Second {
		t.Errorf("heartbeat = %s: our own variable must win", Of[masenko.Settings](c, "masenko").Heartbeat)
	}
}

// A Kubernetes service named millrace puts its own variables into every container.
func TestServiceLinks(t *testing.T) {
	t.Parallel()
	mustLoad(t, Input{Environ: []string{
		"MILLRACE_SERVICE_HOST=10.0.0.1", "MILLRACE_SERVICE_PORT=12345", "MILLRACE_SERVICE_PORT_MASENKO=12345",
		"MILLRACE_PORT=tcp://10.0.0.1:12345", "MILLRACE_PORT_12345_TCP=tcp://10.0.0.1:12345",
		"MILLRACE_PORT_12345_TCP_ADDR=10.0.0.1", "MILLRACE_HEADLESS_SERVICE_HOST=10.0.0.2",
	}})
	if got := problems(t, load, Input{Environ: []string{"MILLRACE_MASENKO_PORT=12345"}}); len(got) != 1 {
		t.Errorf("a port that is no service link: %q", got)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	c := mustLoad(t,
		Input{Flags: map[string]string{"listen.hosts": " jobs.internal ,*.Example.org., millrace,, 10.0.0.1, ::1"}})
	if want := []string{
		"jobs.internal", "*.Example.org.", "millrace", "10.0.0.1",
		"::1",
	}; !slices.Equal(c.Listen.Hosts, want) {
		t.Errorf("%q", c.Listen.Hosts)
	}
	for _, text := range []string{"*", "jobs.internal:7420", "http://jobs", "a..b", "*.*.b", "a b", "[::1]"} {
		if _, err := load(Input{Flags: map[string]string{"listen.hosts": text}}); err == nil ||
			!strings.Contains(err.Error(), "not a host name") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
