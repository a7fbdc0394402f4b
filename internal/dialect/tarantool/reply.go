package tarantool

import (
	"encoding/binary"
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// shape says how a caller wants to see what a procedure returns.
type shape uint8

const (
	shapeCall   shape = iota // CALL and EVAL: a list of values
	shapeCall16              // CALL_16: a list of tuples; a lone value is a tuple of one
	shapeBox15               // Tarantool 1.5: rows of fields, which are bytes
)

// reply is the answer to one call while it is being written. The values follow one
// another: each begins with tuple or lone, and then come its fields.
//
//	r := c.begin()
//	r.tuple(3)
//	r.u64(id)
//	r.str("r")
//	r.data(body)
//	c.end(&r)
type reply struct {
	out   []byte
	shape shape
	start int    // where the packet begins in out
	head  int    // where the number of values is
	count uint32 // values so far

	row    int    // shapeBox15: where the row begins that is open; zero: none is
	fields uint32 // of that row
}

// tuple begins a value that is an array of n fields.
func (r *reply) tuple(n int) {
	if r.shape == shapeBox15 {
		r.closeRow()
		r.row, r.fields = len(r.out), uint32(n) //nolint:gosec // bounded by the size of a packet
		r.out = beginBox15Row(r.out)
	} else {
		r.out = msgp.AppendArrayHeader(r.out, uint32(n)) //nolint:gosec // bounded by the size of a packet
	}
	r.count++
}

// lone begins a value that is no array: its one field follows.
func (r *reply) lone() {
	if r.shape == shapeCall {
		r.count++
		return
	}
	r.tuple(1)
}

// closeRow ends the row that is open.
func (r *reply) closeRow() {
	if r.row > 0 {
		r.out = endBox15Row(r.out, r.row, r.fields)
		r.row = 0
	}
}

// u32 adds a number that has four bytes in Tarantool 1.5.
func (r *reply) u32(n uint32) {
	if r.shape == shapeBox15 {
		r.out = appendBox15Uint32(r.out, n)
		return
	}
	r.out = msgp.AppendUint32(r.out, n)
}

// u64 adds a number that has eight bytes in Tarantool 1.5.
func (r *reply) u64(n uint64) {
	if r.shape == shapeBox15 {
		r.out = appendBox15Uint64(r.out, n)
		return
	}
	r.out = msgp.AppendUint64(r.out, n)
}

// str adds a string.
func (r *reply) str(s string) {
	if r.shape == shapeBox15 {
		r.out = appendBox15Field(r.out, s)
		return
	}
	r.out = msgp.AppendString(r.out, s)
}

// text adds a string that is in bytes.
func (r *reply) text(b []byte) {
	if r.shape == shapeBox15 {
		r.out = appendBox15Field(r.out, b)
		return
	}
	r.out = msgp.AppendStringFromBytes(r.out, b)
}

// decimal adds a number as a string.
func (r *reply) decimal(n int64) {
	var b [20]byte
	r.text(strconv.AppendInt(b[:0], n, 10))
}

// data adds one MessagePack value as it is. Tarantool 1.5 is shown the content of
// a string, the text of a number, and of anything else the MessagePack itself.
func (r *reply) data(v value) {
	if r.shape != shapeBox15 {
		r.out = append(r.out, v...)
		return
	}
	if b, ok := v.bytes(); ok {
		r.text(b)
	} else if n, ok := v.uint(); ok {
		var b [20]byte
		r.text(strconv.AppendUint(b[:0], n, 10))
	} else if n, ok := v.int(); ok {
		r.decimal(n)
	} else if f, ok := v.number(); ok {
		var b [32]byte
		r.text(strconv.AppendFloat(b[:0], f, 'g', -1, 64))
	} else {
		r.text(v)
	}
}

// boolean adds true or false; only today's procedures have such a value.
func (r *reply) boolean(b bool) { r.out = msgp.AppendBool(r.out, b) }

// null adds nil; only today's procedures have such a value.
func (r *reply) null() { r.out = append(r.out, mpNil) }

const (
	// schemaVersion never changes: a client that sees another one would read the
	// schema again.
	schemaVersion = 1

	statusError = 0x8000
)

// appendHead appends size and header of an IPROTO packet; setSize fills in the size.
func appendHead(b []byte, status uint32, sync uint64) []byte {
	b = append(b, 0xce, 0, 0, 0, 0, 0x83, keyType, 0xce)
	b = binary.BigEndian.AppendUint32(b, status)
	b = append(b, keySync, 0xcf)
	b = binary.BigEndian.AppendUint64(b, sync)
	return append(b, keySchema, 0xce, 0, 0, 0, schemaVersion)
}

// setSize fills in the size of the packet that begins at start and ends with b.
func setSize(b []byte, start int) {
	binary.BigEndian.PutUint32(b[start+1:], uint32(len(b)-start-5)) //nolint:gosec // bounded by the size of a packet
}

// begin begins the answer to a call that has succeeded. Nothing else may be
// answered before end.
func (c *call) begin() reply {
	r := reply{out: c.conn.Out(), shape: c.shape}
	r.start = len(r.out)
	if c.shape == shapeBox15 {
		r.out = beginBox15Rows(r.out, c.box15(), 0)
		r.head = len(r.out) - 4
		return r
	}
	r.out = appendHead(r.out, 0, c.sync)
	r.out = append(r.out, 0x81, keyData, 0xdd)
	r.head = len(r.out)
	r.out = append(r.out, 0, 0, 0, 0)
	return r
}

// end ends the answer that begin began.
func (c *call) end(r *reply) {
	if c.quiet {
		r.out, r.count = r.out[:r.head+4], 0
	}
	if c.shape == shapeBox15 {
		r.closeRow()
		binary.LittleEndian.PutUint32(r.out[r.head:], r.count)
		r.out = endBox15(r.out, r.start)
	} else {
		binary.BigEndian.PutUint32(r.out[r.head:], r.count)
		setSize(r.out, r.start)
	}
	c.conn.SetOut(r.out)
	c.count(true)
}

// nothing answers an empty list.
func (c *call) nothing() {
	r := c.begin()
	c.end(&r)
}

// fail answers an error.
func (c *call) fail(code errorCode, text string) {
	c.count(false)
	if c.shape == shapeBox15 {
		c.conn.SetOut(appendBox15Error(c.conn.Out(), c.box15(), box15Code(code), text))
		return
	}
	c.conn.SetOut(appendError(c.conn.Out(), c.sync, code, text))
}

// box15 is the header that the reply to a call of the 1.5 protocol repeats.
func (c *call) box15() box15Header {
	return box15Header{kind: box15Call, sync: uint32(c.sync & 0xffffffff)}
}

// box15Code returns the return code of the 1.5 protocol for an error.
func box15Code(code errorCode) uint32 {
	switch code { //nolint:exhaustive // the others are about what that protocol does not have
	case codeRaised:
		return box15LuaError
	case codeNoProcedure:
		return box15NoProcedure
	case codeUnsupported:
		return box15Unsupported
	default:
		return box15BadParams
	}
}

// raise answers an error as a procedure raises it.
func (c *call) raise(text string) { c.fail(codeRaised, text) }

// appendError appends an error packet. The text is never empty: clients tell an
// error by that.
func appendError(b []byte, sync uint64, code errorCode, text string) []byte {
	start := len(b)
	b = appendHead(b, statusError|uint32(code), sync)
	kind := "ClientError"
	if code == codeRaised {
		kind = "LuajitError"
	}
	b = append(b, 0x82, keyError)
	b = msgp.AppendString(b, text)
	b = append(b, keyErrorStack, 0x81, stackErrors, 0x91, 0x86, stackType)
	b = msgp.AppendString(b, kind)
	b = append(b, stackFile)
	b = msgp.AppendString(b, "millrace")
	b = append(b, stackLine, 1, stackText)
	b = msgp.AppendString(b, text)
	b = append(b, stackErrno, 0, stackCode)
	b = msgp.AppendUint32(b, uint32(code))
	setSize(b, start)
	return b
}
