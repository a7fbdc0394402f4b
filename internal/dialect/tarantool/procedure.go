package tarantool

import (
	"os"
	"slices"
	"time"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/legacy"
	"millrace/internal/dialect/tarantool/proc"
)

// api is one of the two sets of procedures.
type api uint8

const (
	apiNone api = iota
	apiLegacy
	apiQueue
)

// run finds the procedure by the call's name and runs it.
func (p *iprotoWire) run(c *proc.Call) {
	if n := p.queue.Find(c.Name); n >= 0 {
		p.uses, c.CountAs = apiQueue, firstQueue+n
		p.queue.Run(n, c)
		return
	}
	if n := legacy.Find(c.Name); n >= 0 {
		c.CountAs = firstLegacy + n
		switch {
		case string(c.Name) != legacy.Statistics:
			p.uses = apiLegacy
		case p.wantsTubes(c):
			p.queue.Stats(c)
			return
		}
		p.d.legacy.Run(n, c)
		return
	}
	p.runBox(c)
}

// wantsTubes decides which queue.statistics is meant: it is today's if the
// first argument names a tube, else the legacy one. Without one it is that of the set
// which the connection uses.
func (p *iprotoWire) wantsTubes(c *proc.Call) bool {
	arg := c.Args.At(0)
	if arg.IsNil() && c.Args.At(1).IsNil() {
		return p.uses == apiQueue || p.uses == apiNone && !p.d.legacy.Used() && p.queue.HasTubes(c)
	}
	name, ok := arg.Bytes()
	if !ok {
		return false
	}
	if p.queue.HasTube(name) {
		return true
	}
	_, number := arg.NumberOrText()
	return !number
}

// boxNames are the procedures that are about the server itself.
var boxNames = []string{"box.cfg", "box.info", "box.session.id"}

// runBox runs a procedure that is about the server itself.
func (p *iprotoWire) runBox(c *proc.Call) {
	n := slices.Index(boxNames, string(c.Name))
	c.CountAs = firstBox + n
	switch n {
	case 0:
		c.Nothing()
	case 1:
		p.d.info(c)
	case 2:
		r := c.Begin()
		r.Lone()
		r.Uint64(c.Conn.ID())
		c.End(&r)
	default:
		c.CountAs = commandUnknown
		c.Fail(iproto.CodeNoProcedure, "Procedure '"+string(c.Name)+"' is not defined")
	}
}

// info is box.info: what tools ask about a server.
func (d *Dialect) info(c *proc.Call) {
	r := c.Begin()
	r.Lone()
	r.Map(8)
	r.Str("version")
	r.Str(version + "-millrace")
	r.Str("status")
	r.Str("running")
	r.Str("ro")
	r.Bool(false)
	r.Str("id")
	r.Uint64(1)
	r.Str("uuid")
	r.Str(d.instance.String())
	r.Str("pid")
	r.Uint64(uint64(os.Getpid())) //nolint:gosec // positive
	r.Str("uptime")
	r.Uint64(uint64(time.Since(d.started) / time.Second)) //nolint:gosec // positive
	r.Str("package")
	r.Str("Tarantool")
	c.End(&r)
}
