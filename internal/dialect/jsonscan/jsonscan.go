// Package jsonscan reads JSON in place: it checks, walks and quotes texts without copying them.
package jsonscan

import (
	"bytes"
	"errors"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Err means that a text is not the JSON it should be.
var Err = errors.New("malformed JSON")

// depthMax is how deep arrays and objects may nest. The scanner does not
// recurse, so this bounds what readers behind us must bear; it is the limit of
// the Go decoder.
const depthMax = 10000

// nesting remembers for each open bracket whether it is an object's.
type nesting struct {
	inline [2]uint64
	more   []uint64
	depth  int
}

func (n *nesting) word(i int) *uint64 {
	if i < len(n.inline) {
		return &n.inline[i]
	}
	i -= len(n.inline)
	if i == len(n.more) {
		n.more = append(n.more, 0)
	}
	return &n.more[i]
}

func (n *nesting) push(object bool) bool {
	if n.depth == depthMax {
		return false
	}
	w, bit := n.word(n.depth/64), uint64(1)<<(n.depth%64)
	if object {
		*w |= bit
	} else {
		*w &^= bit
	}
	n.depth++
	return true
}

func (n *nesting) inObject() bool {
	d := n.depth - 1
	return *n.word(d / 64)&(1<<(d%64)) != 0
}

// skipBlank returns the index of the first byte from i on that is not JSON
// white space.
func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// scanString returns the index after the string whose opening quote is at i, or
// -1 if it is malformed.
func scanString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			i++
			if i == len(b) {
				return -1
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(b) || hex4(b[i+1:]) < 0 {
					return -1
				}
				i += 4
			default:
				return -1
			}
		}
	}
	return -1
}

// hex4 returns the value of the first four bytes as hexadecimal digits, or -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func scanDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// scanNumber returns the index after the number that begins at i, or -1.
func scanNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	j := scanDigits(b, i)
	if j == i || b[i] == '0' && j > i+1 {
		return -1
	}
	if j < len(b) && b[j] == '.' {
		i = j + 1
		if j = scanDigits(b, i); j == i {
			return -1
		}
	}
	if j < len(b) && (b[j] == 'e' || b[j] == 'E') {
		i = j + 1
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if j = scanDigits(b, i); j == i {
			return -1
		}
	}
	return j
}

// scanScalar returns the index after the string, number or word at i, or -1.
func scanScalar(b []byte, i int) int {
	var word string
	switch b[i] {
	case '"':
		return scanString(b, i)
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	default:
		return scanNumber(b, i)
	}
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// scanKey returns the index after the member name at i and its colon, or -1.
func scanKey(b []byte, i int) int {
	i = skipBlank(b, i)
	if i == len(b) || b[i] != '"' {
		return -1
	}
	if i = scanString(b, i); i < 0 {
		return -1
	}
	i = skipBlank(b, i)
	if i == len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// scanValue returns the index after the JSON value that begins at i, blanks
// before it included, or -1 if it is malformed.
func scanValue(b []byte, i int) int {
	var nest nesting
	for {
		i = skipBlank(b, i)
		if i == len(b) {
			return -1
		}
		switch c := b[i]; c {
		case '{', '[':
			if !nest.push(c == '{') {
				return -1
			}
			i = skipBlank(b, i+1)
			if i < len(b) && b[i] == c+2 { // the closing bracket of the same kind
				nest.depth--
				i++
				break
			}
			if c == '{' {
				if i = scanKey(b, i); i < 0 {
					return -1
				}
			}
			continue
		default:
			if i = scanScalar(b, i); i < 0 {
				return -1
			}
		}
		if i = scanAfter(b, i, &nest); i < 0 || nest.depth == 0 {
			return i
		}
	}
}

// scanAfter goes on after a value: over closing brackets to the comma, and the
// member name after it, that lead to the next value. It returns with a depth of
// zero once the outermost value has ended.
func scanAfter(b []byte, i int, nest *nesting) int {
	for nest.depth > 0 {
		i = skipBlank(b, i)
		if i == len(b) {
			return -1
		}
		object := nest.inObject()
		switch {
		case b[i] == ',' && object:
			return scanKey(b, i+1)
		case b[i] == ',':
			return i + 1
		case object && b[i] == '}', !object && b[i] == ']':
			nest.depth--
			i++
		default:
			return -1
		}
	}
	return i
}

// Valid reports whether b is exactly one JSON value, blanks around it
// allowed. It neither recurses nor, up to a nesting of 128, allocates.
func Valid(b []byte) bool {
	i := scanValue(b, 0)
	return i >= 0 && skipBlank(b, i) == len(b)
}

// Compact appends valid JSON to dst without its insignificant white space,
// otherwise as it is spelled. dst may be src[:0]: the text only shrinks.
func Compact(dst, src []byte) []byte {
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case ' ', '\t', '\n', '\r':
		case '"':
			j := scanString(src, i)
			if j < 0 {
				return append(dst, src[i:]...)
			}
			dst = append(dst, src[i:j]...)
			i = j - 1
		default:
			dst = append(dst, src[i])
		}
	}
	return dst
}

