package tarantool

import (
	"os"
	"slices"
	"time"

	"millrace/internal/dialect/tarantool/iproto"
)

// api is one of the two sets of procedures.
type api uint8

const (
	apiNone api = iota
	apiLegacy
	apiQueue
)

// run finds the procedure by the call's name and runs it.
func (p *iprotoWire) run(c *call) {
	if n := p.queue.find(c.name); n >= 0 {
		p.uses, c.command = apiQueue, firstQueue+n
		p.queue.run(n, c)
		return
	}
	if n := findLegacy(c.name); n >= 0 {
		c.command = firstLegacy + n
		switch {
		case string(c.name) != statisticsName:
			p.uses = apiLegacy
		case p.wantsTubes(c):
			p.queue.stats(c)
			return
		}
		p.d.legacy.run(n, c)
		return
	}
	p.runBox(c)
}

// wantsTubes decides which queue.statistics is meant: it is today's if the
// first argument names a tube, else the legacy one. Without one it is that of the set
// which the connection uses.
func (p *iprotoWire) wantsTubes(c *call) bool {
	arg := c.args.At(0)
	if arg.IsNil() && c.args.At(1).IsNil() {
		return p.uses == apiQueue || p.uses == apiNone && !p.d.legacy.stats.used() && p.queue.hasTube(c)
	}
	name, ok := arg.Bytes()
	if !ok {
		return false
	}
	if p.queue.findTube(name) != nil {
		return true
	}
	_, number := arg.NumberOrText()
	return !number
}

// boxNames are the procedures that are about the server itself.
var boxNames = []string{"box.cfg", "box.info", "box.session.id"}

// runBox runs a procedure that is about the server itself.
func (p *iprotoWire) runBox(c *call) {
	n := slices.Index(boxNames, string(c.name))
	c.command = firstBox + n
	switch n {
	case 0:
		c.nothing()
	case 1:
		p.d.info(c)
	case 2:
		r := c.begin()
		r.lone()
		r.u64(c.conn.id())
		c.end(&r)
	default:
		c.command = commandUnknown
		c.fail(iproto.CodeNoProcedure, "Procedure '"+string(c.name)+"' is not defined")
	}
}

// info is box.info: what tools ask about a server.
func (d *Dialect) info(c *call) {
	r := c.begin()
	r.lone()
	r.mapOf(8)
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
