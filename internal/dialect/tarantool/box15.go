package tarantool

import (
	"errors"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/box15"
	"millrace/internal/dialect/tarantool/legacy"
	"millrace/internal/dialect/tarantool/proc"
)

// name15 is the name of the 1.5 protocol in the log and in the configuration.
const name15 = "tarantool15"

// Box15 returns what serves connections that speak the protocol of Tarantool 1.5. That protocol knows no users: whoever
// connects may call every legacy procedure.
func (d *Dialect) Box15() *dialect.Server { return d.server15 }

// box15Wire is the wire protocol of Tarantool 1.5: the client speaks first, and every packet stands for itself.
type box15Wire struct {
	legacy *legacy.API
	proved bool // a packet was of a known type, so that the peer speaks this protocol
}

// Greeting is empty.
func (*box15Wire) Greeting() []byte { return nil }

// Frame reads the size in the header of a packet. The first one must be of a type that the protocol has: the peer may
// be a browser, and a web page could choose where in its request a packet begins.
func (p *box15Wire) Frame(in []byte) (uint64, error) {
	if len(in) < box15.HeaderSize {
		return 0, nil
	}
	h := box15.ParseHeader(in)
	if p.proved = p.proved || h.Known(); !p.proved {
		return 0, dialect.ErrForeign
	}
	return box15.HeaderSize + uint64(h.Size), nil
}

// The error texts of the 1.5 protocol (protocol section A2).
const (
	box15TextBody    = "Illegal parameters, malformed packet body"
	box15TextLong    = "Illegal parameters, the packet is too large"
	box15TextCommand = "Unsupported command"
)

// Refuse answers a packet that is too long, or that is none of this protocol.
func (*box15Wire) Refuse(c *proc.Conn, err error) {
	switch {
	case errors.Is(err, proc.ErrTooLong):
		box15Fail(c, box15.ParseHeader(c.Peek()), box15.CodeBadParams, box15TextLong)
	case errors.Is(err, dialect.ErrForeign):
		box15Fail(c, box15.ParseHeader(c.Peek()), box15.CodeUnsupported, box15TextCommand)
	}
}

// Goodbye has no words for a server that stops.
func (*box15Wire) Goodbye(*proc.Conn) {}

// Leave has nothing to do: there are no sessions.
func (*box15Wire) Leave() {}

func (p *box15Wire) Packet(c *proc.Conn, packet []byte) {
	h, body := box15.ParseHeader(packet), packet[box15.HeaderSize:]
	switch h.Kind {
	case box15.KindPing:
		c.SetOut(box15.Begin(c.Out(), h))
		c.Count(commandPing, true)
	case box15.KindCall:
		p.call(c, h, body)
	default: // there are no tuples here to select or change
		box15Fail(c, h, box15.CodeUnsupported, box15TextCommand)
	}
}

// box15Fail answers a packet that leads to no procedure.
func box15Fail(c *proc.Conn, h box15.Header, code uint32, text string) {
	c.SetOut(box15.AppendError(c.Out(), h, code, text))
	c.Count(commandUnknown, false)
}

// call calls a legacy procedure: others are not to be had from here.
func (p *box15Wire) call(c *proc.Conn, h box15.Header, body []byte) {
	name, fields, err := box15.ParseCall(body)
	if err != nil {
		box15Fail(c, h, box15.CodeBadParams, box15TextBody)
		return
	}
	n := legacy.Find(name)
	if n < 0 {
		box15Fail(c, h, box15.CodeNoProcedure, "Procedure '"+string(name)+"' is not defined")
		return
	}
	call := c.NewCall(uint64(h.Sync))
	call.Shape = proc.ShapeBox15
	call.Name, call.CountAs = name, firstLegacy+n
	scratch := c.Scratch()
	start := len(scratch)
	scratch, count := fields.AppendMsgPack(scratch)
	c.SetScratch(scratch)
	call.Args.Index(count, scratch[start:len(scratch):len(scratch)])
	p.legacy.Run(n, call)
}