// Reader goes through the members of a JSON object or, as ArrayReader,
// the elements of an array, in order and without allocating. It checks the
// syntax as it goes: the text is valid only if Next has come to the end and Err
// is nil.
type Reader struct {
	b     []byte
	i     int
	close byte
	begun bool
	ended bool
	err   error
}

// ReadObject returns a reader of the object in b. JSON null counts as an object
// without members, as for the Go decoder.
func ReadObject(b []byte) Reader { return readContainer(b, '{') }

// ReadArray returns a reader of the array in b, whose Next returns empty keys.
// JSON null counts as an array without elements.
func ReadArray(b []byte) Reader { return readContainer(b, '[') }

func readContainer(b []byte, open byte) Reader {
	r := Reader{b: b, close: open + 2}
	r.i = skipBlank(b, 0)
	switch {
	case r.i < len(b) && b[r.i] == open:
		r.i++
	case len(b)-r.i >= 4 && string(b[r.i:r.i+4]) == "null" && skipBlank(b, r.i+4) == len(b):
		r.ended = true
	default:
		r.fail()
	}
	return r
}

func (r *Reader) fail() { r.err, r.ended = Err, true }

// Err returns Err if the text is not valid.
func (r *Reader) Err() error { return r.err }

// Next returns the next member: the text of its name between the quotes, still
// escaped, and the text of its value without blanks around it.
func (r *Reader) Next() (key, value []byte, ok bool) {
	if r.ended {
		return nil, nil, false
	}
	r.i = skipBlank(r.b, r.i)
	if r.i < len(r.b) && r.b[r.i] == r.close {
		r.ended = true
		if skipBlank(r.b, r.i+1) != len(r.b) {
			r.fail()
		}
		return nil, nil, false
	}
	if r.begun {
		if r.i == len(r.b) || r.b[r.i] != ',' {
			r.fail()
			return nil, nil, false
		}
		r.i++
	}
	r.begun = true
	start := skipBlank(r.b, r.i)
	if r.close == '}' {
		end := scanKey(r.b, start)
		if end < 0 {
			r.fail()
			return nil, nil, false
		}
		key = r.b[start+1 : scanString(r.b, start)-1]
		start = skipBlank(r.b, end)
	}
	end := scanValue(r.b, start)
	if end < 0 {
		r.fail()
		return nil, nil, false
	}
	r.i = end
	return key, r.b[start:end:end], true
}

// KeyIs reports whether a member name as returned by Next is name, in any
// case, as the Go decoder matches names. name is in lower case.
func KeyIs(key []byte, name string) bool {
	if string(key) == name {
		return true
	}
	if bytes.IndexByte(key, '\\') >= 0 {
		key = AppendUnquoted(nil, key)
	}
	return bytes.EqualFold(key, []byte(name))
}

// Unquote returns the value of a JSON string given with its quotes. It returns
// the text itself where that needs no decoding, else it appends to buf.
func Unquote(text, buf []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '"' {
		return nil, false
	}
	text = text[1 : len(text)-1]
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text, true
	}
	return AppendUnquoted(buf, text), true
}

// AppendUnquoted appends the value of a valid JSON string given without its
// quotes. What is not UTF-8 becomes the replacement character, as for the Go decoder.
func AppendUnquoted(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c != '\\':
			r, n := utf8.DecodeRune(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		case i+1 < len(text) && text[i+1] == 'u':
			r := hex4(text[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				r2 := rune(-1)
				if i+6 <= len(text) && text[i] == '\\' && text[i+1] == 'u' {
					r2 = hex4(text[i+2:])
				}
				if r = utf16.DecodeRune(r, r2); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		case i+1 < len(text):
			dst = append(dst, unescape(text[i+1]))
			i += 2
		default:
			return dst
		}
	}
	return dst
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends s as a JSON string. It escapes what JSON demands and no
// more; what is not UTF-8 becomes the replacement character.
func AppendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := decodeRune(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			if c >= utf8.RuneSelf {
				dst = append(dst, "\ufffd"...)
			} else {
				dst = append(dst, `\u00`...)
				dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
			}
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func decodeRune[T string | []byte](s T) (rune, int) {
	var buf [utf8.UTFMax]byte
	n := copy(buf[:], s)
	return utf8.DecodeRune(buf[:n])
}

// ParseUint returns the value of a JSON number that is an integer without sign,
// fraction or exponent and fits into that many bits.
func ParseUint(text []byte, size int) (uint64, bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, false
		}
		n = sum
	}
	return n, size >= 64 || n>>size == 0
}

// ParseInt is ParseUint with a sign and 64 bits.
func ParseInt(text []byte) (int64, bool) {
	if len(text) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil && text[0] != '+'
}
