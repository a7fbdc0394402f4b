package config

import "slices"

// What tests need that also need the protocols, which import this package.

// These are what they are inside.
const (
	SecretMask  = secretMask
	FileSizeMax = fileSizeMax
	UnknownMax  = unknownMax
)

// SchemaNode is a part of the schema.
type SchemaNode = schemaNode

// IsLoopback reports whether only this machine can reach an address.
func IsLoopback(hostPort string) bool { return isLoopback(hostPort) }

// ByName returns a key.
func (t Table) ByName(name string) (Key, bool) { return t.byName(name) }

// Raw returns the text of a setting, secret or not.
func (s Setting) Raw() string { return s.text }

// HasValue reports whether a key can be compared.
func (k Key) HasValue() bool { return k.value != nil }

// General returns what belongs to no protocol, and the settings of those.
func (c Config) General() (Config, map[string]any) {
	protocols := c.protocols
	c.settings, c.listeners, c.protocols, c.table = nil, nil, nil, Table{}
	return c, protocols
}

// SecretTable is a table with a secret, and where the secret goes.
func SecretTable() (Table, *string) {
	value := new(string)
	keys := secretKeys("lock.password", "Password of the lock.", func(*Config) *string { return value })
	return newTable(append(generalKeys(), keys...)), value
}

// Parse applies the contents of a file and checks the outcome.
func (t Table) Parse(path string, data []byte) (problems []string, settings map[string]Setting, c *Config) {
	l := t.loader()
	for _, k := range t.keys {
		l.apply(k, k.Default, Source{Layer: LayerDefault})
	}
	if l.parse(path, data); len(l.problems) > 0 {
		return l.problems, nil, nil
	}
	l.check()
	if len(l.problems) > 0 {
		return nil, l.settings, nil
	}
	return nil, l.settings, l.config
}

// Compared returns the names of what nodes of a cluster compare.
func (t Table) Compared() []string { return slices.Concat(t.decisive(), t.alike()) }
