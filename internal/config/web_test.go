package config_test

import (
	"strings"
	"testing"

	. "millrace/internal/config"
	"millrace/internal/dialect/faktory"
)

func TestWeb(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Input{})
	if len(c.Web.Addr) != 1 || c.Web.Addr[0].HostPort != "127.0.0.1:7420" || c.Web.Protected() ||
		c.Web.MetricsQueues != 500 {
		t.Errorf("%+v", c.Web)
	}
	if c := mustLoad(t, Input{Flags: map[string]string{"web.addr": "off"}}); len(c.Web.Addr) != 0 {
		t.Errorf("%+v", c.Web)
	}
}

// An address that others can reach needs a password, a token or client certificates.
func TestWebReach(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"web.password", "web.read_password", "web.token", "web.read_token"} {
		c := mustLoad(t, Input{Flags: map[string]string{"web.addr": ":7420", key: "secret"}})
		if l := c.Listeners(); !l[len(l)-1].Authenticated || l[len(l)-1].Protocol != ProtocolWeb {
			t.Errorf("%s: %+v", key, l[len(l)-1])
		}
	}
	for _, flags := range []map[string]string{
		{"web.addr": ":7420"}, {"web.addr": "0.0.0.0:7420", "web.tls.cert": "c", "web.tls.key": "k"},
	} {
		_, err := load(Input{Flags: flags})
		if err == nil || !strings.Contains(err.Error(), "web.addr") || !strings.Contains(err.Error(), "web.password") {
			t.Errorf("%v: %v", flags, err)
		}
	}
	mustLoad(t, Input{Flags: map[string]string{"web.addr": ":7420", "listen.insecure": "true"}})
	mustLoad(t, Input{Flags: map[string]string{
		"web.addr": ":7420", "web.tls.cert": "c", "web.tls.key": "k",
		"web.tls.client_ca": "a",
	}})
	if _, err := load(Input{Flags: map[string]string{"web.addr": "127.0.0.1:1=tenant"}}); err == nil {
		t.Error("an address with a namespace is taken")
	}
}

// The password of Faktory's clients opens the operator's side, too, unless that has a secret of its own.
func TestWebPasswordOfFaktory(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Input{Environ: []string{"FAKTORY_PASSWORD=shared"}})
	if c.Web.Password != "shared" {
		t.Errorf("%+v", c.Web)
	}
	if s := setting(t, c, "web.password"); s.Text() != SecretMask || s.Source.String() != "FAKTORY_PASSWORD" {
		t.Errorf("shown as %q from %s", s.Text(), s.Source)
	}
	c = mustLoad(t, Input{Environ: []string{"FAKTORY_PASSWORD=shared", "MILLRACE_WEB_READ_TOKEN=t"}})
	if c.Web.Password != "" || c.Web.ReadToken != "t" {
		t.Errorf("%+v", c.Web)
	}
	dir := faktoryTree(t, map[string]string{"conf.d/1.toml": "[faktory]\npassword = \"a\"\n[web]\npassword = " +
		"\"b\"\nbinding = \":7420\"\ncolour = 1\n"})
	c = mustLoad(t, Input{Flags: map[string]string{"faktory.config_dir": dir}})
	if c.Web.Password != "b" || c.Web.Addr[0].HostPort != ":7420" ||
		len(Of[faktory.Settings](c, "faktory").Ignored) != 1 ||
		!strings.HasSuffix(Of[faktory.Settings](c, "faktory").Ignored[0], "web.colour") {
		t.Errorf("%+v, ignored %v", c.Web, Of[faktory.Settings](c, "faktory").Ignored)
	}
}
