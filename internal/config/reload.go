package config

import "reflect"

// live marks a key as one that a running server takes over when its configuration is read again.
func live(k Key) Key {
	k.Live = true
	return k
}

// liveSecret marks a secret and the key that names its file.
func liveSecret(keys []Key) []Key {
	for i := range keys {
		keys[i] = live(keys[i])
	}
	return keys
}

// Changes compares a configuration with one that was read later. It returns the keys whose values differ: those that a
// running server takes over, and those that need a restart.
func (c *Config) Changes(next *Config) (live, restart []string) {
	for _, k := range c.table.keys {
		if k.value == nil || reflect.DeepEqual(k.value(c), k.value(next)) {
			continue
		}
		if k.Live {
			live = append(live, k.Name)
		} else {
			restart = append(restart, k.Name)
		}
	}
	return live, restart
}
