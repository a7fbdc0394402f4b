package tarantool

import (
	"millrace/internal/auth"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
)

// guest is who a connection is before it has logged in.
const guest = "guest"

// auth does AUTH. A failure leaves the connection as it was.
func (p *iprotoWire) auth(c *proc.Conn) {
	r := &p.req
	if r.User == nil {
		p.missing(c, "user name")
		return
	}
	if r.Tuple == nil {
		p.missing(c, "tuple")
		return
	}
	n, elements, _ := r.Tuple.Array()
	if n == 0 && string(r.User) == guest {
		p.user = guest
		p.ok(c)
		return
	}
	if n < 2 {
		p.fail(c, iproto.CodeMsgPack, textMsgPack+"authentication request body")
		return
	}
	method, rest := iproto.Cut(elements)
	scramble, _ := iproto.Cut(rest)
	if name, ok := method.Bytes(); !ok || string(name) != iproto.AuthMethod {
		p.fail(c, iproto.CodeMsgPack, textMsgPack+"authentication method")
		return
	}
	answer, ok := scramble.Bytes()
	switch {
	case !ok:
		p.fail(c, iproto.CodeMsgPack, textMsgPack+"authentication scramble")
	case len(answer) != iproto.ScrambleSize:
		p.fail(c, iproto.CodeMsgPack, textMsgPack+"invalid scramble size")
	default:
		p.logIn(c, answer)
	}
}

// logIn checks the answer of a user.
func (p *iprotoWire) logIn(c *proc.Conn, answer []byte) {
	name := p.req.User
	attempt := auth.Attempt{Door: p.d.Name(), Peer: c.RemoteAddr().String()}
	if _, known := p.d.users[string(name)]; known {
		attempt.Account = string(name)
	}
	switch p.d.opts.Throttle.Check(attempt, func() bool { return p.d.users.Check(name, &p.salt, answer) }) {
	case auth.Right:
		p.user = string(name)
		p.ok(c)
	case auth.Limited:
		p.fail(c, iproto.CodeCredentials, "Too many incorrect passwords supplied from this address, try "+
			"again in a few seconds")
	case auth.Wrong:
		// The same words for an unknown user: strangers need not know who exists.
		p.fail(c, iproto.CodeCredentials, "Incorrect password supplied for user '"+string(name)+"'")
	}
}

// denied answers a guest who may not call anything, and reports whether it did.
func (p *iprotoWire) denied(c *proc.Conn, function []byte) bool {
	if !p.d.opts.RequireLogin || p.user != guest {
		return false
	}
	p.fail(c, iproto.CodeAccess, "Execute access to function '"+string(function)+"' is denied for user '"+p.user+"'")
	return true
}
