package config

import (
	"fmt"
	"time"
)

// Protocol is what the configuration of every wire protocol has.
type Protocol struct {
	Addr           Addresses
	Namespace      string
	MaxConnections int
	WriteTimeout   time.Duration
	TLS            TLS
}

// protocol makes the keys and listeners that protocols have in common.
type protocol struct {
	name string
	at   func(*Config) *Protocol
}

// addr is where a protocol listens. Next is a port that an example may use.
func (p protocol) addr(port, next int) Key {
	return addressesKey(p.name+".addr", fmt.Sprintf("127.0.0.1:%d", port),
		fmt.Sprintf(`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas, `+
			`and "=name" behind one binds it to another namespace: "127.0.0.1:%d, 127.0.0.1:%d=tenant-b".`, port, next),
		func(c *Config) *Addresses { return &p.at(c).Addr })
}

// namespace may say more about it.
func (p protocol) namespace(more string) Key {
	return namespaceKey(p.name+".namespace", "Namespace of the addresses that do not name one."+more,
		func(c *Config) *string { return &p.at(c).Namespace })
}

// connections bounds them; per is what the bound counts for.
func (p protocol) connections(def int, per string) Key {
	return intKey(p.name+".max_connections", def, limits[int]{1, 1 << 20}, "Open connections at a time"+per+"; more are refused.",
		func(c *Config) *int { return &p.at(c).MaxConnections })
}

// perNamespace is what most protocols bound connections for.
const perNamespace = ", per namespace"

func (p protocol) writeTimeout(what string) Key {
	return durationKey(p.name+".write_timeout", "30s", limits[time.Duration]{time.Second, time.Hour},
		"A client that does not take its "+what+" for this long is disconnected.",
		func(c *Config) *time.Duration { return &p.at(c).WriteTimeout })
}

func (p protocol) tls() []Key { return tlsKeys(p.name, func(c *Config) *TLS { return &p.at(c).TLS }) }

// listeners returns those of the protocol itself. Authenticated tells that clients must prove who they are in another
// way than with certificates, remedy how to have them do so.
func (p protocol) listeners(c *Config, authenticated bool, remedy string) []Listener {
	own := p.at(c)
	l := Listener{
		Protocol: p.name, Key: Key{Name: p.name + ".addr"}, TLS: own.TLS, Authenticated: own.TLS.ClientCA != "" || authenticated, Remedy: remedy,
	}
	return l.at(own.Addr, own.Namespace)
}

// at returns the listener on each of the addresses.
func (l Listener) at(list Addresses, namespace string) (out []Listener) {
	for _, a := range list {
		l.Addr, l.Namespace = a.HostPort, or(a.Namespace, namespace)
		out = append(out, l)
	}
	return out
}
