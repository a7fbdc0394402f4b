package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "millrace/internal/config"
	"millrace/internal/dialect/faktory"
)

func TestStatsd(t *testing.T) {
	t.Parallel()
	if c := mustLoad(t, Input{}); c.Statsd.Enabled() {
		t.Errorf("on without being asked: %+v", c.Statsd)
	}
	own := writeFile(t, "own.toml", "[statsd]\naddr = \"stats.internal:8125\"\nnamespace = \"app\"\n"+
		"tags = \"env:test, b\"\nlatency_queues = \"*\"\n")
	c := mustLoad(t, Input{File: own})
	want := Statsd{
		To: Endpoint{Network: "udp", Addr: "stats.internal:8125"}, Namespace: "app.", Tags: []string{"env:test", "b"},
		Latency: []string{"*"},
	}
	if diff := cmp.Diff(want, c.Statsd); diff != "" || !c.Statsd.ReportsLatency("any") {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, to := range map[string]Endpoint{
		"off": {}, ":8125": {Network: "udp", Addr: ":8125"}, "udp://[::1]:1": {Network: "udp", Addr: "[::1]:1"},
		"unix:///run/dsd.socket": {Network: "unixgram", Addr: "/run/dsd.socket"},
	} {
		if c := mustLoad(t, Input{Flags: map[string]string{"statsd.addr": text}}); c.Statsd.To != to {
			t.Errorf("%s: %+v", text, c.Statsd.To)
		}
	}
	if c := mustLoad(t, Input{Flags: map[string]string{"statsd.namespace": ""}}); c.Statsd.Namespace != "" {
		t.Errorf("namespace %q", c.Statsd.Namespace)
	}
}

func TestStatsdRefused(t *testing.T) {
	t.Parallel()
	for key, texts := range map[string][]string{
		"statsd.addr": {
			"", "unix://", "localhost", "localhost:x", "localhost:0", "localhost:65536",
			"http://localhost:8125", "a/b:1", "a b:1",
			"unixstream:///x",
		},
		"statsd.namespace": {"a b", "a|b", "a:b", strings.Repeat("a", 101)},
		"statsd.tags":      {"1st", ":x", "a|b", "a b", "a#b", strings.Repeat("a,", 301)},
	} {
		for _, text := range texts {
			got := problems(t, load, Input{Flags: map[string]string{key: text}})
			if len(got) != 1 || !strings.Contains(got[0], key+": ") {
				t.Errorf("%s = %q: %q", key, text, got)
			}
		}
	}
}

// The section of the original's files is taken over, below our own file and the variable. The size of its buffer is
// not: packets are as large as a network takes.
func TestStatsdOfFaktory(t *testing.T) {
	t.Parallel()
	dir := faktoryTree(t, map[string]string{"conf.d/statsd.toml": "[statsd]\nlocation = \"a:1\"\nnamespace = " +
		"\"app1.faktory.\"\n" +
		"tags = [\"env:production\", \"region:us-east-1a\"]\nbufferSize = 15\nqueueLatency = " +
		"[\"critical\", \"default\"]\n"})
	flags := map[string]string{"faktory.config_dir": dir}
	c := mustLoad(t, Input{Flags: flags})
	want := Statsd{
		To: Endpoint{Network: "udp", Addr: "a:1"}, Namespace: "app1.faktory.",
		Tags:    []string{"env:production", "region:us-east-1a"},
		Latency: []string{"critical", "default"},
	}
	if diff := cmp.Diff(want, c.Statsd); diff != "" || !c.Statsd.ReportsLatency("critical") ||
		c.Statsd.ReportsLatency("bulk") {
		t.Errorf("(-want +got):\n%s", diff)
	}
	file := filepath.Join(dir, "conf.d/statsd.toml")
	if diff := cmp.Diff([]string{file + ", statsd.bufferSize"},
		Of[faktory.Settings](c, "faktory").Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	if s := setting(t, c, "statsd.tags"); s.Source.String() != file+", statsd.tags" {
		t.Errorf("tags from %s", s.Source)
	}
	own := writeFile(t, "own.toml", "[statsd]\naddr = \"b:2\"\n")
	if c := mustLoad(t, Input{File: own, Flags: flags}); c.Statsd.To.Addr != "b:2" ||
		c.Statsd.Namespace != "app1.faktory." {
		t.Errorf("%+v", c.Statsd)
	}
	c = mustLoad(t, Input{Flags: flags, Environ: []string{"DD_DOGSTATSD_URL=udp://c:3"}})
	if c.Statsd.To.Addr != "c:3" || len(c.Notices()) != 1 {
		t.Errorf("%+v, %v", c.Statsd, c.Notices())
	}
	for text, want := range map[string]string{
		"location = 8125":            "statsd.location: write text in quotes",
		"location = \"localhost\"":   "statsd.addr: ",
		"tags = \"env:a\"":           "statsd.tags: write a list of texts in quotes",
		"tags = [1]":                 "statsd.tags: write a list of texts in quotes",
		"namespace = [\"a\"]":        "statsd.namespace: write text in quotes",
		"queueLatency = true":        "statsd.queueLatency: write a list of texts in quotes",
		"tags = [\"a\", \"no tag\"]": "statsd.tags: ",
	} {
		dir := faktoryTree(t, map[string]string{"conf.d/a.toml": "[statsd]\n" + text + "\n"})
		got := problems(t, load, Input{Flags: map[string]string{"faktory.config_dir": dir}})
		if len(got) != 1 || !strings.Contains(got[0], "a.toml") || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
