package config_test

import (
	"maps"
	"slices"
	"testing"

	. "millrace/internal/config"
	"millrace/internal/server"
)

// What is compared is there, and only what must be the same.
func TestAgreement(t *testing.T) {
	t.Parallel()
	for _, name := range server.Settings().Compared() {
		if _, ok := server.Settings().ByName(name); !ok && name != Listening {
			t.Errorf("there is no setting %s", name)
		}
	}
	base := map[string]string{
		"cluster.node": "a", "cluster.peers": "a=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3",
		"faktory.addr": "127.0.0.1:0",
	}
	load := func(more map[string]string) map[string]string {
		t.Helper()
		flags := map[string]string{}
		for _, m := range []map[string]string{base, more} {
			maps.Copy(flags, m)
		}
		return mustLoad(t, Input{Flags: flags}).Agreement()
	}
	first := load(nil)
	for setting, want := range map[[2]string]string{
		{"cluster.node", "b"}:              "",
		{"faktory.addr", "127.0.0.1:7000"}: "",
		{"data.dir", "elsewhere"}:          "",
		{"faktory.addr", "off"}:            Listening,
		{"faktory.dead_max", "5"}:          "faktory.dead_max",
		{"web.password", "secret"}:         "web.password",
		{"lmstfy.default_ttr", "3m"}:       "lmstfy.default_ttr",
	} {
		var differ []string
		for name, digest := range load(map[string]string{setting[0]: setting[1]}) {
			if first[name] != digest {
				differ = append(differ, name)
			}
		}
		if want == "" && len(differ) > 0 || want != "" && !slices.Equal(differ, []string{want}) {
			t.Errorf("%s = %s: %q differ, want %q", setting[0], setting[1], differ, want)
		}
	}
	c := mustLoad(t, Input{})
	if !c.Decisive("faktory.dead_max") || c.Decisive("web.password") {
		t.Error("which are decisive")
	}
}
