package config

import (
	"slices"
	"time"
)

// Table is the list of all keys, and the protocols they belong to.
type Table struct {
	keys  []Key
	specs []Spec
}

// NewTable returns the keys of a build with some protocols.
func NewTable(protocols ...Spec) Table {
	return newTable(slices.Concat(generalKeys(), clusterKeys(), statsdKeys(), hookKeys(), otlpKeys()),
		append(protocols, webSpec())...)
}

func newTable(keys []Key, specs ...Spec) Table {
	t := Table{keys: keys, specs: specs}
	for _, s := range specs {
		t.keys = append(t.keys, s.Keys...)
	}
	return t
}

// Keys returns all keys.
func (t Table) Keys() []Key { return t.keys }

func (t Table) byName(name string) (Key, bool) {
	for _, k := range t.keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

func (t Table) names() []string {
	names := make([]string, 0, len(t.keys))
	for _, k := range t.keys {
		names = append(names, k.Name)
	}
	return names
}

func (t Table) variables() []string {
	names := make([]string, 0, len(t.keys)+1)
	for _, k := range t.keys {
		names = append(names, k.Env())
	}
	return append(names, FileVariable)
}

// generalKeys are those that belong to no protocol.
func generalKeys() []Key {
	return []Key{
		pathKey("data.dir", "./millrace-data",
			"Directory that holds all jobs. It is made if it is not there; one server at a time can use it.",
			func(c *Config) *string { return &c.Data.Dir }),

		pathKey("backup.dir", "",
			"Directory that backups are written below, and nowhere else; it is outside of data.dir, and made if "+
				"it is not there. "+
				`Without it the name is that of data.dir with "-backups" behind it.`,
			func(c *Config) *string { return &c.Backup.Dir }),

		choiceKey("store.durability", "fsync", []string{"fsync", "interval", "none"},
			"What an acknowledgement promises: fsync survives a power loss. With interval any crash, also of "+
				"the process alone, "+
				"may lose the last store.sync_interval. With none a crash of the machine may lose much more.",
			func(c *Config) *string { return &c.Store.Durability }),
		durationKey("store.sync_interval", "100ms", limits[time.Duration]{time.Millisecond, time.Hour},
			"How much a crash may lose unless store.durability is fsync: changes are gathered for half of it, and "+
				"synced within the other half.",
			func(c *Config) *time.Duration { return &c.Store.SyncInterval }),
		sizeKey("store.free_floor", "256MiB", limits[uint64]{0, 1 << 50},
			"Pushes are refused while the disk has less free space than this; acknowledgements still "+
				"work. 0 turns it off.",
			func(c *Config) *uint64 { return &c.Store.FreeFloor }),
		sizeKey("store.cache", "32MiB", limits[uint64]{1 << 20, 1 << 40},
			"Memory for blocks read from disk.",
			func(c *Config) *uint64 { return &c.Store.CacheBytes }),
		sizeKey("store.memtable", "32MiB", limits[uint64]{1 << 20, 1 << 30},
			"Memory that collects writes before they become a file; in a burst up to twice as much is used, and a "+
				"restart after a crash reads as much again.",
			func(c *Config) *uint64 { return &c.Store.MemtableBytes }),

		live(choiceKey("log.level", "info", []string{"debug", "info", "warn", "error"},
			"Minimum severity to log.",
			func(c *Config) *string { return &c.Log.Level })),
		choiceKey("log.format", "auto", []string{"auto", "json", "text"},
			"Form of log lines; auto is text on a terminal and JSON elsewhere.",
			func(c *Config) *string { return &c.Log.Format }),

		boolKey("listen.insecure",
			"Allow listeners without authentication on addresses that other machines can reach. "+
				"Whoever reaches one can read and delete every job.",
			func(c *Config) *bool { return &c.Listen.Insecure }),
		hostsKey("listen.hosts",
			"Names by which HTTP listeners that need no login may be asked, separated by commas, besides localhost "+
				"and the address itself: "+
				`"jobs.internal, *.example.org". Web pages come by names of their own.`,
			func(c *Config) *[]string { return &c.Listen.Hosts }),
		sizeKey("listen.max_unfinished", "256MiB", limits[uint64]{16 << 20, 1 << 40},
			"Memory for commands that have not arrived as a whole, all connections together; beyond it those with "+
				"long ones are closed.",
			func(c *Config) *uint64 { return &c.Listen.MaxUnfinished }),
		durationKey("listen.command_timeout", "1m", limits[time.Duration]{time.Second, time.Hour},
			"A command that has not arrived as a whole in this time ends its connection. Listeners of HTTP have "+
				"times of their own.",
			func(c *Config) *time.Duration { return &c.Listen.CommandTimeout }),

		durationKey("server.drain_timeout", "1.5s", limits[time.Duration]{0, time.Hour},
			"How long a stopping server lets connections finish what they are doing before it closes them.",
			func(c *Config) *time.Duration { return &c.Server.DrainTimeout }),
		intKey("server.max_waiting", 100000, limits[int]{1, 1 << 24},
			"Calls that wait for a job, a result or room at a time, all connections of all protocols together; "+
				"more are refused.",
			func(c *Config) *int { return &c.Server.MaxWaiting }),
		sizeKey("server.max_waiting_memory", "256MiB", limits[uint64]{1 << 20, 1 << 40},
			"Memory that those calls hold, about: the names of their queues, and the bodies of jobs that wait for "+
				"room or for their result. More are refused.",
			func(c *Config) *uint64 { return &c.Server.MaxWaitingMemory }),
		intKey("server.max_waiting_names", 1000000, limits[int]{1, 1 << 30},
			"Queues that calls for a job which name more than 16 of them wait on at a time, each counted for each "+
				"call; more are refused.",
			func(c *Config) *int { return &c.Server.MaxWaitingNames }),
		intKey("server.max_queues", 250000, limits[int]{1, 1 << 24},
			"Queues of all namespaces together. Each takes 1 to 2 KB of memory; commands that would make "+
				"more are refused.",
			func(c *Config) *int { return &c.Server.MaxQueues }),
	}
}
