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

// Spec is everything the configuration knows about a wire protocol. It stands in the protocol's own package.
type Spec struct {
	Name string
	// Settings returns what the keys set; see Of.
	Settings func() any
	Keys     []Key
	// Listeners returns the listeners that are on; nil if the protocol has none of its own.
	Listeners func(*Config) []Listener
	// Originals are the variables of the server that the protocol comes from.
	Originals []Original
	// Original applies what comes from elsewhere than variables; it may be nil.
	Original func(l *Loader, env, flags map[string]string)
	// Check looks at what all layers together say, before the listeners; it may be nil.
	Check func(l *Loader)
	// Decisive are the keys that nodes of a cluster must set to the same, because they change what becomes of jobs.
	// Alike are those that they should.
	Decisive, Alike []string
	// Password is the key of a secret of clients that opens the operator's side, too, if that has no secret of its own.
	Password string
}

// Original is an environment variable of another server.
type Original struct {
	Variable string
	// Key takes the value; without one the value is only checked.
	Key    string
	Check  func(string) error
	Advice string
}

// Of returns the settings of a protocol.
func Of[T any](c *Config, name string) *T {
	s, ok := c.protocols[name].(*T)
	if !ok {
		panic("config: no settings of " + name)
	}
	return s
}

// Common makes the keys and listeners that protocols have in common.
type Common struct {
	Name string
	At   func(*Config) *Protocol
}

// Addr is where a protocol listens. Next is a port that an example may use.
func (p Common) Addr(port, next int) Key {
	return addressesKey(p.Name+".addr", fmt.Sprintf("127.0.0.1:%d", port),
		fmt.Sprintf(`Address to listen on; "off" disables it, port 0 picks a free one. Several are separated by commas, `+
			`and "=name" behind one binds it to another namespace: "127.0.0.1:%d, 127.0.0.1:%d=tenant-b".`, port, next),
		func(c *Config) *Addresses { return &p.At(c).Addr })
}

// Namespace may say more about it.
func (p Common) Namespace(more string) Key {
	return namespaceKey(p.Name+".namespace", "Namespace of the addresses that do not name one."+more,
		func(c *Config) *string { return &p.At(c).Namespace })
}

// Connections bounds them; per is what the bound counts for.
func (p Common) Connections(def int, per string) Key {
	return intKey(p.Name+".max_connections", def, limits[int]{1, 1 << 20},
		"Open connections at a time"+per+"; more are refused.",
		func(c *Config) *int { return &p.At(c).MaxConnections })
}

// PerNamespace is what most protocols bound connections for.
const PerNamespace = ", per namespace"

// WriteTimeout bounds a write to a client that does not read.
func (p Common) WriteTimeout(what string) Key {
	return durationKey(p.Name+".write_timeout", "30s", limits[time.Duration]{time.Second, time.Hour},
		"A client that does not take its "+what+" for this long is disconnected.",
		func(c *Config) *time.Duration { return &p.At(c).WriteTimeout })
}

// TLS returns the keys of the TLS material.
func (p Common) TLS() []Key { return tlsKeys(p.Name, func(c *Config) *TLS { return &p.At(c).TLS }) }

// Listeners returns those of the protocol itself. Authenticated tells that clients must prove who they are in another
// way than with certificates, remedy how to have them do so.
func (p Common) Listeners(c *Config, authenticated bool, remedy string) []Listener {
	own := p.At(c)
	l := Listener{
		Protocol: p.Name, Key: Key{Name: p.Name + ".addr"}, TLS: own.TLS,
		Authenticated: own.TLS.ClientCA != "" || authenticated, Remedy: remedy,
	}
	return l.At(own.Addr, own.Namespace)
}

// At returns the listener on each of the addresses.
func (l Listener) At(list Addresses, namespace string) (out []Listener) {
	for _, a := range list {
		l.Addr, l.Namespace = a.HostPort, or(a.Namespace, namespace)
		out = append(out, l)
	}
	return out
}
