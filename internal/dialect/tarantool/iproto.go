package tarantool

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
)

// version is what the greeting announces: connectors decide by it what to expect.
const version = "2.11.0"

// iproto is the state of a connection that speaks IPROTO.
type iproto struct {
	d       *Dialect
	salt    [32]byte
	user    string // as whom the client has logged in
	req     request
	failed  bool            // the packet was answered with an error
	proved  bool            // a packet was well-formed, so that the peer speaks this protocol
	broken  int             // malformed packets in a row
	watched map[string]bool // the events that the client watches
}

func newIProto(d *Dialect) *iproto {
	p := &iproto{d: d, user: guest}
	_, _ = rand.Read(p.salt[:]) // never fails
	return p
}

const (
	greetingSize = 128
	greetingLine = 64
)

// greeting is two lines: who speaks, and the salt of this connection.
func (p *iproto) greeting() []byte {
	b := make([]byte, 0, greetingSize)
	b = append(b, "Tarantool "+version+" (Binary) "...)
	b = p.d.instance.Append(b)
	b = append(pad(b, greetingLine-1), '\n')
	b = base64.StdEncoding.AppendEncode(b, p.salt[:])
	return append(pad(b, greetingSize-1), '\n')
}

func pad(b []byte, size int) []byte {
	for len(b) < size {
		b = append(b, ' ')
	}
	return b
}

// frame reads the length before a packet.
func (p *iproto) frame(in []byte) (uint64, error) {
	if p.broken > 0 && !p.proved {
		return 0, dialect.ErrForeign
	}
	if len(in) == 0 {
		return 0, nil
	}
	head := sizeOfSize(in[0])
	if head == 0 || p.broken >= brokenMax {
		return 0, errFrame
	}
	if len(in) < head {
		return 0, nil
	}
	size := sizeAt(in)
	if size > math.MaxInt64 {
		return 0, errTooLong
	}
	return uint64(head) + size, nil //nolint:gosec // small
}

// brokenMax is how many malformed packets in a row are answered. A client that sends as many has lost track of where
// its packets begin. Before the first well-formed packet none is allowed: the peer may be a browser, and a web page
// could choose where in its request a packet begins.
const brokenMax = 1000

// sizeOfSize returns how many bytes the length of a packet has; zero if it is none.
func sizeOfSize(first byte) int {
	switch {
	case first <= mpFixintMax:
		return 1
	case first >= mpUint8 && first <= mpUint64:
		return 1 + 1<<(first-mpUint8)
	default:
		return 0
	}
}

// sizeAt returns the length that in begins with, all of which is there.
func sizeAt(in []byte) uint64 {
	switch in[0] {
	case mpUint8:
		return uint64(in[1])
	case mpUint16:
		return uint64(binary.BigEndian.Uint16(in[1:]))
	case mpUint32:
		return uint64(binary.BigEndian.Uint32(in[1:]))
	case mpUint64:
		return binary.BigEndian.Uint64(in[1:])
	default:
		return uint64(in[0])
	}
}

func (p *iproto) refuse(c *conn, err error) {
	if errors.Is(err, dialect.ErrForeign) {
		return // the packet was answered
	}
	text := textMsgPack + "packet length"
	if errors.Is(err, errTooLong) {
		text = textMsgPack + "packet too long"
	}
	c.SetOut(appendError(c.Out(), 0, codeMsgPack, text))
}

const textMsgPack = "Invalid MsgPack - "

// packet does one request.
func (p *iproto) packet(c *conn, packet []byte) {
	content := packet[sizeOfSize(packet[0]):]
	if len(content) == 0 {
		return
	}
	r := &p.req
	if err := r.parse(content); err != nil {
		p.broken++
		p.fail(c, codeMsgPack, textMsgPack+err.Error())
		c.count(commandUnknown, false)
		return
	}
	p.proved, p.broken, p.failed = true, 0, false
	p.do(c)
	asked := packetCommand(r.kind)
	if asked != commandCall && asked != commandEval || p.failed { // else there is a call, which counts itself
		c.count(asked, !p.failed)
	}
}

