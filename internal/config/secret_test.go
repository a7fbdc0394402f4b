package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "secret", "from-file\r\n")
	other := writeFile(t, "other", "from-other")
	config := writeFile(t, "m.toml", "[lock]\npassword = \"from-toml\"\n")
	configFile := writeFile(t, "f.toml", "[lock]\npassword_file = '"+file+"'\n")
	for _, c := range []struct {
		name, want, source string
		in                 Input
	}{
		{"none", "", "default", Input{}},
		{"variable", "open", "MILLRACE_LOCK_PASSWORD", Input{Environ: []string{"MILLRACE_LOCK_PASSWORD=open"}}},
		{
			"variable naming a file", "from-file", "MILLRACE_LOCK_PASSWORD_FILE",
			Input{Environ: []string{"MILLRACE_LOCK_PASSWORD_FILE=" + file}},
		},
		{"file", "from-toml", config + ":2", Input{File: config}},
		{"file naming a file", "from-file", configFile + ":2", Input{File: configFile}},
		{
			"variable over a file that names one", "open", "MILLRACE_LOCK_PASSWORD",
			Input{File: configFile, Environ: []string{"MILLRACE_LOCK_PASSWORD=open"}},
		},
		{
			"variable naming a file over the file", "from-other", "MILLRACE_LOCK_PASSWORD_FILE",
			Input{File: config, Environ: []string{"MILLRACE_LOCK_PASSWORD_FILE=" + other}},
		},
		{"flag", "flag", "--lock-password", Input{Flags: map[string]string{"lock.password": "flag"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table, value := SecretTable()
			got, err := table.Load(c.in)
			if err != nil {
				t.Fatal(err)
			}
			s := setting(t, got, "lock.password")
			if *value != c.want || s.Source.String() != c.source {
				t.Errorf("secret %q from %s, want %q from %s", *value, s.Source, c.want, c.source)
			}
			shown := SecretMask
			if c.want == "" {
				shown = ""
			}
			if s.Text() != shown {
				t.Errorf("shown as %q, want %q", s.Text(), shown)
			}
		})
	}
}

func TestSecretProblems(t *testing.T) {
	t.Parallel()
	table, _ := SecretTable()
	file := writeFile(t, "secret", "x")
	empty := writeFile(t, "empty", "\n")
	got := problems(t, table.Load, Input{Environ: []string{
		"MILLRACE_LOCK_PASSWORD=hush",
		"MILLRACE_LOCK_PASSWORD_FILE=" + file,
	}})
	want := []string{"lock.password (from MILLRACE_LOCK_PASSWORD) and lock.password_file (from " +
		"MILLRACE_LOCK_PASSWORD_FILE) are both set: remove one"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("both (-want +got):\n%s", diff)
	}
	if got := problems(t, table.Load, Input{Environ: []string{"MILLRACE_LOCK_PASSWORD_FILE=" +
		empty}}); !strings.Contains(got[0], "is empty: write the secret into it") {
		t.Errorf("empty file: %q", got)
	}
	if got := problems(t, table.Load, Input{Environ: []string{"MILLRACE_LOCK_PASSWORD_FILE=" + empty +
		"x"}}); !strings.Contains(got[0], "no such file") {
		t.Errorf("missing file: %q", got)
	}
}
