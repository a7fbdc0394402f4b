package lua

// The kinds of tokens that are no sign of their own.
const (
	tokenEnd    = ""
	tokenWord   = "word"
	tokenString = "string"
	tokenNumber = "number"
	tokenBad    = "bad"
)

// signs are the signs of Lua that mean something here, longer ones first.
var signs = [...]string{"...", "~=", "(", ")", "{", "}", "[", "]", ",", ";", ":", ".", "="}

// lexer splits a piece of Lua into tokens.
type lexer struct {
	rest []byte
	kind string // what the token is: a sign itself, or one of the token constants
	text []byte // of a word, a number or a string without its quotes
}

// next goes on to the next token.
func (l *lexer) next() {
	for len(l.rest) > 0 && (l.rest[0] == ' ' || l.rest[0] >= '\t' && l.rest[0] <= '\r') {
		l.rest = l.rest[1:]
	}
	if len(l.rest) == 0 {
		l.kind, l.text = tokenEnd, nil
		return
	}
	switch c := l.rest[0]; {
	case isLetter(c):
		l.take(tokenWord, func(c byte) bool { return isLetter(c) || isDigit(c) })
	case isDigit(c), c == '-' && len(l.rest) > 1 && isDigit(l.rest[1]):
		l.take(tokenNumber, func(c byte) bool { return isDigit(c) || c == '.' || c == '-' || c == '+' || isLetter(c) })
	case c == '\'', c == '"':
		l.takeString(c)
	default:
		l.takeSign()
	}
}

// take takes the bytes that belong to a token; the first one does.
func (l *lexer) take(kind string, belongs func(byte) bool) {
	n := 1
	for n < len(l.rest) && belongs(l.rest[n]) {
		n++
	}
	l.kind, l.text, l.rest = kind, l.rest[:n], l.rest[n:]
}

// takeString takes a string without any escapes: nobody sends any in the few forms
// that are understood.
func (l *lexer) takeString(quote byte) {
	for i, c := range l.rest[1:] {
		switch c {
		case quote:
			l.kind, l.text, l.rest = tokenString, l.rest[1:i+1], l.rest[i+2:]
			return
		case '\\', '\n':
			l.bad()
			return
		}
	}
	l.bad()
}

func (l *lexer) takeSign() {
	for _, s := range signs {
		if len(l.rest) >= len(s) && string(l.rest[:len(s)]) == s {
			l.kind, l.text, l.rest = s, nil, l.rest[len(s):]
			return
		}
	}
	l.bad()
}

// bad ends the input with a token that nothing accepts.
func (l *lexer) bad() { l.kind, l.text, l.rest = tokenBad, nil, nil }

// accept goes on if the token is this sign.
func (l *lexer) accept(sign string) bool {
	if l.kind != sign {
		return false
	}
	l.next()
	return true
}

func (l *lexer) isWord(word string) bool { return l.kind == tokenWord && string(l.text) == word }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
