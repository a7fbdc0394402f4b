package config

import (
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"
)

// OTLP says where spans are sent to.
type OTLP struct {
	Endpoint string // of the collector; empty: none are sent
	Headers  map[string]string
	Service  string
}

// Enabled reports whether spans are sent.
func (o *OTLP) Enabled() bool { return o.Endpoint != "" }

// otlpTraces is the path for traces below the address of a collector.
const otlpTraces = "/v1/traces"

// URL returns where spans are sent: unless the endpoint has a path, to the usual one.
func (o *OTLP) URL() string {
	u, err := url.Parse(o.Endpoint)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		u.Path = otlpTraces
		return u.String()
	}
	return o.Endpoint
}

func otlpKeys() []Key {
	at := func(c *Config) *OTLP { return &c.OTLP }
	keys := []Key{
		Parsed(stringKey("otlp.endpoint", AddressOff,
			"Where spans of jobs that carry a trace are sent: the address of an OpenTelemetry collector that "+
				"takes OTLP over HTTP, "+
				`such as "http://127.0.0.1:4318"; "off" sends none.`,
			func(c *Config) *string { return &at(c).Endpoint }), parseOTLP),
		stringKey("otlp.service_name", "millrace", "The service.name of the spans.",
			func(c *Config) *string { return &at(c).Service }),
	}
	return append(keys, parsedSecretKeys("otlp.headers",
		`Headers of every request to the collector, such as a key: "api-key=...". Several are separated by commas.`,
		func(c *Config) *map[string]string { return &at(c).Headers }, parseOTLPHeaders)...)
}

func parseOTLP(text string) (string, error) {
	if text == AddressOff || text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", fmt.Errorf(`%q is not the address of a collector: write for example "http://127.0.0.1:4318"`, text)
	}
	return text, nil
}

// parseOTLPHeaders reads name=value entries. What is wrong is not quoted: it may be a secret.
func parseOTLPHeaders(text string) (map[string]string, error) {
	var headers map[string]string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t:\"") || strings.ContainsAny(value, "\r\n") {
			return nil, errors.New("write headers as name=value, separated by commas")
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	return headers, nil
}
