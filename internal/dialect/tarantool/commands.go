package tarantool

import "millrace/internal/dialect"

// command is what a client asks for, as it is counted: a procedure, or a packet that calls none.
type command uint8

const (
	commandUnknown command = iota

	// Packets. A call or a piece of Lua that leads to a procedure counts as that.
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

	// The methods of tubes.
	commandPut
	commandTake
	commandAck
	commandRelease
	commandPeek
	commandBury
	commandKick
	commandDelete
	commandTouch
	commandTruncate
	commandReleaseAll
	commandDrop
	commandGrant
	commandOnTaskChange

	// Procedures about tubes and the server.
	commandCreateTube
	commandTube
	commandStats
	commandIdentify
	commandConfigure
	commandState
	commandBoxConfigure
	commandBoxInfo
	commandSessionID

	// The legacy procedures.
	commandLegacyPut
	commandLegacyUrgent
	commandLegacyPutUnique
	commandLegacyTake
	commandLegacyAck
	commandLegacyDone
	commandLegacyRelease
	commandLegacyRequeue
	commandLegacyBury
	commandLegacyTouch
	commandLegacyDig
	commandLegacyUnbury
	commandLegacyKick
	commandLegacyDelete
	commandLegacyPeek
	commandLegacyMeta
	commandLegacyTruncate
	commandLegacyRestartCheck
	commandLegacyStatistics
	commandLegacyStatistic

	commandCount = int(commandLegacyStatistic) + 1
	// legacyFirst is the first of the legacy procedures, which are the last commands.
	legacyFirst = commandLegacyPut
)

// commands are the names of what is counted, and what runs the procedures among them.
var commands = [commandCount]struct {
	name string
	run  procedure
}{
	commandPing:               {"ping", nil},
	commandCall:               {"call", nil},
	commandEval:               {"eval", nil},
	commandSelect:             {"select", nil},
	commandChange:             {"change", nil},
	commandSQL:                {"sql", nil},
	commandAuth:               {"auth", nil},
	commandID:                 {"id", nil},
	commandWatch:              {"watch", nil},
	commandUnwatch:            {"unwatch", nil},
	commandWatchOnce:          {"watch_once", nil},
	commandPut:                {"put", put},
	commandTake:               {"take", take},
	commandAck:                {"ack", ack},
	commandRelease:            {"release", release},
	commandPeek:               {"peek", peek},
	commandBury:               {"bury", bury},
	commandKick:               {"kick", kick},
	commandDelete:             {"delete", remove},
	commandTouch:              {"touch", touch},
	commandTruncate:           {"truncate", truncate},
	commandReleaseAll:         {"release_all", releaseAll},
	commandDrop:               {"drop", drop},
	commandGrant:              {"grant", (*call).nothing},
	commandOnTaskChange:       {"on_task_change", (*call).nothing},
	commandCreateTube:         {"queue.create_tube", createTube},
	commandTube:               {"queue.tube", listTubes},
	commandStats:              {"queue.stats", stats},
	commandIdentify:           {"queue.identify", identify},
	commandConfigure:          {"queue.cfg", configure},
	commandState:              {"queue.state", state},
	commandBoxConfigure:       {"box.cfg", (*call).nothing},
	commandBoxInfo:            {"box.info", info},
	commandSessionID:          {"box.session.id", sessionID},
	commandLegacyPut:          {"queue.put", func(c *call) { c.legacyPut(false) }},
	commandLegacyUrgent:       {"queue.urgent", func(c *call) { c.legacyPut(true) }},
	commandLegacyPutUnique:    {"queue.put_unique", (*call).legacyPutUnique},
	commandLegacyTake:         {"queue.take", (*call).legacyTake},
	commandLegacyAck:          {"queue.ack", (*call).legacyAck},
	commandLegacyDone:         {"queue.done", (*call).legacyFinish},
	commandLegacyRelease:      {"queue.release", (*call).legacyRelease},
	commandLegacyRequeue:      {"queue.requeue", (*call).legacyRequeue},
	commandLegacyBury:         {"queue.bury", (*call).legacyBury},
	commandLegacyTouch:        {"queue.touch", (*call).legacyTouch},
	commandLegacyDig:          {"queue.dig", (*call).legacyDig},
	commandLegacyUnbury:       {"queue.unbury", (*call).legacyDig},
	commandLegacyKick:         {"queue.kick", (*call).legacyKick},
	commandLegacyDelete:       {"queue.delete", (*call).legacyDelete},
	commandLegacyPeek:         {"queue.peek", (*call).legacyPeek},
	commandLegacyMeta:         {"queue.meta", (*call).legacyShowMeta},
	commandLegacyTruncate:     {"queue.truncate", (*call).legacyTruncate},
	commandLegacyRestartCheck: {"queue.restart_check", (*call).legacyRestartCheck},
	commandLegacyStatistics:   {"queue.statistics", (*call).legacyStatistics},
	commandLegacyStatistic:    {"queue.statistic", (*call).legacyStatistics},
}

// newCommands makes the table that commands are counted in. Tarantool 1.5 knows only legacy procedures.
func newCommands(legacyOnly bool) *dialect.Commands {
	var names [commandCount]string
	for i := range commands {
		if !legacyOnly || command(i) >= legacyFirst || command(i) == commandPing {
			names[i] = commands[i].name
		}
	}
	return dialect.NewCommands(names[:]...)
}

// count counts the call, which is answered.
func (c *call) count(ok bool) {
	now := c.conn.rendering
	if now == 0 {
		now = c.conn.Clock()
	}
	c.conn.commands.Count(int(c.command), ok, now-c.began)
}

// count counts a packet that called no procedure.
func (c *conn) count(asked command, ok bool) {
	c.commands.Count(int(asked), ok, c.Clock()-c.began)
}
