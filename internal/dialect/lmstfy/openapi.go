package lmstfy

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Where the documents of the APIs are served: both on the admin listener, that of the public API on
// the public one, too.
const (
	openapiPath      = "/openapi.json"
	openapiAdminPath = "/openapi-admin.json"
)

// object is a JSON object of a document.
type object = map[string]any

// operation is what a document tells about a call besides its method, its path and who may make it.
type operation struct {
	id, summary string
	params      []string // names of parameters besides those in the path
	body        object   // of the request, if it needs one
	// answers are those that it does not share with other calls, by code.
	answers map[int]object
}

// document is an OpenAPI document: the calls, and what they refer to.
type document struct {
	title, about string
	security     object // the ways to prove who one is
	params       object
	schemas      object
	refusals     map[int]object // the answers that calls share, by code
	paths        map[string]object
}

var inPath = regexp.MustCompile(`:(\w+)`)

// add adds a call that may be refused with the codes, and needs one of the proofs if there are any.
func (d *document) add(method, path string, o *operation, proofs []string, codes ...int) {
	params, security, answers := []object{}, []object{}, maps.Clone(o.answers)
	for _, segment := range inPath.FindAllStringSubmatch(path, -1) {
		params = append(params, ref("parameters", segment[1]))
	}
	for _, name := range o.params {
		params = append(params, ref("parameters", name))
	}
	for _, name := range proofs {
		security = append(security, object{name: []string{}})
	}
	for _, code := range codes {
		if answers[code] == nil {
			answers[code] = ref("responses", refusalName(code))
		}
	}
	call := object{
		"operationId": o.id, "summary": o.summary, "parameters": params, "security": security, "responses": answers,
	}
	if o.body != nil {
		call["requestBody"] = o.body
	}
	template := inPath.ReplaceAllString(path, "{$1}")
	if d.paths[template] == nil {
		d.paths[template] = object{}
	}
	d.paths[template][strings.ToLower(method)] = call
}

// text renders the document.
func (d *document) text() []byte {
	refusals := object{}
	for code, answer := range d.refusals {
		refusals[refusalName(code)] = answer
	}
	b, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info":    object{"title": d.title, "version": "1.0.0", "description": d.about},
		"paths":   d.paths,
		"components": object{
			"securitySchemes": d.security,
			"headers": object{"RequestID": object{
				"description": "A ULID that names the request.",
				"schema":      object{"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"},
			}},
			"parameters": d.params,
			"schemas":    d.schemas,
			"responses":  refusals,
		},
	}, "", "  ")
	if err != nil {
		panic(err) // it holds nothing that JSON does not have
	}
	return append(b, '\n')
}

// refusalName makes a name of the text of a code.
func refusalName(code int) string { return strings.ReplaceAll(http.StatusText(code), " ", "") }

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

func schema(name string) object { return ref("schemas", name) }

// answer is an answer without content.
func answer(about string) object {
	return object{"description": about, "headers": object{headerRequestID: ref("headers", "RequestID")}}
}

// answerJSON is an answer with a value of the schema, or of one of several.
func answerJSON(about string, schemas ...object) object {
	schema := schemas[0]
	if len(schemas) > 1 {
		schema = object{"oneOf": schemas}
	}
	a := answer(about)
	a["content"] = content("application/json", schema)
	return a
}

// answerText is an answer in another format.
func answerText(about string, media ...string) object {
	a, all := answer(about), object{}
	for _, m := range media {
		maps.Copy(all, content(m, textSchema))
	}
	a["content"] = all
	return a
}

// found and done are the answers of calls whose success is a value of a schema, or nothing to tell.
func found(about string, schema object) map[int]object {
	return map[int]object{http.StatusOK: answerJSON(about, schema)}
}

func done(about string) map[int]object { return map[int]object{http.StatusNoContent: answer(about)} }

func content(media string, schema object) object { return object{media: object{"schema": schema}} }

// parameter is one in the path, the query or a header.
func parameter(in, name, about string, schema object) object {
	p := object{"in": in, "name": name, "schema": schema}
	if about != "" {
		p["description"] = about
	}
	if in == "path" {
		p["required"] = true
	}
	return p
}

var (
	textSchema  = object{"type": "string"}
	countSchema = object{"type": "integer", "minimum": 0}
)

// record is the schema of an object with these members and no others. All but the optional ones are always there.
func record(members map[string]object, optional ...string) object {
	required := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(name string) bool {
		return slices.Contains(optional, name)
	})
	return object{"type": "object", "properties": members, "required": required, "additionalProperties": false}
}

// The schemas that both documents have.
var (
	errorSchema   = record(map[string]object{"error": textSchema})
	messageSchema = record(map[string]object{"msg": textSchema})
)
