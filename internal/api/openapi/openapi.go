package openapi

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"millrace/internal/api"
	"millrace/internal/auth"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// set adds a member, or gives it another value.
func (o *object) set(name string, value any) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// Generate returns the document. The directories of the tree hold the source of all types that the table of routes
// names. Elsewhere are the types that it names without knowing them.
func Generate(routes []api.Route, tree fs.FS, dirs []string, elsewhere ...any) ([]byte, error) {
	notes, err := readNotes(tree, dirs)
	if err != nil {
		return nil, err
	}
	g := &generator{notes: notes, schemas: wellKnown(), requests: make(map[reflect.Type]bool), parts: partFields()}
	g.elsewhere = make(map[string]reflect.Type)
	for _, e := range elsewhere {
		g.elsewhere[reflect.TypeOf(e).Name()] = reflect.TypeOf(e)
	}
	for i := range routes {
		if routes[i].In != nil {
			g.noteRequest(g.typesOf(routes[i].In)...)
		}
	}
	var paths object
	byPath := make(map[string]*object)
	for i := range routes {
		r := &routes[i]
		if byPath[r.Path] == nil {
			byPath[r.Path] = new(object)
			paths.set(r.Path, byPath[r.Path])
		}
		byPath[r.Path].set(strings.ToLower(r.Method), g.operation(r))
	}
	text, err := json.MarshalIndent(object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Millrace operator API"},
			{"version", "1.0.0"},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
			{"description", "What an operator sees and does, and pushing and fetching over HTTP. Requests that " +
				"change something are refused if they come from another site, and need the operator role once a " +
				"password or token is configured."},
		}},
		{"servers", []object{{{"url", "."}}}},
		{"security", []object{{{"basic", []string{}}}, {{"bearer", []string{}}}}},
		{"paths", paths},
		{"components", object{
			{"securitySchemes", object{
				{"basic", object{{"type", "http"}, {"scheme", "basic"}}},
				{"bearer", object{{"type", "http"}, {"scheme", "bearer"}}},
			}},
			{"responses", g.refusals()},
			{"schemas", g.schemas},
		}},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), g.err
}

// generator gathers what the operations refer to.
type generator struct {
	notes     *notes
	parts     map[string]reflect.StructField // of paths, by name
	elsewhere map[string]reflect.Type
	requests  map[reflect.Type]bool // types of which clients send values
	schemas   object
	refused   map[int]bool
	err       error
}

// operation describes a call.
func (g *generator) operation(r *api.Route) object {
	o := object{{"operationId", r.ID}, {"tags", []string{r.Tag}}, {"summary", r.Summary}}
	if r.About != "" {
		o.set("description", r.About)
	}
	if r.Role == auth.RoleNone {
		o.set("security", []string{})
	}
	if params := g.parameters(r); len(params) > 0 {
		o.set("parameters", params)
	}
	codes := append([]int{http.StatusBadRequest, http.StatusForbidden}, r.Refuses...)
	if r.In != nil {
		required, media := true, api.MediaLines
		if _, isLines := r.In.(api.Lines); !isLines {
			required, media = g.needsSomething(reflect.TypeOf(r.In)), "application/json"
		}
		o.set("requestBody", object{{"required", required}, {"content", g.media(media, r.In)}})
		codes = append(codes, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if r.Role > auth.RoleNone {
		codes = append(codes, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError)
	}
	if r.Tag != "health" { // probes may ask by every name of the host
		codes = append(codes, http.StatusMisdirectedRequest)
	}
	if !r.Anywhere { // the server stops, or no node leads
		codes = append(codes, http.StatusServiceUnavailable)
	}
	o.set("responses", g.responses(r, codes))
	return o
}

// media is what a request or an answer holds, in the form of a media type.
func (g *generator) media(name string, value any) object {
	return object{{name, object{{"schema", g.content(value)}}}}
}

// responses are the answers of a call, in the order of their codes.
func (g *generator) responses(r *api.Route, codes []int) object {
	success := object{{"description", r.Gives}}
	switch _, isLines := r.Out.(api.Lines); {
	case isLines:
		success.set("content", g.media(api.MediaLines, r.Out))
	case r.Out != nil:
		success.set("content", g.media("application/json", r.Out))
	case r.Media != "":
		success.set("content", object{{r.Media, object{{"schema", object{{"type", "string"}}}}}})
	}
	if r.Location {
		success.set("headers", object{{"Location", object{
			{"description", "Where it is."},
			{"schema", object{{"type", "string"}}},
		}}})
	}
	byCode := map[int]any{r.OK: success}
	for _, code := range codes {
		byCode[code] = ref("responses", refusalName(code))
		if r.Role == auth.RoleNone && code == http.StatusServiceUnavailable { // a probe says no in its own words
			byCode[code] = object{{"description", "It cannot."}, success[1]}
			continue
		}
		if g.refused == nil {
			g.refused = make(map[int]bool)
		}
		g.refused[code] = true
	}
	var out object
	for code := range 600 {
		if answer, ok := byCode[code]; ok {
			out.set(strconv.Itoa(code), answer)
		}
	}
	return out
}

// refusalName makes a name of the text of a code.
func refusalName(code int) string { return strings.ReplaceAll(http.StatusText(code), " ", "") }

// refusals are the answers that calls have in common, by the problems there are.
func (g *generator) refusals() object {
	var out object
	for code := range 600 {
		if !g.refused[code] {
			continue
		}
		var titles []string
		for _, k := range api.ProblemKinds {
			if k.Status() == code {
				titles = append(titles, sentence(k.Title()))
			}
		}
		out.set(refusalName(code), object{
			{"description", strings.Join(titles, " Or: ")},
			{"content", g.media("application/problem+json", api.Problem{})},
		})
	}
	return out
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// parameters are those of the path and of the query.
func (g *generator) parameters(r *api.Route) []object {
	var list []object
	for _, m := range inPath.FindAllStringSubmatch(r.Path, -1) {
		list = append(list, g.parameter(m[1], "path", reflect.TypeFor[api.PathParts](), g.parts[m[1]]))
	}
	for _, p := range r.Params() {
		list = append(list, g.parameter(p.Name, "query", p.Of, p.Field))
	}
	return list
}

func (g *generator) parameter(name, in string, of reflect.Type, f reflect.StructField) object {
	words := tagWords(f)
	o := object{{"name", name}, {"in", in}}
	if in == "path" || words.has("required") {
		o.set("required", true)
	}
	o.set("description", g.notes.field(of.Name(), f.Name))
	if f.Type.Kind() == reflect.Slice { // separated by commas
		o.set("explode", false)
	}
	o.set("schema", g.schema(f.Type, words))
	return o
}

// partFields finds the fields of paths.
func partFields() map[string]reflect.StructField {
	m := make(map[string]reflect.StructField)
	for f := range reflect.TypeFor[api.PathParts]().Fields() {
		m[f.Tag.Get("path")] = f
	}
	return m
}

func ref(kind, name string) object { return object{{"$ref", "#/components/" + kind + "/" + name}} }
