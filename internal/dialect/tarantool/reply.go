package tarantool

import (
	"millrace/internal/dialect/tarantool/box15"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
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
	out    []byte
	shape  shape
	start  int    // where the packet begins in out
	values int    // where the values begin
	count  uint32 // values so far

	row    int    // shapeBox15: where the row begins that is open; zero: none is
	fields uint32 // of that row
}

// tuple begins a value that is an array of n fields.
func (r *reply) tuple(n int) {
	if r.shape == shapeBox15 {
		r.closeRow()
		r.row, r.fields = len(r.out), uint32(n) //nolint:gosec // bounded by the size of a packet
		r.out = box15.BeginRow(r.out)
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
		r.out = box15.EndRow(r.out, r.row, r.fields)
		r.row = 0
	}
}

// u32 adds a number that has four bytes in Tarantool 1.5.
func (r *reply) u32(n uint32) {
	if r.shape == shapeBox15 {
		r.out = box15.AppendUint32(r.out, n)
		return
	}
	r.out = msgp.AppendUint32(r.out, n)
}

// u64 adds a number that has eight bytes in Tarantool 1.5.
func (r *reply) u64(n uint64) {
	if r.shape == shapeBox15 {
		r.out = box15.AppendUint64(r.out, n)
		return
	}
	r.out = msgp.AppendUint64(r.out, n)
}

// str adds a string.
func (r *reply) str(s string) {
	if r.shape == shapeBox15 {
		r.out = box15.AppendField(r.out, s)
		return
	}
	r.out = msgp.AppendString(r.out, s)
}

// text adds a string that is in bytes.
func (r *reply) text(b []byte) {
	if r.shape == shapeBox15 {
		r.out = box15.AppendField(r.out, b)
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
func (r *reply) data(v iproto.Value) {
	if r.shape != shapeBox15 {
		r.out = append(r.out, v...)
		return
	}
	if b, ok := v.Bytes(); ok {
		r.text(b)
	} else if n, ok := v.Uint(); ok {
		var b [20]byte
		r.text(strconv.AppendUint(b[:0], n, 10))
	} else if n, ok := v.Int(); ok {
		r.decimal(n)
	} else if f, ok := v.Number(); ok {
		var b [32]byte
		r.text(strconv.AppendFloat(b[:0], f, 'g', -1, 64))
	} else {
		r.text(v)
	}
}

// list adds values that follow one another.
func (r *reply) list(raw []byte) {
	if r.shape != shapeBox15 {
		r.data(raw)
		return
	}
	for len(raw) > 0 {
		var v iproto.Value
		v, raw = iproto.Cut(raw)
		r.data(v)
	}
}

// body adds the body of a job as one value.
func (r *reply) body(kind job.BodyKind, body []byte) {
	if r.shape == shapeBox15 {
		r.text(body)
		return
	}
	r.out = appendBody(r.out, kind, body)
}

// mapOf begins a map of n entries, whose keys and values follow; only today's procedures have such a value.
func (r *reply) mapOf(n int) {
	r.out = msgp.AppendMapHeader(r.out, uint32(n)) //nolint:gosec // bounded by the size of a packet
}

// boolean adds true or false; only today's procedures have such a value.
func (r *reply) boolean(b bool) { r.out = msgp.AppendBool(r.out, b) }

// null adds nil; only today's procedures have such a value.
func (r *reply) null() { r.out = msgp.AppendNil(r.out) }

// begin begins the answer to a call that has succeeded. Nothing else may be
// answered before end.
func (c *call) begin() reply {
	r := reply{out: c.conn.Out(), shape: c.shape}
	r.start = len(r.out)
	if c.shape == shapeBox15 {
		r.out = box15.BeginRows(r.out, c.box15())
	} else {
		r.out = iproto.BeginList(r.out, c.sync)
	}
	r.values = len(r.out)
	return r
}

// end ends the answer that begin began.
func (c *call) end(r *reply) {
	if c.quiet {
		r.out, r.count = r.out[:r.values], 0
	}
	if c.shape == shapeBox15 {
		r.closeRow()
		r.out = box15.EndRows(r.out, r.start, r.count)
	} else {
		r.out = iproto.EndList(r.out, r.start, r.count)
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
func (c *call) fail(code iproto.Code, text string) {
	c.count(false)
	if c.shape == shapeBox15 {
		c.conn.SetOut(box15.AppendError(c.conn.Out(), c.box15(), box15Code(code), text))
		return
	}
	c.conn.SetOut(iproto.AppendError(c.conn.Out(), c.sync, code, text))
}

// box15 is the header that the reply to a call of the 1.5 protocol repeats.
func (c *call) box15() box15.Header {
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

// raise answers an error as a procedure raises it.
func (c *call) raise(text string) { c.fail(iproto.CodeRaised, text) }
