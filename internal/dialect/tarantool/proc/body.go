package proc

import (
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/job"
)

// StoredBody returns how n values, which follow one another, are kept as a body. A
// lone string is kept as plain bytes, which every other protocol understands, if it
// is shown from them exactly as it was sent.
func StoredBody(raw []byte, n int) ([]byte, job.BodyKind) {
	switch n {
	case 0:
		return nil, job.BodyNone
	case 1:
		if b, ok := iproto.Value(raw).Bytes(); ok && isShortest(raw, b) {
			return b, job.BodyBytes
		}
	}
	return raw, job.BodyMsgpack
}

// isShortest reports whether v is what AppendBody makes of the bytes b: text if they
// are text, else binary data, with as short a length as there is.
func isShortest(v iproto.Value, b []byte) bool {
	text, n := utf8.Valid(b), len(b)
	switch {
	case n < 1<<5 && text:
		return v[0] == 0xa0|byte(n)
	case n < 1<<8:
		return v[0] == 0xd9 && text || v[0] == 0xc4 && !text
	case n < 1<<16:
		return v[0] == 0xda && text || v[0] == 0xc5 && !text
	default:
		return v[0] == 0xdb && text || v[0] == 0xc6 && !text
	}
}

// AppendBody appends the body of a job as one MessagePack value: what was put as it
// was, and what came through another protocol as a string.
func AppendBody(b []byte, kind job.BodyKind, body []byte) []byte {
	switch kind {
	case job.BodyMsgpack:
		// Legacy tasks have any number of values.
		if n := iproto.CountValues(body); n != 1 {
			if n == 0 {
				return msgp.AppendNil(b)
			}
			b = msgp.AppendArrayHeader(b, uint32(n)) //nolint:gosec // no more than bytes
		}
		return append(b, body...)
	case job.BodyJSON, job.BodyArgs:
		return msgp.AppendStringFromBytes(b, body)
	case job.BodyBytes:
		if utf8.Valid(body) {
			return msgp.AppendStringFromBytes(b, body)
		}
		return msgp.AppendBytes(b, body)
	case job.BodyNone:
		return msgp.AppendNil(b)
	}
	return msgp.AppendBytes(b, body)
}
