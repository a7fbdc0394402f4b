package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
	"millrace/internal/dialect/tarantool"
)

func TestTarantoolUsers(t *testing.T) {
	t.Parallel()
	want := map[string]string{"ann": "a:b", "bob": "secret"}
	c := mustLoad(t, Input{Environ: []string{"MILLRACE_TARANTOOL_USERS=ann:a:b  bob:secret"}})
	if diff := cmp.Diff(want, Of[tarantool.Settings](c, "tarantool").Users); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	for _, s := range c.Settings() {
		if s.Key.Name == "tarantool.users" && s.Text() != SecretMask {
			t.Errorf("the passwords are shown: %s", s.Text())
		}
	}
	c = mustLoad(t, Input{Flags: map[string]string{"tarantool.users_file": writeFile(t, "users",
		"ann:a:b\nbob:secret\n")}})
	if diff := cmp.Diff(want, Of[tarantool.Settings](c, "tarantool").Users); diff != "" {
		t.Errorf("users of the file (-want +got):\n%s", diff)
	}
	for _, p := range problems(t, load, Input{Flags: map[string]string{"tarantool.users": "ann:a nobody"}}) {
		if !strings.Contains(p, "entry 2 is not user:password") || strings.Contains(p, "nobody") {
			t.Errorf("problem: %s", p)
		}
	}
}

func TestTarantoolListeners(t *testing.T) {
	t.Parallel()
	flags := map[string]string{
		"tarantool.addr": "10.0.0.7:1, 10.0.0.7:2=b", "tarantool15.addr": "127.0.0.1:3", "tarantool.namespace": "a",
		"tarantool.auth": "login",
	}
	var got []Listener
	for _, l := range mustLoad(t, Input{Flags: flags}).Listeners() {
		l.Key, l.Remedy = Key{Name: l.Key.Name}, ""
		if l.Protocol == "tarantool" {
			got = append(got, l)
		}
	}
	want := []Listener{
		{
			Protocol: "tarantool", Key: Key{Name: "tarantool.addr"}, Addr: "10.0.0.7:1", Namespace: "a",
			Authenticated: true,
		},
		{
			Protocol: "tarantool", Key: Key{Name: "tarantool.addr"}, Addr: "10.0.0.7:2", Namespace: "b",
			Authenticated: true,
		},
		{
			Protocol: "tarantool", Role: "tarantool15", Key: Key{Name: "tarantool15.addr"},
			Addr: "127.0.0.1:3", Namespace: "a",
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Key{})); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}

	// Without passwords, and for Tarantool 1.5 in any case, other machines stay out.
	for key, text := range map[string]string{
		"tarantool.addr":   "tarantool.auth = login",
		"tarantool15.addr": "listen.insecure",
	} {
		found := problems(t, load, Input{Flags: map[string]string{key: "10.0.0.7:1"}})
		if len(found) != 1 || !strings.Contains(found[0], "without authentication") ||
			!strings.Contains(found[0], text) {
			t.Errorf("%s: %q", key, found)
		}
	}
}
