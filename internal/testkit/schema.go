package testkit

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Schema is a JSON schema.
type Schema map[string]any

// Check returns what is wrong with a decoded JSON value by a schema; empty if nothing is. A keyword
// that it does not know is wrong, too.
func (d *OpenAPI) Check(s Schema, value any) string {
	for key, arg := range s {
		if problem := d.checkKey(s, key, arg, value); problem != "" {
			return key + ": " + problem
		}
	}
	return ""
}

func (d *OpenAPI) checkKey(s Schema, key string, arg, value any) string {
	object, _ := value.(map[string]any)
	list, isList := value.([]any)
	failed := false
	switch key {
	case "$ref":
		name, _ := strings.CutPrefix(textOf(arg), "#/components/schemas/")
		if d.Components.Schemas[name] == nil {
			return "no such schema: " + name
		}
		return d.Check(d.Components.Schemas[name], value)
	case "type":
		names, several := arg.([]any)
		if !several {
			names = []any{arg}
		}
		failed = !slices.ContainsFunc(names, func(name any) bool { return isType(textOf(name), value) })
	case "properties":
		return d.checkProperties(schemaOf(arg), object)
	case "required":
		for _, name := range listOf(arg) {
			if _, ok := object[textOf(name)]; !ok {
				return textOf(name) + " is missing"
			}
		}
	case "additionalProperties":
		return d.checkMore(s, arg, object)
	case "items":
		for _, v := range list {
			if problem := d.Check(schemaOf(arg), v); problem != "" {
				return problem
			}
		}
	case "oneOf":
		fits := 0
		for _, sub := range listOf(arg) {
			if d.Check(schemaOf(sub), value) == "" {
				fits++
			}
		}
		failed = fits != 1
	case "const":
		failed = !reflect.DeepEqual(arg, value)
	case "enum":
		failed = !slices.ContainsFunc(listOf(arg), func(v any) bool { return reflect.DeepEqual(v, value) })
	case "minItems":
		failed = isList && float64(len(list)) < numberOf(arg)
	case "maxItems":
		failed = isList && float64(len(list)) > numberOf(arg)
	case "minimum", "maximum", "pattern":
		failed = !inBounds(key, arg, value)
	case "description", "contentEncoding", "default", "maxLength", "minLength", "format": // for people
	default:
		return "not known to the test"
	}
	if failed {
		return fmt.Sprintf("%v does not fit %v", value, arg)
	}
	return ""
}

func (d *OpenAPI) checkProperties(known Schema, object map[string]any) string {
	for name, sub := range known {
		if v, ok := object[name]; ok {
			if problem := d.Check(schemaOf(sub), v); problem != "" {
				return name + ": " + problem
			}
		}
	}
	return ""
}

func (d *OpenAPI) checkMore(s Schema, arg any, object map[string]any) string {
	known := schemaOf(s["properties"])
	for name, v := range object {
		if _, ok := known[name]; ok {
			continue
		}
		sub, isSchema := arg.(map[string]any)
		if !isSchema {
			return name + " is one more"
		}
		if problem := d.Check(sub, v); problem != "" {
			return problem
		}
	}
	return ""
}

// inBounds checks what concerns only numbers, or only texts.
func inBounds(key string, arg, value any) bool {
	number, isNumber := value.(float64)
	text, isText := value.(string)
	switch key {
	case "minimum":
		return !isNumber || number >= numberOf(arg)
	case "maximum":
		return !isNumber || number <= numberOf(arg)
	default:
		return !isText || regexp.MustCompile(textOf(arg)).MatchString(text)
	}
}

func textOf(v any) string { text, _ := v.(string); return text }

func numberOf(v any) float64 { n, _ := v.(float64); return n }

func listOf(v any) []any { list, _ := v.([]any); return list }

func schemaOf(v any) Schema { s, _ := v.(map[string]any); return s }

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
