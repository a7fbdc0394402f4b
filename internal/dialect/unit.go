package dialect

import (
	"sync"

	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// unitReplies and unitCommands bound a unit: commands of the client, and commands of the engine, of which one of
	// the client's may need many.
	unitReplies  = 128
	unitCommands = 1024
	// scratchKept is how much scratch a pooled unit keeps.
	scratchKept = 1 << 20
)

// Reply is what one command of a unit will be answered with.
type Reply struct {
	Verb   uint8  // what the client has asked for, and what the command counts as
	Text   string // of what is known before the engine is asked
	Failed bool   // that is an error
	// First is the index of the first of the engine's commands that belong to it, Count how many do.
	First, Count int
	// Kind, Number and More mean what the protocol wants them to mean.
	Kind   uint8
	Number uint32
	More   any
}

// Unit is a series of commands that are submitted together. Units are pooled: their commands are used again.
type Unit struct {
	engine.Request
	Replies []Reply
	Scratch []byte // what commands refer to and is no part of the input

	Pushes   Freelist[job.Push]
	Acks     Freelist[job.Ack]
	Fails    Freelist[job.Fail]
	Deletes  Freelist[job.Delete]
	Releases Freelist[job.Release]
	Buries   Freelist[job.Bury]
	Touches  Freelist[job.Touch]
	Kicks    Freelist[job.Kick]
}

var units = sync.Pool{New: func() any { return new(Unit) }}

// GetUnit returns an empty unit.
func GetUnit() *Unit {
	u, ok := units.Get().(*Unit)
	if !ok {
		return new(Unit)
	}
	return u
}

// Release empties the unit for another use. One that has grown is left to the garbage collector.
func (u *Unit) Release() {
	if cap(u.Commands) <= 2*unitCommands && cap(u.Scratch) <= scratchKept {
		u.Reset()
		units.Put(u)
	}
}

// Reset empties the unit.
func (u *Unit) Reset() {
	clear(u.Commands)
	u.Commands = u.Commands[:0]
	clear(u.Replies)
	u.Replies = u.Replies[:0]
	u.Scratch = u.Scratch[:0]
	u.Pushes.Release()
	u.Acks.Release()
	u.Fails.Release()
	u.Deletes.Release()
	u.Releases.Release()
	u.Buries.Release()
	u.Touches.Release()
	u.Kicks.Release()
}

func (u *Unit) full() bool { return len(u.Replies) >= unitReplies || len(u.Commands) >= unitCommands }

// Tell adds a reply that is known.
func (u *Unit) Tell(text string) { u.Replies = append(u.Replies, Reply{Text: text}) }

// Refuse adds an error reply.
func (u *Unit) Refuse(text string) { u.Replies = append(u.Replies, Reply{Text: text, Failed: true}) }

// Add adds a command and the reply that will tell its result.
func (u *Unit) Add(cmd job.Command) { u.AddReply(Reply{}, cmd) }

// AddReply does the same with a reply that says more.
func (u *Unit) AddReply(r Reply, cmd job.Command) {
	r.First, r.Count = len(u.Commands), 1
	u.Commands = append(u.Commands, cmd)
	u.Replies = append(u.Replies, r)
}

// Result returns the result of the command of a reply that has one.
func (u *Unit) Result(r *Reply) *job.Result { return &u.Results[r.First] }
