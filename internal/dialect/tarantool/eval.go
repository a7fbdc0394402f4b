package tarantool

import "millrace/internal/dialect/tarantool/iproto"

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
	e := chunk{lexer: lexer{rest: r.Expression}, args: &call.args, scratch: c.unit().scratch}
	ok := e.parse()
	c.unit().scratch = e.scratch
	if !ok {
		call.raise(textEval)
		return
	}
	call.quiet = !e.returns
	call.args = e.out
	switch {
	case e.isTest:
		call.name = e.name
		call.tubeExists()
	case e.isCall:
		call.name = e.name
		call.run()
	default:
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

// chunk is a piece of Lua of the few forms that mean something here:
//
//	[local NAME, ... = ... ;] [return] PATH(ARGS) [;]
//	[local NAME, ... = ... ;] [return] PATH:METHOD(ARGS) [;]
//	[local NAME, ... = ... ;] return PATH ~= nil [;]
//	[local NAME, ... = ... ;] return ARGS [;]
//
// A path begins with queue or box and goes on with .NAME, ['NAME'] or [LOCAL]. An
// argument is a local, a literal, {} or, as the last one, all arguments: "...".
type chunk struct {
	lexer
	args   *iproto.Args // of the request
	locals [localsMax][]byte
	count  int // of the locals

	returns bool
	isCall  bool
	isTest  bool        // whether there is something at the path
	name    []byte      // the path, and the method behind a colon
	out     iproto.Args // the arguments of the call, or the values to return
	scratch []byte      // holds what the two are made of
}

// localsMax is how many locals there may be.
const localsMax = 8

func (e *chunk) parse() bool {
	e.next()
	if e.isWord("local") && !e.parseLocals() {
		return false
	}
	if e.isWord("return") {
		e.returns = true
		e.next()
	}
	if !e.parseExpression() {
		return false
	}
	e.accept(";")
	return e.kind == tokenEnd
}

// parseLocals reads names that stand for the arguments.
func (e *chunk) parseLocals() bool {
	e.next()
	for {
		if e.kind != tokenWord || e.count == localsMax {
			return false
		}
		e.locals[e.count] = e.text
		e.count++
		e.next()
		if !e.accept(",") {
			break
		}
	}
	if !e.accept("=") || !e.accept("...") {
		return false
	}
	e.accept(";")
	return true
}

func (e *chunk) parseExpression() bool {
	if !e.isWord("queue") && !e.isWord("box") {
		return e.returns && e.parseValues(tokenEnd)
	}
	if !e.parsePath() {
		return false
	}
	switch {
	case e.accept("("):
		e.isCall = true
		return e.parseValues(")") && e.accept(")")
	case e.accept("~="):
		e.isTest = true
		ok := e.isWord("nil") && e.returns
		e.next()
		return ok
	}
	return false
}

// parsePath reads where a procedure is.
func (e *chunk) parsePath() bool {
	start := len(e.scratch)
	e.scratch = append(e.scratch, e.text...)
	for e.next(); ; {
		switch {
		case e.accept("."):
			if e.kind != tokenWord {
				return false
			}
			e.scratch = append(append(e.scratch, '.'), e.text...)
			e.next()
		case e.accept("["):
			key, ok := e.parseKey()
			if !ok || !e.accept("]") {
				return false
			}
			e.scratch = append(append(e.scratch, '.'), key...)
		case e.accept(":"):
			if e.kind != tokenWord {
				return false
			}
			e.scratch = append(append(e.scratch, ':'), e.text...)
			e.next()
			e.name = e.scratch[start:len(e.scratch):len(e.scratch)]
			return e.kind == "("
		default:
			e.name = e.scratch[start:len(e.scratch):len(e.scratch)]
			return true
		}
	}
}

// parseKey reads the name between brackets: a string, or a local that is one.
func (e *chunk) parseKey() ([]byte, bool) {
	var key []byte
	ok := false
	switch e.kind {
	case tokenString:
		key, ok = e.text, true
	case tokenWord:
		if i := e.local(); i >= 0 {
			key, ok = e.args.At(i).Bytes()
		}
	}
	e.next()
	return key, ok
}

// local returns which argument the word stands for, or -1.
func (e *chunk) local() int {
	for i := e.count - 1; i >= 0; i-- { // the later of two hides the earlier
		if string(e.locals[i]) == string(e.text) {
			return i
		}
	}
	return -1
}

// parseValues reads values up to a token that ends them, which stays.
func (e *chunk) parseValues(end string) bool {
	start, n := len(e.scratch), 0
	for e.kind != end && e.kind != ";" && e.kind != tokenEnd {
		if n > 0 && !e.accept(",") {
			return false
		}
		if e.kind == "..." {
			e.scratch = append(e.scratch, e.args.From(0)...)
			n += e.args.Count()
			e.next()
			break // only at the end it stands for all of them
		}
		if !e.parseValue() {
			return false
		}
		n++
	}
	e.out.Index(n, e.scratch[start:len(e.scratch):len(e.scratch)])
	return end == tokenEnd || e.kind == end
}
