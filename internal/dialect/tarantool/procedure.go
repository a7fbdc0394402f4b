package tarantool

import (
	"bytes"
	"millrace/internal/dialect/tarantool/iproto"
	"os"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// newCall returns an empty call.
func (c *conn) newCall(sync uint64) *call {
	call := c.unit().all.Get()
	call.conn, call.sync, call.began = c, sync, c.began
	return call
}

// run finds the procedure by the call's name and runs it.
func (c *call) run() {
	if c.command = c.find(); c.command == commandUnknown {
		c.fail(iproto.CodeNoProcedure, "Procedure '"+string(c.name)+"' is not defined")
		return
	}
	if uses := apiOf(c.command); uses != apiNone {
		c.conn.uses = uses
	}
	if c.command == commandLegacyStatistics && c.isModernStatistics() {
		stats(c)
		return
	}
	commands[c.command].run(c)
}

const methodPrefix = "queue.tube."

// find returns the command of the call's name, unknown if there is none. The methods of a tube get the tube.
func (c *call) find() command {
	if rest, ok := bytes.CutPrefix(c.name, []byte(methodPrefix)); ok {
		colon := bytes.LastIndexByte(rest, ':')
		if colon <= 0 {
			return commandUnknown
		}
		found := method(rest[colon+1:])
		if found == commandUnknown {
			return commandUnknown
		}
		if c.tube = c.findTube(rest[:colon]); c.tube == nil {
			return commandUnknown
		}
		return found
	}
	switch string(c.name) {
	case "queue.create_tube":
		return commandCreateTube
	case "queue.tube":
		return commandTube
	case "queue.stats":
		return commandStats
	case "queue.identify":
		return commandIdentify
	case "queue.cfg":
		return commandConfigure
	case "queue.state":
		return commandState
	case "box.cfg":
		return commandBoxConfigure
	case "box.info":
		return commandBoxInfo
	case "box.session.id":
		return commandSessionID
	}
	return legacyProcedure(c.name)
}

// sessionID is box.session.id.
func sessionID(c *call) {
	r := c.begin()
	r.lone()
	r.u64(c.conn.id())
	c.end(&r)
}

// info is box.info: what tools ask about a server.
func info(c *call) {
	d := c.conn.d
	r := c.begin()
	r.lone()
	r.out = msgp.AppendMapHeader(r.out, 8)
	r.str("version")
	r.str(version + "-millrace")
	r.str("status")
	r.str("running")
	r.str("ro")
	r.boolean(false)
	r.str("id")
	r.u64(1)
	r.str("uuid")
	r.str(d.instance.String())
	r.str("pid")
	r.u64(uint64(os.Getpid())) //nolint:gosec // positive
	r.str("uptime")
	r.u64(uint64(time.Since(d.started) / time.Second)) //nolint:gosec // positive
	r.str("package")
	r.str("Tarantool")
	c.end(&r)
}
