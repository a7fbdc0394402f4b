package tarantool

import (
	"crypto/rand"
	"errors"
	"strconv"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/dialect/tarantool/queue"
)

// version is what the greeting announces: connectors decide by it what to expect.
const version = "2.11.0"

// iprotoWire is the state of a connection that speaks IPROTO.
type iprotoWire struct {
	d       *Dialect
	salt    [iproto.SaltSize]byte
	user    string // as whom the client has logged in
	queue   *queue.Client
	uses    api // the set of procedures of the last call
	req     iproto.Request
	failed  bool            // the packet was answered with an error
	proved  bool            // a packet was well-formed, so that the peer speaks this protocol
	broken  int             // malformed packets in a row
	watched map[string]bool // the events that the client watches
}

func newIProto(d *Dialect, c *proc.Conn) *iprotoWire {
	p := &iprotoWire{d: d, user: guest, queue: d.queue.NewClient(c)}
	_, _ = rand.Read(p.salt[:]) // never fails
	return p
}

func (p *iprotoWire) Greeting() []byte {
	return iproto.Greeting(version, p.d.instance.Append(nil), &p.salt)
}

// Frame reads the length before a packet.
func (p *iprotoWire) Frame(in []byte) (uint64, error) {
	if p.broken > 0 && !p.proved {
		return 0, dialect.ErrForeign
	}
	if len(in) > 0 && p.broken >= brokenMax {
		return 0, iproto.ErrFrame
	}
	return iproto.Frame(in)
}

// brokenMax is how many malformed packets in a row are answered. A client that sends as many has lost track of where
// its packets begin. Before the first well-formed packet none is allowed: the peer may be a browser, and a web page
// could choose where in its request a packet begins.
const brokenMax = 1000

func (p *iprotoWire) Refuse(c *proc.Conn, err error) {
	if errors.Is(err, dialect.ErrForeign) {
		return // the packet was answered
	}
	text := textMsgPack + "packet length"
	if errors.Is(err, proc.ErrTooLong) {
		text = textMsgPack + "packet too long"
	}
	c.SetOut(iproto.AppendError(c.Out(), 0, iproto.CodeMsgPack, text))
}

const textMsgPack = "Invalid MsgPack - "

// Packet does one request.
func (p *iprotoWire) Packet(c *proc.Conn, packet []byte) {
	content := iproto.Content(packet)
	if len(content) == 0 {
		return
	}
	r := &p.req
	if err := r.Parse(content); err != nil {
		p.broken++
		p.fail(c, iproto.CodeMsgPack, textMsgPack+err.Error())
		c.Count(commandUnknown, false)
		return
	}
	p.proved, p.broken, p.failed = true, 0, false
	var asked request
	if r.Kind < uint64(len(requests)) {
		asked = requests[r.Kind]
	}
	if asked.do == nil {
		asked.do = (*iprotoWire).unknown
	}
	asked.do(p, c)
	// else there is a call, which counts itself
	if asked.command != commandCall && asked.command != commandEval || p.failed {
		c.Count(asked.command, !p.failed)
	}
}

// request is what a type of packets counts as, and what does it.
type request struct {
	command int
	do      func(*iprotoWire, *proc.Conn)
}

