package tarantooltest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Encode returns the MessagePack of values in notation, separated by commas. What the
// notation cannot say is written as hex(C0), with the bytes in hexadecimal.
func Encode(text string) ([]byte, error) {
	p := parser{rest: strings.TrimSpace(text)}
	var b []byte
	for p.rest != "" {
		if len(b) > 0 && !p.accept(",") {
			return nil, p.problem("want a comma")
		}
		var err error
		if b, err = p.value(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// MustEncode is Encode for texts that are known to be right.
func MustEncode(text string) []byte {
	b, err := Encode(text)
	if err != nil {
		panic(err)
	}
	return b
}

// parser reads the notation. Its recursion is bounded by what tests write.
type parser struct{ rest string }

func (p *parser) problem(what string) error { return fmt.Errorf("notation: %s at %.40q", what, p.rest) }

func (p *parser) skip() { p.rest = strings.TrimSpace(p.rest) }

func (p *parser) accept(sign string) bool {
	if !strings.HasPrefix(p.rest, sign) {
		return false
	}
	p.rest = p.rest[len(sign):]
	p.skip()
	return true
}

func (p *parser) value(b []byte) ([]byte, error) {
	switch {
	case p.accept("["):
		return p.list(b, "]", 1)
	case p.accept("{"):
		return p.list(b, "}", 2)
	case strings.HasPrefix(p.rest, `"`):
		s, err := p.quoted()
		return msgp.AppendString(b, s), err
	case p.accept("bin"):
		s, err := p.quoted()
		return msgp.AppendBytes(b, []byte(s)), err
	case p.accept("hex("):
		digits, rest, _ := strings.Cut(p.rest, ")")
		p.rest = rest
		p.skip()
		raw, err := hex.DecodeString(digits)
		return append(b, raw...), err
	}
	return p.word(b)
}

// list reads the elements of an array, or the entries of a map.
func (p *parser) list(b []byte, end string, per int) ([]byte, error) {
	var elements []byte
	n := 0
	for ; !p.accept(end); n++ {
		if n > 0 && n%per == 0 && !p.accept(",") || n%per == 1 && !p.accept(":") {
			return nil, p.problem("want a sign between two values")
		}
		var err error
		if elements, err = p.value(elements); err != nil {
			return nil, err
		}
	}
	if n%per != 0 {
		return nil, p.problem("a key without a value")
	}
	if per == 1 {
		b = msgp.AppendArrayHeader(b, uint32(n))
	} else {
		b = msgp.AppendMapHeader(b, uint32(n/2))
	}
	return append(b, elements...), nil
}

func (p *parser) quoted() (string, error) {
	prefix, err := strconv.QuotedPrefix(p.rest)
	if err != nil {
		return "", p.problem("want a string")
	}
	p.rest = p.rest[len(prefix):]
	p.skip()
	return strconv.Unquote(prefix)
}

func (p *parser) word(b []byte) ([]byte, error) {
	n := strings.IndexAny(p.rest, ",]}: \t")
	if n < 0 {
		n = len(p.rest)
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	p.skip()
	switch word {
	case "nil":
		return msgp.AppendNil(b), nil
	case "true", "false":
		return msgp.AppendBool(b, word == "true"), nil
	}
	if u, err := strconv.ParseUint(word, 0, 64); err == nil {
		return msgp.AppendUint64(b, u), nil
	}
	if i, err := strconv.ParseInt(word, 0, 64); err == nil {
		return msgp.AppendInt64(b, i), nil
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil, fmt.Errorf("notation: %q is no value", word)
	}
	return msgp.AppendFloat64(b, f), nil
}

// errTrailing means that something follows the value.
var errTrailing = errors.New("more than one value")

// Format is the inverse of Encode for one value. What Encode would write in another
// way than it is, is shown as hex(...).
func Format(raw []byte) (string, error) {
	text, rest, err := format(raw)
	if err == nil && len(rest) > 0 {
		err = errTrailing
	}
	return text, err
}

func format(b []byte) (text string, rest []byte, err error) {
	switch msgp.NextType(b) { //nolint:exhaustive // the others are shown as they are
	case msgp.ArrayType:
		n, rest, err := msgp.ReadArrayHeaderBytes(b)
		return formatList(n, rest, err, "[]", 1)
	case msgp.MapType:
		n, rest, err := msgp.ReadMapHeaderBytes(b)
		return formatList(2*n, rest, err, "{}", 2)
	case msgp.StrType:
		text, rest, err = msgp.ReadStringBytes(b)
		return exact(b, rest, err, strconv.Quote(text))
	case msgp.BinType:
		raw, rest, err := msgp.ReadBytesZC(b)
		return exact(b, rest, err, "bin"+strconv.Quote(string(raw)))
	case msgp.BoolType:
		v, rest, err := msgp.ReadBoolBytes(b)
		return strconv.FormatBool(v), rest, err
	case msgp.NilType:
		rest, err = msgp.ReadNilBytes(b)
		return "nil", rest, err
	case msgp.Float64Type:
		f, rest, err := msgp.ReadFloat64Bytes(b)
		text = strconv.FormatFloat(f, 'g', -1, 64)
		if f == math.Trunc(f) && !strings.ContainsAny(text, "eIN") {
			text += ".0"
		}
		return text, rest, err
	case msgp.UintType, msgp.IntType:
		if i, rest, err := msgp.ReadInt64Bytes(b); err == nil {
			return exact(b, rest, err, strconv.FormatInt(i, 10))
		}
		u, rest, err := msgp.ReadUint64Bytes(b)
		return exact(b, rest, err, strconv.FormatUint(u, 10))
	default:
		rest, err = msgp.Skip(b)
		return "hex(" + hex.EncodeToString(b[:len(b)-len(rest)]) + ")", rest, err
	}
}

// exact returns text if it stands for exactly the bytes before rest.
func exact(b, rest []byte, err error, text string) (string, []byte, error) {
	if err != nil {
		return "", nil, err
	}
	raw := b[:len(b)-len(rest)]
	if again, err := Encode(text); err != nil || string(again) != string(raw) {
		text = "hex(" + hex.EncodeToString(raw) + ")"
	}
	return text, rest, nil
}

func formatList(n uint32, b []byte, err error, brackets string, per uint32) (string, []byte, error) {
	var out strings.Builder
	out.WriteByte(brackets[0])
	for i := range n {
		if err != nil {
			break
		}
		switch {
		case i%per == 1:
			out.WriteString(": ")
		case i > 0:
			out.WriteString(", ")
		}
		var text string
		text, b, err = format(b)
		out.WriteString(text)
	}
	out.WriteByte(brackets[1])
	return out.String(), b, err
}