// packetCommand is what a packet counts as.
func packetCommand(kind uint64) command {
	switch kind {
	case typeCall, typeCall16:
		return commandCall
	case typePing, typeNop:
		return commandPing
	case typeEval:
		return commandEval
	case typeSelect:
		return commandSelect
	case typeAuth:
		return commandAuth
	case typeID:
		return commandID
	case typeWatch:
		return commandWatch
	case typeUnwatch:
		return commandUnwatch
	case typeWatchOnce:
		return commandWatchOnce
	case typeInsert, typeReplace, typeUpdate, typeDelete, typeUpsert:
		return commandChange
	case typeExecute, typePrepare:
		return commandSQL
	}
	return commandUnknown
}

// do does what the request asks for.
func (p *iproto) do(c *conn) {
	r := &p.req
	switch r.kind {
	case typeCall, typeCall16:
		p.call(c)
	case typePing, typeNop:
		p.ok(c)
	case typeEval:
		p.eval(c)
	case typeSelect:
		p.selects(c)
	case typeAuth:
		p.auth(c)
	case typeID:
		p.identify(c)
	case typeWatch:
		p.watch(c)
	case typeUnwatch:
		p.unwatch(c)
	case typeWatchOnce:
		p.watchOnce(c)
	case typeInsert, typeReplace, typeUpdate, typeDelete, typeUpsert:
		p.change(c)
	case typeExecute, typePrepare:
		p.fail(c, codeUnsupported, "SQL is not supported")
	default:
		p.fail(c, codeUnknownType, "Unknown request type "+strconv.FormatUint(r.kind, 10))
	}
}

// fail answers the request with an error.
func (p *iproto) fail(c *conn, code errorCode, text string) {
	p.failed = true
	c.SetOut(appendError(c.Out(), p.req.sync, code, text))
}

// missing answers that a field of the body is missing.
func (p *iproto) missing(c *conn, field string) {
	p.fail(c, codeNoField, "Missing mandatory field '"+field+"' in request")
}

// ok answers with an empty body.
func (p *iproto) ok(c *conn) {
	out := c.Out()
	start := len(out)
	out = append(appendHead(out, 0, p.req.sync), 0x80)
	setSize(out, start)
	c.SetOut(out)
}

// list answers an empty list.
func (p *iproto) list(c *conn) {
	out := c.Out()
	start := len(out)
	out = append(appendHead(out, 0, p.req.sync), 0x81, keyData, 0x90)
	setSize(out, start)
	c.SetOut(out)
}

// protocolVersion and what follows is what the server says about itself (A.6).
const (
	protocolVersion = 3
	featureWatchers = 3
)

// identify tells what the server can do.
func (p *iproto) identify(c *conn) {
	out := c.Out()
	start := len(out)
	out = appendHead(out, 0, p.req.sync)
	out = append(out, 0x83, keyVersion, protocolVersion, keyFeatures, 0x91, featureWatchers, keyAuthType)
	out = msgp.AppendString(out, authMethod)
	setSize(out, start)
	c.SetOut(out)
}

// call calls a procedure by its name.
func (p *iproto) call(c *conn) {
	r := &p.req
	if r.function == nil {
		p.missing(c, "function name")
		return
	}
	if p.denied(c, r.function) {
		return
	}
	call := c.newCall(r.sync)
	if r.kind == typeCall16 {
		call.shape = shapeCall16
	}
	call.name = r.function
	call.args.set(r.tuple) // an array, as parse has seen to
	call.run()
}

// systemSpaces are the spaces that every database has, with the views of them.
// Here they are empty.
func systemSpace(id uint64) bool {
	switch id {
	case 272, 276, 277, 280, 281, 284, 288, 289, 296, 297, 304, 305, 312, 313:
		return true
	}
	return false
}

// selects answers a SELECT: the system spaces are empty, others do not exist.
func (p *iproto) selects(c *conn) {
	switch {
	case !p.req.hasSpace:
		p.missing(c, "space id")
	case systemSpace(p.req.space):
		p.list(c)
	default:
		p.noSpace(c)
	}
}

func (p *iproto) noSpace(c *conn) {
	p.fail(c, codeNoSpace, "Space '"+strconv.FormatUint(p.req.space, 10)+"' does not exist")
}

// change answers a request to change a space.
func (p *iproto) change(c *conn) {
	switch {
	case !p.req.hasSpace:
		p.missing(c, "space id")
	case systemSpace(p.req.space):
		p.fail(c, codeAccess, "Write access to space '"+strconv.FormatUint(p.req.space, 10)+
			"' is denied for user '"+p.user+"'")
	default:
		p.noSpace(c)
	}
}
