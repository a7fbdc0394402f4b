package tarantool

import (
	"errors"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
)

// name15 is the name of the 1.5 protocol in the log and in the configuration.
const name15 = "tarantool15"

// Box15 returns what serves connections that speak the protocol of Tarantool 1.5. That protocol knows no users: whoever
// connects may call every legacy procedure.
func (d *Dialect) Box15() *dialect.Server { return d.server15 }

// box15 is the wire protocol of Tarantool 1.5: the client speaks first, and every packet stands for itself.
type box15 struct {
	proved bool // a packet was of a known type, so that the peer speaks this protocol
}

// greeting is empty.
func (*box15) greeting() []byte { return nil }

// frame reads the size in the header of a packet. The first one must be of a type that the protocol has: the peer may
// be a browser, and a web page could choose where in its request a packet begins.
func (p *box15) frame(in []byte) (uint64, error) {
	if len(in) < box15HeaderSize {
		return 0, nil
	}
	h := parseBox15Header(in)
	if p.proved = p.proved || h.known(); !p.proved {
		return 0, dialect.ErrForeign
	}
	return box15HeaderSize + uint64(h.size), nil
}

// The error texts of the 1.5 protocol (protocol section A2).
const (
	box15TextBody    = "Illegal parameters, malformed packet body"
	box15TextLong    = "Illegal parameters, the packet is too large"
	box15TextCommand = "Unsupported command"
)

// refuse answers a packet that is too long, or that is none of this protocol.
func (*box15) refuse(c *conn, err error) {
	switch {
	case errors.Is(err, errTooLong):
		box15Fail(c, parseBox15Header(c.Peek()), box15BadParams, box15TextLong)
	case errors.Is(err, dialect.ErrForeign):
		box15Fail(c, parseBox15Header(c.Peek()), box15Unsupported, box15TextCommand)
	}
}

// goodbye has no words for a server that stops.
func (*box15) goodbye(*conn) {}

func (*box15) packet(c *conn, p []byte) {
	h, body := parseBox15Header(p), p[box15HeaderSize:]
	switch h.kind {
	case box15Ping:
		c.SetOut(beginBox15(c.Out(), h))
		c.count(commandPing, true)
	case box15Call:
		box15Run(c, h, body)
	default: // there are no tuples here to select or change
		box15Fail(c, h, box15Unsupported, box15TextCommand)
	}
}

// box15Fail answers a packet that leads to no procedure.
func box15Fail(c *conn, h box15Header, code uint32, text string) {
	c.SetOut(appendBox15Error(c.Out(), h, code, text))
	c.count(commandUnknown, false)
}

// box15Run calls a legacy procedure: others are not to be had from here.
func box15Run(c *conn, h box15Header, body []byte) {
	name, fields, err := parseBox15Call(body)
	if err != nil {
		box15Fail(c, h, box15BadParams, box15TextBody)
		return
	}
	found := legacyProcedure(name)
	if found == commandUnknown {
		box15Fail(c, h, box15NoProcedure, "Procedure '"+string(name)+"' is not defined")
		return
	}
	call := c.newCall(uint64(h.sync))
	call.shape = shapeBox15
	call.name, call.command = name, found
	setFields(&call.args, c.unit(), fields)
	commands[found].run(call)
}

// setFields makes MessagePack of the arguments of a 1.5 call: strings, or binary
// data if they are no text. It stays with the unit until that is answered.
func setFields(a *iproto.Args, u *unit, fields box15Fields) {
	start, n := len(u.scratch), fields.left
	for field, ok := fields.next(); ok; field, ok = fields.next() {
		if utf8.Valid(field) {
			u.scratch = msgp.AppendStringFromBytes(u.scratch, field)
		} else {
			u.scratch = msgp.AppendBytes(u.scratch, field)
		}
	}
	a.Index(n, u.scratch[start:len(u.scratch):len(u.scratch)])
}
