package lmstfy

import (
	"net/http"
	"slices"
	"strings"

	"millrace/internal/dialect/jsonscan"
)

// The headers of job attributes, in the form that net/http gives to names.
const (
	headerVersion   = "Enable-Job-Version"
	headerTrace     = "traceparent"
	attributePrefix = "Job-Attr-"

	attributesMax     = 16
	attributeNameMax  = 32
	attributeValueMax = 128
)

// hasAttributes reports whether a request enables attributes.
func hasAttributes(h http.Header) bool {
	v := h[headerVersion]
	return len(v) > 0 && strings.EqualFold(v[0], "yes")
}

// attribute is one pair of a job's attributes.
type attribute struct{ name, value string }

// appendAttributes renders the attributes in a request's headers as a JSON object,
// or as nothing if there are none. It is not ok if there are too many.
func appendAttributes(b []byte, h http.Header) (object []byte, ok bool) {
	var list []attribute
	for key, values := range h {
		name, isAttribute := strings.CutPrefix(key, attributePrefix)
		if !isAttribute || name == "" || len(values) == 0 || values[0] == "" {
			continue
		}
		list = append(list, attribute{strings.ToLower(cut(name, attributeNameMax)), cut(values[0], attributeValueMax)})
	}
	// Names that are the same once cut are one attribute; which of them wins must not
	// depend on the order of a map.
	slices.SortFunc(list, func(a, b attribute) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	list = slices.CompactFunc(list, func(a, b attribute) bool { return a.name == b.name })
	if len(list) > attributesMax {
		return b, false
	}
	return appendObject(b, list), true
}

// appendObject renders attributes as a JSON object, or as nothing if there are none.
func appendObject(b []byte, list []attribute) []byte {
	for i, a := range list {
		b = jsonscan.AppendQuoted(append(b, "{,"[min(i, 1)]), a.name)
		b = jsonscan.AppendQuoted(append(b, ':'), a.value)
	}
	if len(list) > 0 {
		b = append(b, '}')
	}
	return b
}

// cut returns the first n bytes of a text.
func cut(text string, n int) string { return text[:min(len(text), n)] }
