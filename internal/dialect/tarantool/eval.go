package tarantool

import (
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/lua"
	"millrace/internal/dialect/tarantool/proc"
)

// eval does EVAL. There is no Lua here: what clients of the queue module send is
// recognised, and is the call of a procedure (protocol section A.7).
func (p *iprotoWire) eval(c *proc.Conn) {
	r := &p.req
	if r.Expression == nil {
		p.missing(c, "expression")
		return
	}
	if p.d.opts.RequireLogin && p.user == guest {
		p.fail(c, iproto.CodeAccess, "Execute access to universe '' is denied for user '"+p.user+"'")
		return
	}
	call := c.NewCall(r.Sync)
	call.CountAs = commandEval
	call.Args.Set(r.Tuple)
	chunk, scratch, ok := lua.Parse(r.Expression, &call.Args, c.Scratch())
	c.SetScratch(scratch)
	if !ok {
		call.Raise(textEval)
		return
	}
	call.Quiet, call.Name, call.Args = !chunk.Returns, chunk.Name, chunk.Args
	switch chunk.Kind {
	case lua.Test:
		p.queue.TubeExists(call)
	case lua.Call:
		p.run(call)
	case lua.Values:
		values(call)
	}
}

const textEval = "eval:1: only queue calls are supported"

// values answers with the arguments themselves.
func values(c *proc.Call) {
	r := c.Begin()
	for i := range c.Args.Count() {
		r.Lone()
		r.Data(c.Args.At(i))
	}
	c.End(&r)
}
