package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
	"millrace/internal/dialect/faktory"
)

// faktoryTree writes a configuration directory of the original server.
func faktoryTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A configuration directory of the original sets what it knows, below our own file and
// the original's variables; what has no meaning here is told.
func TestFaktoryConfigDir(t *testing.T) {
	t.Parallel()
	secret := writeFile(t, "secret", "from-file\n")
	dir := faktoryTree(t, map[string]string{
		"conf.d/10.toml": "[faktory]\npassword = \"first\"\nbinding = \"127.0.0.1:1\"\n[web]\nbinding = " +
			"\":7420\"\npassword = \"web\"\n",
		"conf.d/20.toml":  "[faktory]\npassword = \"second\"\nspeed = 9\n[redis]\npool = 5\n",
		"conf.d/30.txt":   "not read",
		"private.key.pem": "k", "public.cert.pem": "c",
	})
	own := writeFile(t, "own.toml", "[faktory]\naddr = \"127.0.0.1:2\"\npassword_file = '"+secret+"'\n")
	ownTLS := writeFile(t, "tls.toml", "[faktory.tls]\ncert = \"mine\"\nkey = \"mine\"\n")
	tls := TLS{Cert: filepath.Join(dir, "public.cert.pem"), Key: filepath.Join(dir, "private.key.pem")}
	for _, c := range []struct {
		name, addr, password string
		tls                  TLS
		in                   Input
	}{
		{"alone", "127.0.0.1:1", "second", tls, Input{}},
		{"with our own file", "127.0.0.1:2", "from-file", tls, Input{File: own}},
		{"with our own TLS", "127.0.0.1:1", "second", TLS{Cert: "mine", Key: "mine"}, Input{File: ownTLS}},
		{
			"with the original's variable", "127.0.0.1:1", "variable", tls,
			Input{Environ: []string{"FAKTORY_PASSWORD=variable"}},
		},
		{
			"with the original's variable that names a file", "127.0.0.1:1", "from-file", tls,
			Input{Environ: []string{"FAKTORY_PASSWORD=" + secret}},
		},
		{
			"with our variable", "127.0.0.1:3", "mine", tls,
			Input{Environ: []string{
				"FAKTORY_PASSWORD=x", "MILLRACE_FAKTORY_PASSWORD=mine",
				"MILLRACE_FAKTORY_ADDR=127.0.0.1:3",
			}},
		},
		{"with a flag", "127.0.0.1:4", "second", tls, Input{Flags: map[string]string{"faktory.addr": "127.0.0.1:4"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.in.Environ = append(c.in.Environ, "MILLRACE_FAKTORY_CONFIG_DIR="+dir)
			got := mustLoad(t, c.in)
			f := Of[faktory.Settings](got, "faktory")
			if f.Addr[0].HostPort != c.addr || f.Password != c.password || f.TLS != c.tls {
				t.Errorf("address %v, password %q, tls %+v", f.Addr, f.Password, f.TLS)
			}
			want := []string{
				filepath.Join(dir, "conf.d/20.toml") + ", faktory.speed",
				filepath.Join(dir, "conf.d/20.toml") + ", redis",
			}
			if diff := cmp.Diff(want, f.Ignored); diff != "" {
				t.Errorf("ignored (-want +got):\n%s", diff)
			}
			if s := setting(t, got, "faktory.password"); s.Text() != SecretMask {
				t.Errorf("the password is shown as %q", s.Text())
			}
		})
	}
	// One of the two files alone turns nothing on.
	half := faktoryTree(t, map[string]string{"private.key.pem": "k"})
	if c := mustLoad(t, Input{Flags: map[string]string{"faktory.config_dir": half}}); Of[faktory.Settings](c,
		"faktory").TLS.Enabled() {
		t.Error("TLS without a certificate")
	}
}

func TestFaktoryPassword(t *testing.T) {
	t.Parallel()
	slash := writeFile(t, "slash", "/not/a/path\n")
	dir := faktoryTree(t, map[string]string{"password": " from-dir \n"})
	for _, c := range []struct {
		name, want string
		in         Input
	}{
		{"development needs none", "", Input{}},
		{
			"a file may hold one with a slash", "/not/a/path",
			Input{Flags: map[string]string{"faktory.password_file": slash}},
		},
		{"a path", "/not/a/path", Input{Flags: map[string]string{"faktory.password": slash}}},
		{"production with one", "x", Input{Environ: []string{"FAKTORY_ENV=production", "FAKTORY_PASSWORD=x"}}},
		{"production without", "", Input{Environ: []string{"FAKTORY_ENV=production", "FAKTORY_SKIP_PASSWORD=yes"}}},
		{"staging without, in our words", "", Input{Flags: map[string]string{
			"faktory.environment":   "staging",
			"faktory.skip_password": "true",
		}}},
		{
			"production that does not serve it", "",
			Input{Environ: []string{"FAKTORY_ENV=production"}, Flags: map[string]string{"faktory.addr": "off"}},
		},
		{
			"production with the file of the directory", "from-dir",
			Input{Environ: []string{"FAKTORY_ENV=production"}, Flags: map[string]string{"faktory.config_dir": dir}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mustLoad(t, c.in)
			if Of[faktory.Settings](got, "faktory").Password != c.want {
				t.Errorf("password %q, want %q", Of[faktory.Settings](got, "faktory").Password, c.want)
			}
			for _, l := range got.Listeners() {
				if l.Protocol == "faktory" && l.Authenticated != (c.want != "") {
					t.Errorf("listener %+v", l)
				}
			}
		})
	}
}

func TestFaktoryProblems(t *testing.T) {
	t.Parallel()
	empty := faktoryTree(t, nil)
	for _, c := range []struct {
		name  string
		files map[string]string
		in    Input
		want  string
	}{
		{
			"no password", nil,
			Input{
				Environ: []string{"FAKTORY_ENV=staging"},
				Flags:   map[string]string{"faktory.config_dir": empty},
			},
			"faktory requires a password to be set in staging or production",
		},
		{
			"unknown environment", nil,
			Input{Environ: []string{"FAKTORY_ENV=test"}},
			`FAKTORY_ENV: faktory.environment: "test" is not one of`,
		},
		{
			"a path that leads nowhere", nil,
			Input{Environ: []string{"FAKTORY_PASSWORD=/nowhere/at/all"}},
			"FAKTORY_PASSWORD: faktory.password: open /nowhere/at/all",
		},
		{
			"reachable without a password", nil,
			Input{Flags: map[string]string{"faktory.addr": ":7419"}},
			"set a password with faktory.password",
		},
		{
			"no directory", nil,
			Input{Flags: map[string]string{"faktory.config_dir": "/nowhere/at/all"}},
			"faktory.config_dir: /nowhere/at/all is not a directory",
		},
		{"cron", map[string]string{"conf.d/c.toml": "[cron]\nschedule = \"* * * * *\"\n"}, Input{}, "write [[cron]]"},
		{"throttles", map[string]string{"conf.d/t.toml": "throttles = 4\n"}, Input{}, "write [throttles]"},
		{
			"a throttle",
			map[string]string{"conf.d/t.toml": "[throttles]\n\ndefault = 4\n"},
			Input{},
			"t.toml:3: throttles: default: write for example { concurrency",
		},
		{"not TOML", map[string]string{"conf.d/x.toml": "[faktory\n"}, Input{}, "x.toml: toml:"},
		{
			"a number",
			map[string]string{"conf.d/x.toml": "[faktory]\npassword = 7\n"},
			Input{},
			"faktory.password: write text in quotes",
		},
		{"no section", map[string]string{"conf.d/x.toml": "faktory = 7\n"}, Input{}, "write [faktory]"},
		{
			"bad binding",
			map[string]string{"conf.d/x.toml": "[faktory]\nbinding = \"localhost\"\n"},
			Input{},
			`x.toml, faktory.binding: faktory.addr: "localhost" is not host:port`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.files != nil {
				c.in.Flags = map[string]string{"faktory.config_dir": faktoryTree(t, c.files)}
			}
			_, err := load(c.in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestFaktoryListeners(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Input{Flags: map[string]string{
		"faktory.addr":     "127.0.0.1:1, 0.0.0.0:2=other",
		"faktory.password": "x",
	}})
	var got []string
	for _, l := range c.Listeners() {
		if l.Protocol == "faktory" {
			got = append(got, l.Addr+" "+l.Namespace)
		}
	}
	if want := []string{"127.0.0.1:1 default", "0.0.0.0:2 other"}; !slices.Equal(got, want) {
		t.Errorf("listeners %v, want %v", got, want)
	}
}
