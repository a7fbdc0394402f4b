package dialect

import (
	"sync/atomic"
	"time"

	"millrace/internal/job"
	"millrace/internal/timing"
)

// Commands counts what clients ask for by the names of their protocol. Which commands there are is known from the
// start, so that counting one is a few additions to memory that all connections share: no lock, no map. Command 0
// is that of everything the protocol does not know.
type Commands struct {
	names  []string
	counts []commandCounts
}

// UnknownCommand is the name of command 0.
const UnknownCommand = "unknown"

// commandCounts are what is counted of one command. Those of several are far apart in memory, because the buckets
// are: connections with different commands do not disturb each other.
type commandCounts struct {
	errors atomic.Uint64
	times  timing.Shared
}

// NewCommands makes the table of a protocol's commands. Names are by number; those that are empty are not told,
// and the name of the first does not matter.
func NewCommands(names ...string) *Commands {
	c := &Commands{names: append([]string(nil), names...), counts: make([]commandCounts, len(names))}
	c.names[0] = UnknownCommand
	return c
}

// CommandFigures are what was counted of one command.
type CommandFigures struct {
	Name       string
	OK, Errors uint64
	Times      timing.Histogram
}

// Figures returns what was counted so far, of every command.
func (c *Commands) Figures() []CommandFigures {
	list := make([]CommandFigures, 0, len(c.names))
	for i, name := range c.names {
		if name == "" {
			continue
		}
		// An error is counted after its time, so there are never more.
		errors := c.counts[i].errors.Load()
		f := CommandFigures{Name: name, Errors: errors, Times: c.counts[i].times.Load()}
		f.OK = f.Times.Count - errors
		list = append(list, f)
	}
	return list
}

// Count counts a command and how long it took.
func (c *Commands) Count(command int, ok bool, took time.Duration) {
	n := &c.counts[command]
	n.times.Observe(took)
	if !ok {
		n.errors.Add(1)
	}
}

// Tally counts the commands of one connection that are answered in the order in which they come. Those of a unit
// share two looks at the clock, one of which the write of the answers needs anyway.
type Tally struct {
	*Commands
	conn  *Conn
	began time.Duration
}

// NewTally returns what counts the commands of a connection.
func NewTally(commands *Commands, c *Conn) Tally { return Tally{Commands: commands, conn: c} }

// Begin is called when the first command of a unit has been read.
func (t *Tally) Begin() { t.began = t.conn.Clock() }

// Took returns how long what has begun took, and is about to be answered. What follows begins now.
func (t *Tally) Took() time.Duration {
	now := t.conn.Answering()
	took := now - t.began
	t.began = now
	return took
}

// Ended counts a command that is answered alone.
func (t *Tally) Ended(command int, ok bool) { t.Count(command, ok, t.Took()) }

// Served reports whether a command that may wait has done what it should: that nothing came in time, or before the
// server was stopped, is an answer, too.
func Served(err *job.Error) bool {
	return err == nil || err.Kind == job.Timeout || err.Kind == job.Canceled || err.Kind == job.Draining
}
