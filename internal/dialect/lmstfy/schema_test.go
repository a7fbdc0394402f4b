package lmstfy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// check returns what is wrong with a value by a schema; empty if nothing is. A keyword that
// it does not know is wrong, too.
func (d *document) check(s schema, value any) string {
	for key, arg := range s {
		if problem := d.checkKey(s, key, arg, value); problem != "" {
			return key + ": " + problem
		}
	}
	return ""
}

func (d *document) checkKey(s schema, key string, arg, value any) string {
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	number, isNumber := value.(float64)
	text, isText := value.(string)
	failed := false
	switch key {
	case "$ref":
		name, _ := strings.CutPrefix(arg.(string), "#/components/schemas/")
		if d.Components.Schemas[name] == nil {
			return "no such schema"
		}
		return d.check(d.Components.Schemas[name], value)
	case "type":
		names, several := arg.([]any)
		if !several {
			names = []any{arg}
		}
		failed = !slices.ContainsFunc(names, func(name any) bool { return isType(name.(string), value) })
	case "properties":
		for name, sub := range arg.(map[string]any) {
			if v, ok := object[name]; ok {
				if problem := d.check(sub.(map[string]any), v); problem != "" {
					return name + ": " + problem
				}
			}
		}
	case "required":
		for _, name := range arg.([]any) {
			_, ok := object[name.(string)]
			failed = failed || !ok
		}
	case "additionalProperties":
		known, _ := s["properties"].(map[string]any)
		for name, v := range object {
			if _, ok := known[name]; ok {
				continue
			}
			sub, isSchema := arg.(map[string]any)
			if !isSchema {
				return fmt.Sprintf("%s is one more", name)
			}
			if problem := d.check(sub, v); problem != "" {
				return problem
			}
		}
	case "items":
		for _, v := range list {
			if problem := d.check(arg.(map[string]any), v); problem != "" {
				return problem
			}
		}
	case "oneOf":
		fits := 0
		for _, sub := range arg.([]any) {
			if d.check(sub.(map[string]any), value) == "" {
				fits++
			}
		}
		failed = fits != 1
	case "const":
		failed = !reflect.DeepEqual(arg, value)
	case "enum":
		failed = !slices.ContainsFunc(arg.([]any), func(v any) bool { return reflect.DeepEqual(v, value) })
	case "minimum":
		failed = isNumber && number < arg.(float64)
	case "maximum":
		failed = isNumber && number > arg.(float64)
	case "minItems":
		failed = float64(len(list)) < arg.(float64)
	case "maxItems":
		failed = float64(len(list)) > arg.(float64)
	case "pattern":
		failed = isText && !regexp.MustCompile(arg.(string)).MatchString(text)
	case "description", "contentEncoding", "default", "maxLength", "minLength": // for people
	default:
		return "not known to the test"
	}
	if failed {
		return fmt.Sprintf("%v does not fit %v", value, arg)
	}
	return ""
}

func isType(name string, value any) bool {
	switch v := value.(type) {
	case nil:
		return name == "null"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

// TestCheck makes sure that the test's own validator can fail.
func TestCheck(t *testing.T) {
	t.Parallel()
	d := loadDocument(t, openapiPublic)
	good := `{"namespace":"n","queue":"q","size":1}`
	for _, bad := range []string{
		`{"namespace":"n","queue":"q"}`, `{"namespace":"n","queue":"q","size":-1}`, `{"namespace":"n","queue":"q","size":1.5}`,
		`{"namespace":"n","queue":"q","size":"1"}`, `{"namespace":null,"queue":"q","size":1}`, `{"namespace":"n","queue":"q","size":1,"more":1}`, `[]`,
	} {
		var value any
		if err := json.Unmarshal([]byte(bad), &value); err != nil {
			t.Fatal(err)
		}
		if d.check(d.Components.Schemas["Size"], value) == "" {
			t.Errorf("%s is taken for a size", bad)
		}
	}
	var value any
	if err := json.NewDecoder(bytes.NewReader([]byte(good))).Decode(&value); err != nil {
		t.Fatal(err)
	}
	if problem := d.check(d.Components.Schemas["Size"], value); problem != "" {
		t.Errorf("%s: %s", good, problem)
	}
	if d.check(schema{"unheard": 1}, value) == "" {
		t.Error("an unknown keyword passes")
	}
}
