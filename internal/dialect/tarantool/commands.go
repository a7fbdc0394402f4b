package tarantool

import (
	"slices"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/legacy"
	"millrace/internal/dialect/tarantool/queue"
)

// The commands that are counted: packets, and then the procedures of each set. A call or a piece of Lua that leads to a
// procedure counts as that.
const (
	commandUnknown = iota
	commandPing
	commandCall
	commandEval
	commandSelect
	commandChange
	commandSQL
	commandAuth
	commandID
	commandWatch
	commandUnwatch
	commandWatchOnce

	firstQueue
)

var (
	packetNames = []string{
		"unknown", "ping", "call", "eval", "select", "change", "sql", "auth", "id", "watch", "unwatch", "watch_once",
	}
	commandNames = slices.Concat(packetNames, queue.Names(), boxNames, legacy.Names())

	firstBox    = firstQueue + len(queue.Names())
	firstLegacy = firstBox + len(boxNames)
)

// newCommands makes the table that commands are counted in. Tarantool 1.5 knows only legacy procedures.
func newCommands(legacyOnly bool) *dialect.Commands {
	names := slices.Clone(commandNames)
	for i := range names {
		if legacyOnly && i < firstLegacy && i != commandPing {
			names[i] = ""
		}
	}
	return dialect.NewCommands(names...)
}
