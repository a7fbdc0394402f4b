package testkit

import (
	"encoding/json"
	"mime"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// OpenAPI is an OpenAPI document, as far as tests look at it.
type OpenAPI struct {
	OpenAPI    string                                `json:"openapi"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas    map[string]Schema            `json:"schemas"`
		Responses  map[string]OpenAPIResponse   `json:"responses"`
		Parameters map[string]OpenAPIParameter  `json:"parameters"`
		Headers    map[string]json.RawMessage   `json:"headers"`
		Security   map[string]map[string]string `json:"securitySchemes"`
	} `json:"components"`
}

// OpenAPIResponse is one of the answers of an operation, or a reference to one.
type OpenAPIResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema Schema `json:"schema"`
	} `json:"content"`
}

// OpenAPIParameter is a parameter of an operation, or a reference to one.
type OpenAPIParameter struct {
	Ref  string `json:"$ref"`
	Name string `json:"name"`
	In   string `json:"in"`
}

// OpenAPIOperation is one call of an API.
type OpenAPIOperation struct {
	Summary    string                     `json:"summary"`
	Parameters []OpenAPIParameter         `json:"parameters"`
	Responses  map[string]OpenAPIResponse `json:"responses"`
}

// LoadOpenAPI reads a document.
func LoadOpenAPI(tb testing.TB, text []byte) *OpenAPI {
	tb.Helper()
	var d OpenAPI
	if err := json.Unmarshal(text, &d); err != nil {
		tb.Fatal(err)
	}
	if d.OpenAPI != "3.1.0" {
		tb.Errorf("version %q", d.OpenAPI)
	}
	return &d
}

// Operation returns the operation of a method and a path; nil if there is none. Its parameters are
// resolved.
func (d *OpenAPI) Operation(tb testing.TB, method, path string) *OpenAPIOperation {
	tb.Helper()
	text := d.Paths[path][strings.ToLower(method)]
	if text == nil {
		return nil
	}
	var o OpenAPIOperation
	if err := json.Unmarshal(text, &o); err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	for i, p := range o.Parameters {
		if name, isRef := strings.CutPrefix(p.Ref, "#/components/parameters/"); isRef {
			o.Parameters[i] = d.Components.Parameters[name]
			if o.Parameters[i].Name == "" {
				tb.Errorf("%s %s: no parameter %q", method, path, name)
			}
		}
	}
	return &o
}

// Operations returns all operations, as "METHOD path", sorted.
func (d *OpenAPI) Operations() []string {
	var list []string
	for path, item := range d.Paths {
		for method := range item {
			if method != "parameters" {
				list = append(list, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Fits checks an answer against what the document says about its operation: the code, and if it is JSON
// the whole of it.
func (d *OpenAPI) Fits(tb testing.TB, o *OpenAPIOperation, what string, w *httptest.ResponseRecorder) {
	tb.Helper()
	listed, ok := o.Responses[strconv.Itoa(w.Code)]
	if !ok {
		tb.Errorf("%s: %d is not in the document (%s)", what, w.Code, w.Body)
		return
	}
	if name, isRef := strings.CutPrefix(listed.Ref, "#/components/responses/"); isRef {
		if listed, ok = d.Components.Responses[name]; !ok {
			tb.Errorf("%s: no response %q", what, name)
		}
	}
	if len(listed.Content) == 0 {
		if w.Body.Len() > 0 {
			tb.Errorf("%s: %d has a body: %s", what, w.Code, w.Body)
		}
		return
	}
	kind, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	content, ok := listed.Content[kind]
	if err != nil || !ok {
		tb.Errorf("%s: %d is %q, which is not in the document", what, w.Code, w.Header().Get("Content-Type"))
		return
	}
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return
	}
	var value any
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		tb.Errorf("%s: %d %s: %v", what, w.Code, w.Body, err)
	} else if problem := d.Check(content.Schema, value); problem != "" {
		tb.Errorf("%s: %d %s: %s", what, w.Code, w.Body, problem)
	}
}
