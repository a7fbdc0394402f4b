package iproto

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// The types of requests (protocol section A.4).
const (
	TypeSelect    = 1
	TypeInsert    = 2
	TypeReplace   = 3
	TypeUpdate    = 4
	TypeDelete    = 5
	TypeCall16    = 6
	TypeAuth      = 7
	TypeEval      = 8
	TypeUpsert    = 9
	TypeCall      = 10
	TypeExecute   = 11
	TypeNop       = 12
	TypePrepare   = 13
	TypePing      = 64
	TypeID        = 73
	TypeWatch     = 74
	TypeUnwatch   = 75
	typeEvent     = 76
	TypeWatchOnce = 77
)

// What is wrong with a packet, in the words of the protocol.
var (
	errHeader = errors.New("packet header")
	errBody   = errors.New("packet body")
)

// Request is a packet of IPROTO, taken apart. Its parts are those of the input.
type Request struct {
	Kind       uint64
	Sync       uint64
	Space      uint64
	HasSpace   bool
	Function   []byte // nil: not given; so with the others
	Expression []byte
	User       []byte
	Event      []byte
	Tuple      Value
}

// Parse takes the packet p apart, header and body. Sync is set as far as it is known
// even if the packet is malformed.
func (r *Request) Parse(p []byte) error {
	*r = Request{}
	rest, err := r.parseHeader(p)
	if err != nil || len(rest) == 0 {
		return err
	}
	return r.parseBody(rest)
}

func (r *Request) parseHeader(p []byte) (rest []byte, err error) {
	if !Value(p).is(msgp.MapType) {
		return nil, errHeader
	}
	size, rest, err := msgp.ReadMapHeaderBytes(p)
	if err != nil {
		return nil, errHeader
	}
	for range size {
		var key, val Value
		if key, val, rest, err = entry(rest); err != nil {
			return nil, errHeader
		}
		switch k, _ := key.Uint(); k {
		case keyType:
			if r.Kind, err = whole(val); err != nil {
				return nil, errHeader
			}
		case keySync:
			if r.Sync, err = whole(val); err != nil {
				return nil, errHeader
			}
		}
	}
	return rest, nil
}

func (r *Request) parseBody(p []byte) error {
	if !Value(p).is(msgp.MapType) {
		return errBody
	}
	size, rest, err := msgp.ReadMapHeaderBytes(p)
	if err != nil {
		return errBody
	}
	for range size {
		var key, val Value
		if key, val, rest, err = entry(rest); err != nil {
			return errBody
		}
		if r.field(key, val) != nil {
			return errBody
		}
	}
	if len(rest) > 0 {
		return errBody
	}
	return nil
}

// field takes one entry of the body.
func (r *Request) field(key, val Value) (err error) {
	k, _ := key.Uint()
	switch k {
	case keySpace:
		r.Space, err = whole(val)
		r.HasSpace = true
	case keyIndex, keyLimit, keyOffset, keyIterator, keyVersion:
		_, err = whole(val)
	case keyKey, keyOps, keyFeatures:
		if !val.is(msgp.ArrayType) {
			err = errBody
		}
	case keyTuple:
		r.Tuple = val
		if !val.is(msgp.ArrayType) {
			err = errBody
		}
	case keyFunction:
		r.Function, err = text(val)
	case keyExpression:
		r.Expression, err = text(val)
	case keyUser:
		r.User, err = text(val)
	case keyEvent:
		r.Event, err = text(val)
	}
	return err
}

// entry splits an entry of a map off b. Keys are whole numbers.
func entry(b []byte) (key, val Value, rest []byte, err error) {
	n, err := Skip(b)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := Skip(b[n:])
	if err != nil {
		return nil, nil, nil, err
	}
	key = Value(b[:n:n])
	if _, err := whole(key); err != nil {
		return nil, nil, nil, err
	}
	return key, Value(b[n : n+m : n+m]), b[n+m:], nil
}

// whole returns a number of an unsigned type.
func whole(v Value) (uint64, error) {
	if !v.isUnsigned() {
		return 0, errInvalid
	}
	n, ok := v.Uint()
	if !ok {
		return 0, errInvalid
	}
	return n, nil
}

// text returns the content of a string, which is not nil even if it is empty.
func text(v Value) ([]byte, error) {
	if !v.is(msgp.StrType) {
		return nil, errInvalid
	}
	b, ok := v.Bytes()
	if !ok {
		return nil, errInvalid
	}
	return b, nil
}
