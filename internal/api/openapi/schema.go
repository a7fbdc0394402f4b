package openapi

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// words are those of the tag api of a field.
type words []string

func tagWords(f reflect.StructField) words { return strings.Fields(f.Tag.Get("api")) }

func (w words) has(word string) bool { return slices.Contains(w, word) }

// ofList reports whether a word is about a list, not about its elements.
func ofList(word string) bool {
	return strings.HasPrefix(word, "minItems=") || strings.HasPrefix(word, "maxItems=")
}

// wellKnown are the schemas of what the engine has names for.
func wellKnown() object {
	states := api.StateNames()
	var totals []string
	for c := range job.CounterCount {
		totals = append(totals, job.Counter(c).String())
	}
	numbers := func(about string, names []string) object {
		var each object
		for _, name := range names {
			each.set(name, object{{"type", "integer"}, {"minimum", 0}})
		}
		return object{
			{"type", "object"},
			{"description", about},
			{"properties", each},
			{"required", names},
			{"additionalProperties", false},
		}
	}
	return object{
		{"State", object{{"type", "string"}, {"description", "The states of a job."}, {"enum", states}}},
		{"Counts", numbers("Jobs by state.", states)},
		{"Totals", numbers("What happened to the jobs of a queue since it was made.", totals)},
	}
}

// content is what a request or an answer holds.
func (g *generator) content(value any) any {
	lines, isLines := value.(api.Lines)
	if !isLines {
		return g.schema(reflect.TypeOf(value), nil)
	}
	each := make([]any, 0, len(lines))
	for _, t := range g.typesOf(lines) {
		each = append(each, g.schema(t, nil))
	}
	if len(each) == 1 {
		return each[0]
	}
	return object{{"oneOf", each}}
}

// typesOf returns the types of a request or an answer.
func (g *generator) typesOf(value any) []reflect.Type {
	lines, isLines := value.(api.Lines)
	if !isLines {
		lines = api.Lines{value}
	}
	var types []reflect.Type
	for _, line := range lines {
		t := reflect.TypeOf(line)
		if name, ok := line.(api.Elsewhere); ok {
			if t = g.elsewhere[string(name)]; t == nil {
				g.fail("no type %s", name)
				continue
			}
		}
		types = append(types, t)
	}
	return types
}

// noteRequest notes that clients send values of these types, and of those that they hold.
func (g *generator) noteRequest(types ...reflect.Type) {
	for _, t := range types {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || g.requests[t] {
			continue
		}
		g.requests[t] = true
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous {
				g.noteRequest(f.Type)
			}
		}
	}
}

// schema describes a type with the words of a field that has it.
func (g *generator) schema(t reflect.Type, w words) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var o object
	switch {
	case t == reflect.TypeFor[time.Time]():
		o = object{{"type", "string"}, {"format", "date-time"}}
	case t == reflect.TypeFor[json.RawMessage]():
		o = object{}
	case t == reflect.TypeFor[[]byte]():
		o = object{{"type", "string"}, {"contentEncoding", "base64"}}
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		var outer, inner words
		for _, word := range w {
			if ofList(word) {
				outer = append(outer, word)
			} else {
				inner = append(inner, word)
			}
		}
		o = object{{"type", "array"}, {"items", g.schema(t.Elem(), inner)}}
		if t.Kind() == reflect.Array {
			o = append(o, member{"minItems", t.Len()}, member{"maxItems", t.Len()})
		}
		w = outer
	case t.Kind() == reflect.Map && t.Name() != "":
		return ref("schemas", t.Name())
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface:
		return object{{"type", "object"}}
	case t.Kind() == reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", g.schema(t.Elem(), w)}}
	case t.Kind() == reflect.Struct:
		g.define(t)
		return ref("schemas", t.Name())
	case t.Kind() == reflect.String && t.Name() != "string":
		g.schemas.set(t.Name(), object{
			{"type", "string"}, {"description", g.notes.types[t.Name()]}, {"enum", g.notes.values[t.Name()]},
		})
		return ref("schemas", t.Name())
	case t.Kind() == reflect.String:
		o = object{{"type", "string"}}
	case t.Kind() == reflect.Bool:
		o = object{{"type", "boolean"}}
	default:
		o = number(t, w)
	}
	return g.bounded(o, w)
}

// number describes a number. It is not negative, unless its words say so.
func number(t reflect.Type, w words) object {
	o := object{{"type", "integer"}}
	if t.Kind() == reflect.Float64 {
		o = object{{"type", "number"}}
	}
	switch {
	case t == reflect.TypeFor[job.ID]():
		o.set("minimum", 1)
	case !w.has("signed"):
		o.set("minimum", 0)
	}
	switch t.Kind() { //nolint:exhaustive // the others have no bound that is worth telling
	case reflect.Uint8:
		o.set("maximum", math.MaxUint8)
	case reflect.Uint32:
		o.set("maximum", uint32(math.MaxUint32))
	}
	return o
}

// bounded adds what the words of a field say.
func (g *generator) bounded(o object, w words) object {
	for _, word := range w {
		key, value, isPair := strings.Cut(word, "=")
		switch {
		case key == "is":
			o = ref("schemas", value)
		case key == "enum":
			o.set(key, strings.Split(value, "|"))
		case isPair && json.Valid([]byte(value)):
			o.set(key, json.RawMessage(value))
		case isPair:
			o.set(key, value)
		}
	}
	return o
}

// define adds the schema of a struct.
func (g *generator) define(t reflect.Type) {
	for _, m := range g.schemas {
		if m.name == t.Name() {
			return
		}
	}
	g.schemas.set(t.Name(), nil) // a type may hold itself
	props, required := g.properties(t, g.requests[t])
	o := object{{"type", "object"}, {"description", g.notes.types[t.Name()]}, {"properties", props}}
	if len(required) > 0 {
		o.set("required", required)
	}
	o.set("additionalProperties", false)
	g.schemas.set(t.Name(), o)
}

// properties are the members of a struct, and those that are always there. A request may leave out what is optional.
func (g *generator) properties(t reflect.Type, isRequest bool) (props object, required []string) {
	if g.notes.types[t.Name()] == "" {
		g.fail("type %s has no comment", t.Name())
	}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner, needed := g.properties(f.Type, isRequest)
			props, required = append(props, inner...), append(required, needed...)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			g.fail("%s.%s has no name in JSON", t.Name(), f.Name)
			continue
		}
		w := tagWords(f)
		s := g.schema(f.Type, w)
		if about := g.notes.field(t.Name(), f.Name); about != "" {
			s.set("description", about)
		}
		if t == reflect.TypeFor[api.Problem]() && name == "type" {
			s.set("enum", problemTypes())
		}
		props.set(name, s)
		if options == "" && (!isRequest || !w.has("optional")) {
			required = append(required, name)
		}
	}
	return props, required
}

// needsSomething reports whether a request must hold anything.
func (g *generator) needsSomething(t reflect.Type) bool {
	_, required := g.properties(t, true)
	return len(required) > 0
}

func problemTypes() []string {
	var list []string
	for _, k := range api.ProblemKinds {
		list = append(list, k.URN())
	}
	return list
}

// fail notes the first thing that is wrong with the table or the types.
func (g *generator) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}
