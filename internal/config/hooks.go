package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// Hooks say how the server calls URLs when jobs die.
type Hooks struct {
	Secrets [][]byte // that calls are signed with; none: no URL is called
	Allow   []string // prefixes of addresses
}

// Prefixes returns the addresses that may be called although they are private.
func (h *Hooks) Prefixes() (out []netip.Prefix) {
	for _, text := range h.Allow {
		p, _ := parsePrefix(text) // it has been checked
		out = append(out, p)
	}
	return out
}

func hookKeys() []Key {
	at := func(c *Config) *Hooks { return &c.Hooks }
	return append(parsedSecretKeys("hooks.secret",
		`Secrets that calls of hooks are signed with, each "whsec_" and 24 to 64 bytes in base64. Several are separated by `+
			"commas: a call has a signature by each. Without one no URL can be called.",
		func(c *Config) *[][]byte { return &at(c).Secrets }, parseHookSecrets),
		NamesKey("hooks.allow",
			"Private addresses that hooks may call, separated by commas: \"10.1.0.0/16, 127.0.0.1\". "+
				"All others that are loopback, private or reserved are never called.",
			func(text string) error { _, err := parsePrefix(text); return err },
			func(c *Config) *[]string { return &at(c).Allow }))
}

// secretPrefix begins every secret, as the Standard Webhooks specification has it.
const secretPrefix = "whsec_"

// parseHookSecrets reads secrets, separated by commas or blanks. What is wrong is not quoted.
func parseHookSecrets(text string) (secrets [][]byte, err error) {
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		encoded, ok := strings.CutPrefix(item, secretPrefix)
		secret, derr := base64.StdEncoding.DecodeString(encoded)
		if !ok || derr != nil || len(secret) < 24 || len(secret) > 64 {
			return nil, errors.New(`a secret is "whsec_" and 24 to 64 bytes in base64: make one with: echo "whsec_$(openssl rand -base64 32)"`)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// parsePrefix reads an address or a range of addresses.
func parsePrefix(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is neither an address nor a range: write for example 10.1.0.0/16", text)
	}
	return p.Masked(), nil
}
