package tarantool

import (
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/lua"
)

// eval does EVAL. There is no Lua here: what clients of the queue module send is
// recognised, and is the call of a procedure (protocol section A.7).
func (p *iprotoWire) eval(c *conn) {
	r := &p.req
	if r.Expression == nil {
		p.missing(c, "expression")
		return
	}
	if p.d.opts.RequireLogin && p.user == guest {
		p.fail(c, iproto.CodeAccess, "Execute access to universe '' is denied for user '"+p.user+"'")
		return
	}
	call := c.newCall(r.Sync)
	call.command = commandEval
	call.args.Set(r.Tuple)
	chunk, scratch, ok := lua.Parse(r.Expression, &call.args, c.unit().scratch)
	c.unit().scratch = scratch
	if !ok {
		call.raise(textEval)
		return
	}
	call.quiet, call.name, call.args = !chunk.Returns, chunk.Name, chunk.Args
	switch chunk.Kind {
	case lua.Test:
		p.queue.tubeExists(call)
	case lua.Call:
		p.run(call)
	case lua.Values:
		call.values()
	}
}

const textEval = "eval:1: only queue calls are supported"

// values answers with the arguments themselves.
func (c *call) values() {
	r := c.begin()
	for i := range c.args.Count() {
		r.lone()
		r.data(c.args.At(i))
	}
	c.end(&r)
}
