package config

import "time"

// Config is the effective configuration: every key of the table, parsed.
type Config struct {
	Data    Data
	Backup  Backup
	Store   Store
	Log     Log
	Listen  Listen
	Server  Server
	Cluster Cluster
	Web     Web
	Statsd  Statsd
	Hooks   Hooks
	OTLP    OTLP

	// Rules are what the files say that the server keeps with its data.
	Rules []Rule

	table     Table
	protocols map[string]any // the settings of each; see Of
	listeners []Listener
	settings  []Setting
	notices   []Notice
}

// Data says where the jobs are kept.
type Data struct {
	Dir string
}

// Backup says where backups go.
type Backup struct {
	// Dir is what all backups are below; empty is beside the data.
	Dir string
}

// Store tunes the storage.
type Store struct {
	Durability    string
	SyncInterval  time.Duration
	FreeFloor     uint64
	CacheBytes    uint64
	MemtableBytes uint64
}

// Log says what is logged and how.
type Log struct {
	Level  string
	Format string
}

// Listen holds what concerns all listeners.
type Listen struct {
	// Insecure allows a listener without authentication on an address that
	// other machines can reach.
	Insecure bool
	// Hosts are the names by which HTTP listeners that need no login may be asked.
	Hosts []string
	// MaxUnfinished bounds the memory of commands that have not arrived as a whole, all
	// connections together.
	MaxUnfinished uint64
	// CommandTimeout is how long a command may take to arrive.
	CommandTimeout time.Duration
}

// Server holds what concerns the process as a whole.
type Server struct {
	DrainTimeout time.Duration
	// MaxWaitingNames bounds the queues that fetches from many wait on.
	MaxWaitingNames int
	// MaxWaiting and MaxWaitingMemory bound the calls that wait, all connections together.
	MaxWaiting       int
	MaxWaitingMemory uint64
	// MaxQueues bounds the queues of all namespaces.
	MaxQueues int
}

// Listeners returns the listeners that are on, in the order of the table.
func (c *Config) Listeners() []Listener { return c.listeners }

// Settings returns every key with its value and where that came from, in the
// order of the table.
func (c *Config) Settings() []Setting { return c.settings }

// Notices returns what the operator should be told about the environment.
func (c *Config) Notices() []Notice { return c.notices }

// Setting is the effective value of one key.
type Setting struct {
	Key    Key
	Source Source
	text   string
}

// secretMask stands for a secret that is set: its length gives nothing away.
const secretMask = "********"

// Text returns the value as it would be written, secrets masked.
func (s Setting) Text() string {
	if s.Key.Secret && s.text != "" {
		return secretMask
	}
	return s.text
}

// Notice tells that a variable of another server was found in the environment,
// and what became of it.
type Notice struct {
	Variable string
	// Key is the key the variable stands for; empty if there is none.
	Key string
	// Used tells whether the value took effect.
	Used bool
	// Advice says what to do.
	Advice string
}

// Text returns the notice as a sentence about the variable.
func (n Notice) Text() string {
	switch {
	case n.Key == "":
		return "ignored: " + n.Advice
	case n.Used:
		return "taken as " + n.Key + "; " + n.Advice
	default:
		return "ignored, because " + n.Key + " is set in another way"
	}
}
