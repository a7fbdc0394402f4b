package proc

import (
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/box15"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// Shape says how a caller wants to see what a procedure returns.
type Shape uint8

// The shapes.
const (
	ShapeCall   Shape = iota // CALL and EVAL: a list of values
	ShapeCall16              // CALL_16: a list of tuples; a lone value is a tuple of one
	ShapeBox15               // Tarantool 1.5: rows of fields, which are bytes
)

// Reply is the answer to one call while it is being written. The values follow one
// another: each begins with tuple or lone, and then come its fields.
//
//	r := c.Begin()
//	r.Tuple(3)
//	r.Uint64(id)
//	r.Str("r")
//	r.Data(body)
//	c.End(&r)
type Reply struct {
	out    []byte
	shape  Shape
	start  int    // where the packet begins in out
	values int    // where the values begin
	count  uint32 // values so far

	row    int    // ShapeBox15: where the row begins that is open; zero: none is
	fields uint32 // of that row
}

// Tuple begins a value that is an array of n fields.
func (r *Reply) Tuple(n int) {
	if r.shape == ShapeBox15 {
		r.closeRow()
		r.row, r.fields = len(r.out), uint32(n) //nolint:gosec // bounded by the size of a packet
		r.out = box15.BeginRow(r.out)
	} else {
		r.out = msgp.AppendArrayHeader(r.out, uint32(n)) //nolint:gosec // bounded by the size of a packet
	}
	r.count++
}

// Lone begins a value that is no array: its one field follows.
func (r *Reply) Lone() {
	if r.shape == ShapeCall {
		r.count++
		return
	}
	r.Tuple(1)
}

// closeRow ends the row that is open.
func (r *Reply) closeRow() {
	if r.row > 0 {
		r.out = box15.EndRow(r.out, r.row, r.fields)
		r.row = 0
	}
}

// Uint32 adds a number that has four bytes in Tarantool 1.5.
func (r *Reply) Uint32(n uint32) {
	if r.shape == ShapeBox15 {
		r.out = box15.AppendUint32(r.out, n)
		return
	}
	r.out = msgp.AppendUint32(r.out, n)
}

// Uint64 adds a number that has eight bytes in Tarantool 1.5.
func (r *Reply) Uint64(n uint64) {
	if r.shape == ShapeBox15 {
		r.out = box15.AppendUint64(r.out, n)
		return
	}
	r.out = msgp.AppendUint64(r.out, n)
}

// Str adds a string.
func (r *Reply) Str(s string) {
	if r.shape == ShapeBox15 {
		r.out = box15.AppendField(r.out, s)
		return
	}
	r.out = msgp.AppendString(r.out, s)
}

// Text adds a string that is in bytes.
func (r *Reply) Text(b []byte) {
	if r.shape == ShapeBox15 {
		r.out = box15.AppendField(r.out, b)
		return
	}
	r.out = msgp.AppendStringFromBytes(r.out, b)
}

// Decimal adds a number as a string.
func (r *Reply) Decimal(n int64) {
	var b [20]byte
	r.Text(strconv.AppendInt(b[:0], n, 10))
}

// Data adds one MessagePack value as it is. Tarantool 1.5 is shown the content of
// a string, the text of a number, and of anything else the MessagePack itself.
func (r *Reply) Data(v iproto.Value) {
	if r.shape != ShapeBox15 {
		r.out = append(r.out, v...)
		return
	}
	if b, ok := v.Bytes(); ok {
		r.Text(b)
	} else if n, ok := v.Uint(); ok {
		var b [20]byte
		r.Text(strconv.AppendUint(b[:0], n, 10))
	} else if n, ok := v.Int(); ok {
		r.Decimal(n)
	} else if f, ok := v.Number(); ok {
		var b [32]byte
		r.Text(strconv.AppendFloat(b[:0], f, 'g', -1, 64))
	} else {
		r.Text(v)
	}
}

// List adds values that follow one another.
func (r *Reply) List(raw []byte) {
	if r.shape != ShapeBox15 {
		r.Data(raw)
		return
	}
	for len(raw) > 0 {
		var v iproto.Value
		v, raw = iproto.Cut(raw)
		r.Data(v)
	}
}

// Body adds the body of a job as one value.
func (r *Reply) Body(kind job.BodyKind, body []byte) {
	if r.shape == ShapeBox15 {
		r.Text(body)
		return
	}
	r.out = AppendBody(r.out, kind, body)
}

// Map begins a map of n entries, whose keys and values follow; only today's procedures have such a value.
func (r *Reply) Map(n int) {
	r.out = msgp.AppendMapHeader(r.out, uint32(n)) //nolint:gosec // bounded by the size of a packet
}

// Bool adds true or false; only today's procedures have such a value.
func (r *Reply) Bool(b bool) { r.out = msgp.AppendBool(r.out, b) }

// Nil adds nil; only today's procedures have such a value.
func (r *Reply) Nil() { r.out = msgp.AppendNil(r.out) }

// Begin begins the answer to a call that has succeeded. Nothing else may be
// answered before end.
func (c *Call) Begin() Reply {
	r := Reply{out: c.Conn.Out(), shape: c.Shape}
	r.start = len(r.out)
	if c.Shape == ShapeBox15 {
		r.out = box15.BeginRows(r.out, c.box15())
	} else {
		r.out = iproto.BeginList(r.out, c.sync)
	}
	r.values = len(r.out)
	return r
}

// End ends the answer that begin began.
func (c *Call) End(r *Reply) {
	if c.Quiet {
		r.out, r.count = r.out[:r.values], 0
	}
	if c.Shape == ShapeBox15 {
		r.closeRow()
		r.out = box15.EndRows(r.out, r.start, r.count)
	} else {
		r.out = iproto.EndList(r.out, r.start, r.count)
	}
	c.Conn.SetOut(r.out)
	c.count(true)
}

// Nothing answers an empty list.
func (c *Call) Nothing() {
	r := c.Begin()
	c.End(&r)
}

// Fail answers an error.
func (c *Call) Fail(code iproto.Code, text string) {
	c.count(false)
	if c.Shape == ShapeBox15 {
		c.Conn.SetOut(box15.AppendError(c.Conn.Out(), c.box15(), box15Code(code), text))
		return
	}
	c.Conn.SetOut(iproto.AppendError(c.Conn.Out(), c.sync, code, text))
}

// box15 is the header that the reply to a call of the 1.5 protocol repeats.
func (c *Call) box15() box15.Header {
	return box15.Header{Kind: box15.KindCall, Sync: uint32(c.sync & 0xffffffff)}
}

// box15Code returns the return code of the 1.5 protocol for an error.
func box15Code(code iproto.Code) uint32 {
	switch code { //nolint:exhaustive // the others are about what that protocol does not have
	case iproto.CodeRaised:
		return box15.CodeRaised
	case iproto.CodeNoProcedure:
		return box15.CodeNoProcedure
	case iproto.CodeUnsupported:
		return box15.CodeUnsupported
	default:
		return box15.CodeBadParams
	}
}

// Raise answers an error as a procedure raises it.
func (c *Call) Raise(text string) { c.Fail(iproto.CodeRaised, text) }
