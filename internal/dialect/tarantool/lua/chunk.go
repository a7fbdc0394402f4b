// Package lua understands the few pieces of Lua that clients of the queue module send: there is no Lua behind it, a
// chunk is the call of a procedure or a list of values (A.7).
package lua

import (
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/iproto"
)

// Kind says what a chunk does.
type Kind uint8

// The kinds of chunks.
const (
	Values Kind = iota // returns its arguments
	Call               // calls what is at a path
	Test               // asks whether there is something at a path
)

// Chunk is a piece of Lua of the few forms that mean something here:
//
//	[local NAME, ... = ... ;] [return] PATH(ARGS) [;]
//	[local NAME, ... = ... ;] [return] PATH:METHOD(ARGS) [;]
//	[local NAME, ... = ... ;] return PATH ~= nil [;]
//	[local NAME, ... = ... ;] return ARGS [;]
//
// A path begins with queue or box and goes on with .NAME, ['NAME'] or [LOCAL]. An
// argument is a local, a literal, {} or, as the last one, all arguments: "...".
type Chunk struct {
	Kind    Kind
	Returns bool
	Name    []byte      // the path, and the method behind a colon
	Args    iproto.Args // of the call, or the values to return
}

// Parse understands a chunk to which args were given. What it is made of is appended to scratch, which is returned.
func Parse(text []byte, args *iproto.Args, scratch []byte) (c Chunk, grown []byte, ok bool) {
	p := parser{lexer: lexer{rest: text}, args: args, scratch: scratch}
	ok = p.parse()
	return p.Chunk, p.scratch, ok
}

// parser makes a chunk of tokens.
type parser struct {
	lexer
	Chunk
	args    *iproto.Args // of the request
	locals  [localsMax][]byte
	count   int // of the locals
	scratch []byte
}

// localsMax is how many locals there may be.
const localsMax = 8

func (p *parser) parse() bool {
	p.next()
	if p.isWord("local") && !p.parseLocals() {
		return false
	}
	if p.isWord("return") {
		p.Returns = true
		p.next()
	}
	if !p.parseExpression() {
		return false
	}
	p.accept(";")
	return p.kind == tokenEnd
}

// parseLocals reads names that stand for the arguments.
func (p *parser) parseLocals() bool {
	p.next()
	for {
		if p.kind != tokenWord || p.count == localsMax {
			return false
		}
		p.locals[p.count] = p.text
		p.count++
		p.next()
		if !p.accept(",") {
			break
		}
	}
	if !p.accept("=") || !p.accept("...") {
		return false
	}
	p.accept(";")
	return true
}

func (p *parser) parseExpression() bool {
	if !p.isWord("queue") && !p.isWord("box") {
		return p.Returns && p.parseValues(tokenEnd)
	}
	if !p.parsePath() {
		return false
	}
	switch {
	case p.accept("("):
		p.Kind = Call
		return p.parseValues(")") && p.accept(")")
	case p.accept("~="):
		p.Kind = Test
		ok := p.isWord("nil") && p.Returns
		p.next()
		return ok
	}
	return false
}

// parsePath reads where a procedure is.
func (p *parser) parsePath() bool {
	start := len(p.scratch)
	p.scratch = append(p.scratch, p.text...)
	for p.next(); ; {
		switch {
		case p.accept("."):
			if p.kind != tokenWord {
				return false
			}
			p.scratch = append(append(p.scratch, '.'), p.text...)
			p.next()
		case p.accept("["):
			key, ok := p.parseKey()
			if !ok || !p.accept("]") {
				return false
			}
			p.scratch = append(append(p.scratch, '.'), key...)
		case p.accept(":"):
			if p.kind != tokenWord {
				return false
			}
			p.scratch = append(append(p.scratch, ':'), p.text...)
			p.next()
			p.Name = p.scratch[start:len(p.scratch):len(p.scratch)]
			return p.kind == "("
		default:
			p.Name = p.scratch[start:len(p.scratch):len(p.scratch)]
			return true
		}
	}
}

// parseKey reads the name between brackets: a string, or a local that is one.
func (p *parser) parseKey() ([]byte, bool) {
	var key []byte
	ok := false
	switch p.kind {
	case tokenString:
		key, ok = p.text, true
	case tokenWord:
		if i := p.local(); i >= 0 {
			key, ok = p.args.At(i).Bytes()
		}
	}
	p.next()
	return key, ok
}

// local returns which argument the word stands for, or -1.
func (p *parser) local() int {
	for i := p.count - 1; i >= 0; i-- { // the later of two hides the earlier
		if string(p.locals[i]) == string(p.text) {
			return i
		}
	}
	return -1
}

// parseValues reads values up to a token that ends them, which stays.
func (p *parser) parseValues(end string) bool {
	start, n := len(p.scratch), 0
	for p.kind != end && p.kind != ";" && p.kind != tokenEnd {
		if n > 0 && !p.accept(",") {
			return false
		}
		if p.kind == "..." {
			p.scratch = append(p.scratch, p.args.From(0)...)
			n += p.args.Count()
			p.next()
			break // only at the end it stands for all of them
		}
		if !p.parseValue() {
			return false
		}
		n++
	}
	p.Args.Index(n, p.scratch[start:len(p.scratch):len(p.scratch)])
	return end == tokenEnd || p.kind == end
}

// parseValue reads one value and appends it to scratch as MessagePack.
func (p *parser) parseValue() bool {
	switch p.kind {
	case tokenNumber:
		if !p.number() {
			return false
		}
	case tokenString:
		p.scratch = msgp.AppendStringFromBytes(p.scratch, p.text)
	case tokenWord:
		if !p.word() {
			return false
		}
	case "{":
		p.next()
		if p.kind != "}" {
			return false
		}
		p.scratch = msgp.AppendMapHeader(p.scratch, 0)
	default:
		return false
	}
	p.next()
	return true
}

func (p *parser) word() bool {
	switch string(p.text) {
	case "nil":
		p.scratch = msgp.AppendNil(p.scratch)
	case "true":
		p.scratch = msgp.AppendBool(p.scratch, true)
	case "false":
		p.scratch = msgp.AppendBool(p.scratch, false)
	default:
		i := p.local()
		if i < 0 {
			return false
		}
		if v := p.args.At(i); len(v) > 0 {
			p.scratch = append(p.scratch, v...)
		} else {
			p.scratch = msgp.AppendNil(p.scratch)
		}
	}
	return true
}

// numberLen is the longest text that is taken for a number.
const numberLen = 64

func (p *parser) number() bool {
	if len(p.text) > numberLen {
		return false
	}
	if n, err := strconv.ParseInt(string(p.text), 10, 64); err == nil {
		if n >= 0 {
			p.scratch = msgp.AppendUint64(p.scratch, uint64(n))
		} else {
			p.scratch = msgp.AppendInt64(p.scratch, n)
		}
		return true
	}
	f, err := strconv.ParseFloat(string(p.text), 64)
	p.scratch = msgp.AppendFloat64(p.scratch, f)
	return err == nil
}
