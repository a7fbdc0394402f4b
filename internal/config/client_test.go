package config_test

import (
	"testing"

	. "millrace/internal/config"
)

// What is meant for the commands that ask a server stops no server.
func TestClientVariables(t *testing.T) {
	t.Parallel()
	environ := []string{
		ClientURLVariable + "=http://127.0.0.1:1", ClientTokenVariable + "=t", ClientPasswordVariable + "=p",
		ClientCAVariable + "=/ca.pem",
		JobVariablePrefix + "ID=7",
	}
	if _, err := load(Input{Environ: environ}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"MILLRACE_APIS", "MILLRACE_JOBS"} {
		if _, err := load(Input{Environ: []string{name + "=x"}}); err == nil {
			t.Errorf("%s is taken for known", name)
		}
	}
}