var requests = [...]request{
	iproto.TypeCall:      {commandCall, (*iprotoWire).call},
	iproto.TypeCall16:    {commandCall, (*iprotoWire).call},
	iproto.TypePing:      {commandPing, (*iprotoWire).ok},
	iproto.TypeNop:       {commandPing, (*iprotoWire).ok},
	iproto.TypeEval:      {commandEval, (*iprotoWire).eval},
	iproto.TypeSelect:    {commandSelect, (*iprotoWire).selects},
	iproto.TypeAuth:      {commandAuth, (*iprotoWire).auth},
	iproto.TypeID:        {commandID, (*iprotoWire).identify},
	iproto.TypeWatch:     {commandWatch, (*iprotoWire).watch},
	iproto.TypeUnwatch:   {commandUnwatch, (*iprotoWire).unwatch},
	iproto.TypeWatchOnce: {commandWatchOnce, (*iprotoWire).watchOnce},
	iproto.TypeInsert:    {commandChange, (*iprotoWire).change},
	iproto.TypeReplace:   {commandChange, (*iprotoWire).change},
	iproto.TypeUpdate:    {commandChange, (*iprotoWire).change},
	iproto.TypeDelete:    {commandChange, (*iprotoWire).change},
	iproto.TypeUpsert:    {commandChange, (*iprotoWire).change},
	iproto.TypeExecute:   {commandSQL, (*iprotoWire).sql},
	iproto.TypePrepare:   {commandSQL, (*iprotoWire).sql},
}

func (p *iprotoWire) unknown(c *proc.Conn) {
	p.fail(c, iproto.CodeUnknownType, "Unknown request type "+strconv.FormatUint(p.req.Kind, 10))
}

func (p *iprotoWire) sql(c *proc.Conn) { p.fail(c, iproto.CodeUnsupported, "SQL is not supported") }

func (p *iprotoWire) identify(c *proc.Conn) { c.SetOut(iproto.AppendID(c.Out(), p.req.Sync)) }

// fail answers the request with an error.
func (p *iprotoWire) fail(c *proc.Conn, code iproto.Code, text string) {
	p.failed = true
	c.SetOut(iproto.AppendError(c.Out(), p.req.Sync, code, text))
}

// missing answers that a field of the body is missing.
func (p *iprotoWire) missing(c *proc.Conn, field string) {
	p.fail(c, iproto.CodeNoField, "Missing mandatory field '"+field+"' in request")
}

// ok answers with an empty body.
func (p *iprotoWire) ok(c *proc.Conn) { c.SetOut(iproto.AppendOK(c.Out(), p.req.Sync)) }

// list answers an empty list.
func (p *iprotoWire) list(c *proc.Conn) { c.SetOut(iproto.AppendNone(c.Out(), p.req.Sync)) }

// call calls a procedure by its name.
func (p *iprotoWire) call(c *proc.Conn) {
	r := &p.req
	if r.Function == nil {
		p.missing(c, "function name")
		return
	}
	if p.denied(c, r.Function) {
		return
	}
	call := c.NewCall(r.Sync)
	if r.Kind == iproto.TypeCall16 {
		call.Shape = proc.ShapeCall16
	}
	call.Name = r.Function
	call.Args.Set(r.Tuple) // an array, as parse has seen to
	p.run(call)
}

// systemSpace reports whether a space is one that every database has, or a view of one.
// Here they are empty.
func systemSpace(id uint64) bool {
	switch id {
	case 272, 276, 277, 280, 281, 284, 288, 289, 296, 297, 304, 305, 312, 313:
		return true
	}
	return false
}

// selects answers a SELECT: the system spaces are empty, others do not exist.
func (p *iprotoWire) selects(c *proc.Conn) {
	switch {
	case !p.req.HasSpace:
		p.missing(c, "space id")
	case systemSpace(p.req.Space):
		p.list(c)
	default:
		p.noSpace(c)
	}
}

func (p *iprotoWire) noSpace(c *proc.Conn) {
	p.fail(c, iproto.CodeNoSpace, "Space '"+strconv.FormatUint(p.req.Space, 10)+"' does not exist")
}

// change answers a request to change a space.
func (p *iprotoWire) change(c *proc.Conn) {
	switch {
	case !p.req.HasSpace:
		p.missing(c, "space id")
	case systemSpace(p.req.Space):
		p.fail(c, iproto.CodeAccess, "Write access to space '"+strconv.FormatUint(p.req.Space, 10)+
			"' is denied for user '"+p.user+"'")
	default:
		p.noSpace(c)
	}
}
