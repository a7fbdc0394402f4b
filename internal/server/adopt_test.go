package server

import "testing"

// A migration finds the dialect of its protocol, and of the namespace that it names.
func TestAdopt(t *testing.T) {
	t.Parallel()
	addr := "127.0.0.1:0"
	r := start(t, load(t, map[string]string{
		"faktory.addr": addr + "=tenant", "lmstfy.addr": addr,
		"beanstalkd.addr": addr,
	}), Options{})
	for _, protocol := range []string{"faktory", "lmstfy", "beanstalkd"} {
		if _, err := r.server.adopt(protocol, ""); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.server.adopt("faktory", "tenant"); err != nil {
		t.Error(err)
	}
	if _, err := r.server.adopt("faktory", "default"); err == nil {
		t.Error("faktory is not served in that namespace")
	}
	if _, err := r.server.adopt("workq", ""); err == nil {
		t.Error("workq is not served")
	}
}
