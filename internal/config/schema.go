package config

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// schemaNode is the part of JSON Schema that the file needs.
type schemaNode struct {
	Schema      string                 `json:"$schema,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        any                    `json:"type,omitempty"`
	Enum        []string               `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Items       *schemaNode            `json:"items,omitempty"`
	Default     any                    `json:"default,omitempty"`
	Properties  map[string]*schemaNode `json:"properties,omitempty"`
	// Additional is a pointer so that false is written: an unknown key is an error.
	Additional *bool `json:"additionalProperties,omitempty"`
}

// WriteSchema writes a JSON Schema of the configuration file, for editors.
func (t Table) WriteSchema(w io.Writer) error {
	root := sectionNode()
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "millrace configuration"
	for _, k := range t.keys {
		section, name := k.section()
		at := root
		for part := range strings.SplitSeq(section, ".") {
			if at.Properties[part] == nil {
				at.Properties[part] = sectionNode()
			}
			at = at.Properties[part]
		}
		at.Properties[name] = k.schema()
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(root)
}

func sectionNode() *schemaNode {
	return &schemaNode{Type: "object", Properties: make(map[string]*schemaNode), Additional: new(bool)}
}

func (k Key) schema() *schemaNode {
	n := &schemaNode{Description: k.Doc, Type: "string", Enum: k.Choices}
	if k.Default != "" {
		n.Default = k.Default
	}
	switch k.Kind {
	case KindString, KindPath, KindChoice:
	case KindBool:
		n.Type, n.Default = "boolean", k.Default == "true"
	case KindInt:
		n.Type = "integer"
		if v, err := strconv.Atoi(k.Default); err == nil {
			n.Default = v
		}
	case KindDuration:
		n.Pattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`
	case KindSize:
		n.Type = []string{"string", "integer"}
		n.Pattern = `^[0-9]+ *([KkMmGgTt][Ii]?[Bb]|[Bb])?$`
	case KindAddresses:
		n.Type = []string{"string", "array"}
		n.Items = &schemaNode{Type: "string"}
	}
	return n
}
