package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c := mustLoad(t, Input{Flags: map[string]string{
		"hooks.secret": secret + ", " + secret,
		"hooks.allow":  "10.1.2.3/16, ::1,127.0.0.1",
	}})
	if n := len(c.Hooks.Secrets); n != 2 || len(c.Hooks.Secrets[1]) != 24 {
		t.Errorf("secrets are %v", c.Hooks.Secrets)
	}
	want := []string{"10.1.0.0/16", "::1/128", "127.0.0.1/32"}
	var got []string
	for _, p := range c.Hooks.Prefixes() {
		got = append(got, p.String())
		if !p.IsValid() || p != netip.MustParsePrefix(p.String()) {
			t.Errorf("%v is no range", p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for key, texts := range map[string][]string{
		"hooks.secret": {"hush", "whsec_", "whsec_c2hvcnQ=", "whsec_" + strings.Repeat("A", 100), secret + ",hush"},
		"hooks.allow":  {"intern", "10.0.0.0/33", "10.0.0.0/8 11.0.0.0/8", "::ffff:10.0.0.0/104", "fe80::1%eth0"},
	} {
		for _, text := range texts {
			_, err := load(Input{Flags: map[string]string{key: text}})
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s %q: %v", key, text, err)
			}
		}
	}
}
