package faktory

import (
	"bytes"
	"unicode/utf8"

	"millrace/internal/dialect/jsonscan"
)

// verb is the first word of a command.
type verb uint8

const (
	verbUnknown verb = iota
	verbPush
	verbPushB
	verbFetch
	verbAck
	verbFail
	verbBeat
	verbInfo
	verbQueue
	verbMutate
	verbFlush
	verbEnd
	verbTrack
	verbBatch
	verbHello // only at the beginning
	verbCount = int(verbHello) + 1
)

var verbNames = [verbCount]string{
	"", "PUSH", "PUSHB", "FETCH", "ACK", "FAIL", "BEAT", "INFO", "QUEUE", "MUTATE", "FLUSH", "END", "TRACK", "BATCH",
	"HELLO",
}

// splitLine returns the verb of a line as sent, and what follows the first space; nil if
// there is none. One CR at the end is dropped (protocol section 1).
func splitLine(line []byte) (word, arg []byte) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	word, arg, _ = bytes.Cut(line, []byte{' '})
	return word, arg
}

// parseVerb recognises a verb, which is in upper case.
func parseVerb(word []byte) verb {
	switch string(word) {
	case "PUSH":
		return verbPush
	case "PUSHB":
		return verbPushB
	case "FETCH":
		return verbFetch
	case "ACK":
		return verbAck
	case "FAIL":
		return verbFail
	case "BEAT":
		return verbBeat
	case "INFO":
		return verbInfo
	case "QUEUE":
		return verbQueue
	case "MUTATE":
		return verbMutate
	case "FLUSH":
		return verbFlush
	case "END":
		return verbEnd
	case "TRACK":
		return verbTrack
	case "BATCH":
		return verbBatch
	}
	return verbUnknown
}

// nextWord cuts the first word off a list separated by spaces; empty at its end.
func nextWord(list []byte) (word, rest []byte) {
	for len(list) > 0 && list[0] == ' ' {
		list = list[1:]
	}
	word, rest, _ = bytes.Cut(list, []byte{' '})
	return word, rest
}

func isNull(value []byte) bool { return string(value) == "null" }

// member returns the name of a member that an ObjectReader returned, decoded if it is
// spelled with escapes.
func member(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return jsonscan.AppendUnquoted(nil, key)
}

// parseString decodes a string; null is an empty one.
func parseString(value []byte) ([]byte, bool) {
	if isNull(value) {
		return nil, true
	}
	return jsonscan.Unquote(value, nil)
}

// parseInteger decodes an integer; null is zero.
func parseInteger(value []byte) (int64, bool) {
	if isNull(value) {
		return 0, true
	}
	return jsonscan.ParseInt(value)
}

// validUTF8 returns JSON in which every byte that is not part of UTF-8 is replaced by
// the replacement character, as Go's decoder reads it.
func validUTF8(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		out = utf8.AppendRune(out, r)
		text = text[n:]
	}
	return out
}

// cut returns the first bytes of a text, at most size, that end at a character.
func cut(text []byte, size int) []byte {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// echoMax is how much of a client's input is repeated in an error line.
const echoMax = 1024

// echo returns input for an error line: on one line, without control bytes, and not
// too long.
func echo(input []byte) string {
	shown := bytes.Clone(cut(input, echoMax))
	for i, c := range shown {
		if c < ' ' || c == 0x7f {
			shown[i] = ' '
		}
	}
	return string(shown)
}
