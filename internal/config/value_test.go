package config

import (
	"testing"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"0": 0, "17": 17, "17B": 17, "4KiB": 4096, "4kib": 4096, "64MiB": 64 << 20, "2 GiB": 2 << 30, "1TiB": 1 << 40,
		"5kB": 5000, "5MB": 5e6,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
		if back, err := parseSize(formatSize(want)); err != nil || back != want {
			t.Errorf("formatSize(%d) = %q, which is %d, %v", want, formatSize(want), back, err)
		}
	}
	for _, text := range []string{
		"", "MiB", "-1", "1.5MiB", "1XiB", "18446744073709551615KiB", "1 2",
		"99999999999999999999",
	} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	candidates := []string{"data.dir", "store.durability", "masenko.addr", "masenko.metrics_addr"}
	for name, want := range map[string]string{
		"data.dri": "data.dir", "Data-Dir": "data.dir", "data_dir": "data.dir", "store.durabilty": "store.durability",
		"masenko.metricsaddr": "masenko.metrics_addr", "completely.else": "", "": "",
	} {
		if got := Suggest(name, candidates); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "", 3},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "acb", 1},
		{"abc", "abxc", 1},
		{"kitten", "sitting", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
