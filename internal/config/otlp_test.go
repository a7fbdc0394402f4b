package config_test

import (
	"strings"
	"testing"

	. "millrace/internal/config"
)

func TestOTLP(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:4318":                "http://127.0.0.1:4318/v1/traces",
		"https://c.example.org/":               "https://c.example.org/v1/traces",
		"https://c.example.org/otlp/v1/traces": "https://c.example.org/otlp/v1/traces",
	} {
		c := mustLoad(t, Input{Flags: map[string]string{"otlp.endpoint": text, "otlp.headers": "api-key=a=b, x=y"}})
		if got := c.OTLP.URL(); got != want || !c.OTLP.Enabled() || c.OTLP.Headers["Api-Key"] != "a=b" ||
			c.OTLP.Headers["X"] != "y" {
			t.Errorf("%s: %s, %+v", text, got, c.OTLP)
		}
	}
	if c := mustLoad(t, Input{Flags: map[string]string{"otlp.endpoint": "off"}}); c.OTLP.Enabled() {
		t.Error("it is on")
	}
	for key, text := range map[string]string{"otlp.endpoint": "collector:4318", "otlp.headers": "hush"} {
		if _, err := load(Input{Flags: map[string]string{key: text}}); err == nil ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s %q: %v", key, text, err)
		}
	}
}
