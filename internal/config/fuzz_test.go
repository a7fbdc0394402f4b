package config

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzConfig feeds arbitrary bytes to the path that a configuration file takes.
// Whatever they are, the outcome is a configuration that keeps the rules, or
// problems that name the file.
func FuzzConfig(f *testing.F) {
	var b bytes.Buffer
	if err := WriteExample(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(bytes.ReplaceAll(b.Bytes(), []byte("\n# "), []byte("\n")))
	f.Add([]byte("data.dir = \"x\"\n[masenko]\naddr = [\"127.0.0.1:1\", \":2=b\"]\n[masenko.tls]\ncert=\"c\"\n"))
	f.Add([]byte("store = 3\nmasenk.addr = {a=[[[1]]]}\n[[masenko]]\nx=1\n"))
	f.Add([]byte("a.b.c.d = 1979-05-27\n\"\\u0000\" = inf\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > fileSizeMax {
			return
		}
		table := standard()
		l := loader{table: table, config: new(Config), settings: make(map[string]Setting)}
		for _, k := range table.keys {
			l.apply(k, k.Default, Source{Layer: LayerDefault})
		}
		l.parse("f.toml", data)
		for _, p := range l.problems {
			if !strings.HasPrefix(p, "f.toml:") {
				t.Errorf("problem without the file: %q", p)
			}
		}
		if len(l.problems) > 0 {
			return
		}
		l.check()
		for _, at := range l.config.listeners {
			if len(l.problems) == 0 && !l.config.Listen.Insecure && !at.Authenticated && !isLoopback(at.Addr) {
				t.Errorf("accepted %q without authentication", at.Addr)
			}
		}
		for _, s := range l.settings {
			if s.Source.Layer == LayerFile && s.Source.Line < 1 {
				t.Errorf("%s has no line", s.Key.Name)
			}
		}
	})
}
