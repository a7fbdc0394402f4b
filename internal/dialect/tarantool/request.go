package tarantool

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// The types of requests (protocol section A.4).
const (
	typeSelect    = 1
	typeInsert    = 2
	typeReplace   = 3
	typeUpdate    = 4
	typeDelete    = 5
	typeCall16    = 6
	typeAuth      = 7
	typeEval      = 8
	typeUpsert    = 9
	typeCall      = 10
	typeExecute   = 11
	typeNop       = 12
	typePrepare   = 13
	typePing      = 64
	typeID        = 73
	typeWatch     = 74
	typeUnwatch   = 75
	typeEvent     = 76
	typeWatchOnce = 77
)

// What is wrong with a packet, in the words of the protocol.
var (
	errHeader = errors.New("packet header")
	errBody   = errors.New("packet body")
)

// request is a packet of IPROTO, taken apart. Its parts are those of the input.
type request struct {
	kind       uint64
	sync       uint64
	space      uint64
	hasSpace   bool
	function   []byte // nil: not given; so with the others
	expression []byte
	user       []byte
	event      []byte
	tuple      value
}

// parse takes the packet p apart, header and body. Sync is set as far as it is known
// even if the packet is malformed.
func (r *request) parse(p []byte) error {
	*r = request{}
	rest, err := r.parseHeader(p)
	if err != nil || len(rest) == 0 {
		return err
	}
	return r.parseBody(rest)
}

func (r *request) parseHeader(p []byte) (rest []byte, err error) {
	if !value(p).isMap() {
		return nil, errHeader
	}
	size, rest, err := msgp.ReadMapHeaderBytes(p)
	if err != nil {
		return nil, errHeader
	}
	for range size {
		var key, val value
		if key, val, rest, err = entry(rest); err != nil {
			return nil, errHeader
		}
		switch k, _ := key.uint(); k {
		case keyType:
			if r.kind, err = whole(val); err != nil {
				return nil, errHeader
			}
		case keySync:
			if r.sync, err = whole(val); err != nil {
				return nil, errHeader
			}
		}
	}
	return rest, nil
}

func (r *request) parseBody(p []byte) error {
	if !value(p).isMap() {
		return errBody
	}
	size, rest, err := msgp.ReadMapHeaderBytes(p)
	if err != nil {
		return errBody
	}
	for range size {
		var key, val value
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
func (r *request) field(key, val value) (err error) {
	k, _ := key.uint()
	switch k {
	case keySpace:
		r.space, err = whole(val)
		r.hasSpace = true
	case keyIndex, keyLimit, keyOffset, keyIterator, keyVersion:
		_, err = whole(val)
	case keyKey, keyOps, keyFeatures:
		if !val.isArray() {
			err = errBody
		}
	case keyTuple:
		r.tuple = val
		if !val.isArray() {
			err = errBody
		}
	case keyFunction:
		r.function, err = text(val)
	case keyExpression:
		r.expression, err = text(val)
	case keyUser:
		r.user, err = text(val)
	case keyEvent:
		r.event, err = text(val)
	}
	return err
}

// entry splits an entry of a map off b. Keys are whole numbers.
func entry(b []byte) (key, val value, rest []byte, err error) {
	n, err := skip(b)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := skip(b[n:])
	if err != nil {
		return nil, nil, nil, err
	}
	key = value(b[:n:n])
	if _, err := whole(key); err != nil {
		return nil, nil, nil, err
	}
	return key, value(b[n : n+m : n+m]), b[n+m:], nil
}

// whole returns a number of an unsigned type.
func whole(v value) (uint64, error) {
	if !v.isUnsigned() {
		return 0, errInvalid
	}
	n, ok := v.uint()
	if !ok {
		return 0, errInvalid
	}
	return n, nil
}

// text returns the content of a string, which is not nil even if it is empty.
func text(v value) ([]byte, error) {
	if !v.isString() {
		return nil, errInvalid
	}
	b, ok := v.bytes()
	if !ok {
		return nil, errInvalid
	}
	return b, nil
}
