package tarantool

import (
	"bytes"
	"os"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// newCall returns an empty call.
func (c *conn) newCall(sync uint64) *call {
	call := c.unit().all.Get()
	call.conn, call.sync = c, sync
	return call
}

// run finds the procedure by the call's name and runs it.
func (c *call) run() {
	if f := c.find(); f != nil {
		f(c)
		return
	}
	c.fail(codeNoProcedure, "Procedure '"+string(c.name)+"' is not defined")
}

const methodPrefix = "queue.tube."

// find returns the procedure of the call's name, nil if there is none. The methods
// of a tube get the tube.
func (c *call) find() procedure {
	if rest, ok := bytes.CutPrefix(c.name, []byte(methodPrefix)); ok {
		colon := bytes.LastIndexByte(rest, ':')
		if colon <= 0 {
			return nil
		}
		f := method(rest[colon+1:])
		if f == nil {
			return nil
		}
		if c.tube = c.findTube(rest[:colon]); c.tube == nil {
			return nil
		}
		return f
	}
	switch string(c.name) {
	case "queue.create_tube":
		return createTube
	case "queue.tube":
		return listTubes
	case "queue.stats":
		return stats
	case "queue.statistics":
		if c.isModernStatistics() {
			return stats
		}
	case "queue.identify":
		return identify
	case "queue.cfg":
		return configure
	case "queue.state":
		return state
	case "box.cfg":
		return (*call).nothing
	case "box.info":
		return info
	case "box.session.id":
		return sessionID
	}
	if f, ok := legacyProcedure(string(c.name)); ok {
		return f
	}
	return nil
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
