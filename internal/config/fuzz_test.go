package config_test

import (
	"bytes"
	"strings"
	"testing"

	. "millrace/internal/config"
	"millrace/internal/server"
)

// FuzzConfig feeds arbitrary bytes to the path that a configuration file takes.
// Whatever they are, the outcome is a configuration that keeps the rules, or
// problems that name the file.
func FuzzConfig(f *testing.F) {
	var b bytes.Buffer
	if err := server.Settings().WriteExample(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(bytes.ReplaceAll(b.Bytes(), []byte("\n# "), []byte("\n")))
	f.Add([]byte("data.dir = \"x\"\n[masenko]\naddr = [\"127.0.0.1:1\", \":2=b\"]\n[masenko.tls]\ncert=\"c\"\n"))
	f.Add([]byte("store = 3\nmasenk.addr = {a=[[[1]]]}\n[[masenko]]\nx=1\n"))
	f.Add([]byte("a.b.c.d = 1979-05-27\n\"\\u0000\" = inf\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > FileSizeMax {
			return
		}
		problems, settings, c := server.Settings().Parse("f.toml", data)
		for _, p := range problems {
			if !strings.HasPrefix(p, "f.toml:") {
				t.Errorf("problem without the file: %q", p)
			}
		}
		if c != nil {
			for _, at := range c.Listeners() {
				if !c.Listen.Insecure && !at.Authenticated && !IsLoopback(at.Addr) {
					t.Errorf("accepted %q without authentication", at.Addr)
				}
			}
		}
		for _, s := range settings {
			if s.Source.Layer == LayerFile && s.Source.Line < 1 {
				t.Errorf("%s has no line", s.Key.Name)
			}
		}
	})
}
