package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// Misread tells what is wrong with JSON that does not fit a value, in the words of the API instead of those of Go.
func Misread(err error, text []byte, value any) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := jsonPath(wrong.Field)
		if field == "" {
			return fmt.Sprintf("the JSON is %s: send %s", article(wrong.Value), kindOf(wrong.Type))
		}
		return fmt.Sprintf("%s: it is %s: send %s", field, article(wrong.Value), kindOf(wrong.Type))
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("the JSON cannot be read at byte %d: %s", wrong.Offset, wrong)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return misfit(text, value) + fmt.Sprintf("%q is no time: write it like 2006-01-02T15:04:05Z", wrong.Value)
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return misfit(text, value) + "this is not in base64"
	}
	words := strings.TrimPrefix(err.Error(), "json: ")
	switch field, isField := strings.CutPrefix(words, "unknown field "); {
	case isField:
		return "there is no field " + field + " here"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return "the JSON cannot be read: it ends too early"
	case strings.HasPrefix(words, "Time."):
		return misfit(text, value) + "a time is a string: write it like \"2006-01-02T15:04:05Z\""
	}
	return "the JSON cannot be read: " + words
}

// misfit names the field that cannot be read, with a colon. The decoder does not tell which one it was where a text has
// a form of its own.
func misfit(text []byte, value any) string {
	names := misfitIn(reflect.TypeOf(value), text)
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ".") + ": "
}

// misfitIn returns the names that lead to the first part that cannot be read.
func misfitIn(t reflect.Type, text []byte) []string {
	var elements []json.RawMessage
	var members map[string]json.RawMessage
	switch {
	case t.Kind() == reflect.Pointer:
		return misfitIn(t.Elem(), text)
	case t.Kind() == reflect.Slice && json.Unmarshal(text, &elements) == nil:
		for _, element := range elements {
			if !isOf(t.Elem(), element) {
				return misfitIn(t.Elem(), element)
			}
		}
	case t.Kind() == reflect.Struct && json.Unmarshal(text, &members) == nil:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member, ok := members[name]; ok && !isOf(f.Type, member) {
				return append([]string{name}, misfitIn(f.Type, member)...)
			}
		}
	}
	return nil
}

// isOf reports whether JSON can be read as a type.
func isOf(t reflect.Type, text []byte) bool {
	return json.Unmarshal(text, reflect.New(t).Interface()) == nil
}

// jsonPath leaves out the names of structs that are parts of others: the API knows nothing of them.
func jsonPath(field string) string {
	var names []string
	for name := range strings.SplitSeq(field, ".") {
		if name != "" && (name[0] < 'A' || name[0] > 'Z') {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

// article puts one before the name that the decoder has for a kind of value.
func article(value string) string {
	if value == "array" || value == "object" {
		return "an " + value
	}
	if _, isNumber := strings.CutPrefix(value, "number "); isNumber {
		return "the " + value
	}
	if value == "bool" {
		return "true or false"
	}
	return "a " + value
}

// kindOf names what a value of a type must be.
func kindOf(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t == reflect.TypeFor[[]byte]():
		return "a string in base64"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return "an array"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "an object"
	case t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<(t.Bits()-1)<<1-1)
	}
	return "a whole number"
}
